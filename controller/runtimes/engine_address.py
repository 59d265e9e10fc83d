"""Where the container engine is, as Docker's own command line decides it; nothing is asked and no library imported.

In this order: a context named by the user, DOCKER_HOST, DOCKER_CONTEXT, the current context of the configuration
file, and the sockets where an engine listens by default.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.errors import UnknownNameError, UsageError

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """``url`` such as unix:///var/run/docker.sock; ``context`` empty when it comes from no context; ``certificates``
    is a folder with ca.pem, cert.pem and key.pem, or None without TLS."""

    url: str
    context: str = ""
    certificates: Path | None = None
    verified: bool = True

    @property
    def scheme(self) -> str:
        return self.url.partition("://")[0]

    @property
    def socket(self) -> Path | None:
        """The Unix socket, or None for another kind of address."""
        return Path(self.url.removeprefix("unix://")) if self.scheme == "unix" else None

    def may_answer(self) -> bool:
        """False where it is known without asking that nobody listens."""
        return self.socket is None or self.socket.exists()

    def text(self) -> str:
        """For people."""
        return f"{self.url} (context {self.context})" if self.context else self.url


def find(context: str = "", environment: Mapping[str, str] = os.environ) -> EngineAddress:
    """The engine's address. Raises UnknownNameError for a context that does not exist."""
    if not context and environment.get("DOCKER_HOST"):
        return _from_variables(environment)
    folder = Path(environment.get("DOCKER_CONFIG") or Path.home() / ".docker")
    name = context or environment.get("DOCKER_CONTEXT") or _current(folder)
    if name and name != DEFAULT:
        return _from_context(folder, name)
    return EngineAddress(_default_url(environment), DEFAULT if context else "")


def _from_variables(environment: Mapping[str, str]) -> EngineAddress:
    certificates = environment.get("DOCKER_CERT_PATH")
    verified = bool(environment.get("DOCKER_TLS_VERIFY"))
    folder = Path(certificates) if certificates else None
    if folder is None and verified:
        folder = Path.home() / ".docker"
    return EngineAddress(environment["DOCKER_HOST"], "", folder, verified)


def _current(folder: Path) -> str:
    try:
        return str(json.loads((folder / "config.json").read_text(encoding="utf-8")).get("currentContext") or "")
    except (OSError, ValueError, AttributeError):
        return ""


def _from_context(folder: Path, name: str) -> EngineAddress:
    identifier = hashlib.sha256(name.encode("utf-8")).hexdigest()
    path = folder / "contexts" / "meta" / identifier / "meta.json"
    if not path.is_file():
        raise UnknownNameError("Docker context", name, [DEFAULT, *_names(folder)])
    try:
        endpoint: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["Endpoints"]["docker"]
        url = str(endpoint["Host"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(f"Docker context {name!r}: {path} cannot be read", f"docker context inspect {name}") from error
    certificates = folder / "contexts" / "tls" / identifier / "docker"
    verified = not endpoint.get("SkipTLSVerify", False)
    return EngineAddress(url, name, certificates if certificates.is_dir() else None, verified)


def _names(folder: Path) -> list[str]:
    names = []
    for path in (folder / "contexts" / "meta").glob("*/meta.json"):
        try:
            names.append(str(json.loads(path.read_text(encoding="utf-8"))["Name"]))
        except (OSError, ValueError, LookupError):
            continue
    return names


def _default_url(environment: Mapping[str, str]) -> str:
    if sys.platform == "win32":
        return "npipe:////./pipe/docker_engine"
    places = [Path("/var/run/docker.sock"), Path.home() / ".docker" / "run" / "docker.sock"]
    if runtime := environment.get("XDG_RUNTIME_DIR"):
        places.insert(1, Path(runtime) / "docker.sock")
    return "unix://" + str(next((place for place in places if place.exists()), places[0]))
