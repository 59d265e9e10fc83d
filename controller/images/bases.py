"""Base images: taken from the engine, pulled from a registry, or made on this machine where none can be reached."""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller import paths
from controller.errors import BuildError, HostError
from controller.images.recipes import base_name, docker_folder
from controller.images.states import engine_errors
from controller.runtimes.builds import Slots
from controller.runtimes.commands import Command
from controller.runtimes.engine import Engine
from controller.runtimes.engine_errors import is_network, said, translated
from controller.runtimes.locks import FileLock
from controller.runtimes.packages import Report, clean_environment, pip_options
from controller.runtimes.pythons import Pythons

AUTO, PUBLIC, OFFLINE = "auto", "public", "offline"
_CERTIFICATES = Path("/usr/local/share/ca-certificates")
_TRUSTED = "/etc/ssl/certs/ca-certificates.crt"


def ensure(engine: Engine, python: str, policy: str, slots: Slots, report: Report) -> str:
    """The id of the base image for that Python; there afterwards. ``policy``: "auto" takes the one that is there, or
    pulls it; "public" always asks the registry; "offline" takes the one that is there, or makes it. Raises HostError
    (BuildError when it could not be made) with the next step."""
    name = base_name(python)
    with _alone(name, slots, report):
        found = None if policy == PUBLIC else identifier(engine, name)
        if found is None and policy == OFFLINE:
            _make(engine, python, slots, report)
        elif found is None:
            _pull(engine, name, python, slots, report)
        found = found or identifier(engine, name)
    if found is None:
        raise HostError(f"base image {name} is not there though it was just fetched", "try again")
    return found


def identifier(engine: Engine, name: str) -> str | None:
    """The id of an image, or its digest in a registry where it has one; None when the engine has no such image."""
    from docker.errors import ImageNotFound

    try:
        found: dict[str, Any] = engine.client.api.inspect_image(name)
    except ImageNotFound:
        return None
    except engine_errors() as error:
        raise translated(error, f"looking for {name}") from error
    return str((found.get("RepoDigests") or [found["Id"]])[0])


@contextmanager
def _alone(name: str, slots: Slots, report: Report) -> Iterator[None]:
    """Several runners share a base: one fetches it, the others wait."""

    def waiting() -> None:
        slots.check()
        report(f"waiting for {name}", None)

    path = paths.cache_folder() / "bases" / (name.replace(":", "-") + ".lock")
    with FileLock(path, waiting):
        yield


def _pull(engine: Engine, name: str, python: str, slots: Slots, report: Report) -> None:
    report(f"pulling {name}", None)
    try:
        # The stream ends when all is there; leaving it earlier ends the pull.
        for event in engine.client.api.pull(name, stream=True, decode=True):
            slots.check()
            if "error" in event:
                raise _pull_error(str(event["error"]), name, python)
            detail = event.get("progressDetail") or {}
            if detail.get("total"):
                report(f"pulling {name}: {event.get('status', '')}", detail["current"] / detail["total"] * 0.1)
    except engine_errors() as error:
        raise _pull_error(error, name, python) from error


def _pull_error(error: Exception | str, name: str, python: str) -> HostError:
    remedy = "make it on this machine: controller build --base offline"
    if is_network(error):
        return HostError(
            f"base image {name} could not be pulled, the registry cannot be reached ({said(error)})", remedy
        )
    text = said(error).lower()
    if any(word in text for word in ("not found", "manifest unknown", "denied", "toomanyrequests")):
        return HostError(f"base image {name} could not be pulled ({said(error)})", remedy)
    return translated(error, f"pulling {name}")


# --- made here ---------------------------------------------------------------------------------------------


def _make(engine: Engine, python: str, slots: Slots, report: Report) -> None:
    """Makes the base from Debian's archive and a Python of this machine, and loads it into the engine."""
    archive = _archive(python, slots, report)
    report("loading the base image", 0.1)
    try:
        with archive.open("rb") as file:
            engine.client.images.load(file)
    except engine_errors() as error:
        raise translated(error, f"loading {archive}") from error


def _archive(python: str, slots: Slots, report: Report) -> Path:
    """The base as an archive in the cache; made when it is not there."""
    folder = paths.cache_folder() / "bases"
    log = paths.cache_folder() / "logs" / f"base-{python}.log"
    log.unlink(missing_ok=True)
    command = Command(log, folder, slots.cancel)
    interpreter = Pythons(paths.cache_folder()).get(python, command)
    script = docker_folder() / "base" / "make_base.py"
    pip = _pip_configuration(pip_options())
    parts = [
        script.read_bytes(),
        str(interpreter).encode(),
        pip.encode(),
        *(file.read_bytes() for file in _authorities()),
    ]
    key = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
    archive = folder / f"python-{python}-{key[:12]}.tar"
    if not archive.is_file():
        report(f"making the base image from Debian's archive and {interpreter.path}", 0.02)
        settings = folder / f"pip-{key[:12]}.conf"
        settings.write_text(pip, encoding="utf-8")
        arguments = [sys.executable, str(script), "--python", str(interpreter.path), "--output", str(archive)]
        arguments += ["--pip-conf", str(settings)]
        arguments += ["--certificates", str(_CERTIFICATES)] if _authorities() else []
        _run(command, arguments)
        settings.unlink()
    return archive


def _run(command: Command, arguments: list[str]) -> None:
    code, output = command.run(arguments, clean_environment())
    if code != 0:
        lines = [line for line in output.splitlines() if line.strip()]
        causes = [line for line in lines if line.startswith(("make_base.py:", "E:"))] or lines or ["it printed nothing"]
        message = f"the base image could not be made: {causes[-1].strip()}"
        raise BuildError(message, f"see {command.log}", "\n".join(lines[-12:]))


def _authorities() -> list[Path]:
    """Certificate authorities that this machine's administrator added: the package index may need them."""
    return sorted(_CERTIFICATES.glob("*.crt")) if _CERTIFICATES.is_dir() else []


def _pip_configuration(options: dict[str, str]) -> str:
    """What pip in the image has to know of this machine's: where packages come from. Folders of this machine are not
    there, and an address with a password in it must not become part of an image."""
    kept = {"cert": _TRUSTED} if _authorities() else {}
    for name in ("index-url", "extra-index-url", "trusted-host"):
        words = [word for word in options.get(name, "").split() if not word.startswith("file:") and "@" not in word]
        if words:
            kept[name] = " ".join(words)
    return "\n".join(["[global]", *(f"{name} = {value}" for name, value in kept.items()), ""])
