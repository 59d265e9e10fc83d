"""What ``--host`` means: this machine, a Docker context, or the address of a host that serves its runners."""

import ipaddress
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from controller.errors import UsageError

LOCAL = "local"
DOCKER = "docker:"
PLAIN, SECURE = "grpc", "grpcs"
DEFAULT_PORT = 50051
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,31}")
_URL = re.compile(r"(grpcs?)://(\[[0-9A-Fa-f:.]+\]|[^\[\]:/@?#\s]+)(?::(\d{1,5}))?/?")
_FORMS = "write local, docker:CONTEXT, or NAME=grpcs://HOST:PORT"


@dataclass(frozen=True, slots=True)
class Address:
    """A host by the name that tables show. ``scheme``, ``server`` and ``port`` are of one that serves; else empty."""

    name: str
    scheme: str = ""
    server: str = ""
    port: int = 0

    @property
    def is_served(self) -> bool:
        """Whether another program's ``controller serve`` answers there."""
        return bool(self.scheme)

    @property
    def is_local(self) -> bool:
        """Whether its runners are processes or containers of this machine."""
        return self.name == LOCAL

    @property
    def target(self) -> str:
        """For gRPC."""
        server = f"[{self.server}]" if ":" in self.server else self.server
        return f"{server}:{self.port}"

    def text(self) -> str:
        """For messages."""
        return f"{self.name} ({self.scheme}://{self.target})" if self.is_served else self.name


def parse(text: str) -> Address:
    """One ``--host``. Raises UsageError; also for an address that is neither loopback nor TLS."""
    if text == LOCAL or (text.startswith(DOCKER) and text != DOCKER):
        return Address(text)
    name, _, url = text.rpartition("=") if "=" in text else ("", "", text)
    match = _URL.fullmatch(url)
    if match is None:
        raise UsageError(f"--host {text!r} is no host", _FORMS)
    scheme, server, port = match.group(1), match.group(2).strip("[]"), int(match.group(3) or DEFAULT_PORT)
    name = name or f"{server}-{port}".replace(":", "-")
    if name == LOCAL or not (_NAME.fullmatch(name) or "=" not in text):
        raise UsageError(f"--host {text!r}: {name!r} is no name for a host", "begin with a letter, at most 32 letters")
    if not 0 < port < 65536:
        raise UsageError(f"--host {text!r}: there is no port {port}", "ports are 1 to 65535")
    if scheme == PLAIN and not is_loopback(server):
        hint = f"write grpcs://{server}:{port} and give --certificate FILE (controller certs --help)"
        raise UsageError(f"--host {text!r}: an address outside this machine needs TLS", hint)
    return Address(name, scheme, server, port)


def parse_all(texts: Sequence[str]) -> tuple[Address, ...]:
    """All of a comparison, each once. Raises UsageError for two hosts of one name, or one host under two."""
    found = tuple(dict.fromkeys(parse(text) for text in texts)) or (Address(LOCAL),)
    for first, second in itertools.combinations(found, 2):
        if first.name == second.name or (first.is_served and first.target == second.target):
            raise UsageError(f"--host {first.text()} and {second.text()} are one host", "name each host once")
    return found


def is_loopback(server: str) -> bool:
    """Whether nothing outside this machine can be meant."""
    if server == "localhost":
        return True
    try:
        return ipaddress.ip_address(server).is_loopback
    except ValueError:
        return False


def endpoint(text: str) -> tuple[str, int]:
    """``HOST:PORT`` of ``--listen``. Raises UsageError."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/@\s]+):(\d{1,5})", text)
    if match is None or int(match.group(2)) > 65535:
        raise UsageError(f"--listen {text!r} is not HOST:PORT", f"write e.g. 127.0.0.1:{DEFAULT_PORT}")
    return match.group(1).strip("[]"), int(match.group(2))
