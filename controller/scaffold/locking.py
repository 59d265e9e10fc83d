"""Hashed locks: a runner's list of packages resolved by uv for its Python, written where runner.toml says.

A lock holds names, versions and hashes alone: neither a path of this machine nor an index, which may carry a password.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from controller.catalog.runners import RunnerSpec, current_platform
from controller.errors import ControllerError, UsageError
from controller.runtimes.packages import pip_arguments, uv_cause, uv_environment, uv_program
from controller.scaffold.versions import list_of

_SECONDS = 1800.0
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.+!_-]+)(?=[\s;\\]|$)", re.MULTILINE)
_FOREIGN = re.compile(r"^(?!\s*#|\s*$|\s+--hash=sha256:|[A-Za-z0-9][A-Za-z0-9._-]*==).+$", re.MULTILINE)
# uv's names of platforms, for a lock that is resolved on another one.
_TRIPLES = {
    "linux-x86_64": "x86_64-unknown-linux-gnu",
    "linux-aarch64": "aarch64-unknown-linux-gnu",
    "windows-amd64": "x86_64-pc-windows-msvc",
    "macos-x86_64": "x86_64-apple-darwin",
    "macos-arm64": "aarch64-apple-darwin",
}


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock file: versions by package, and how they changed."""

    path: Path
    pins: dict[str, str]
    before: dict[str, str]

    def changes(self) -> list[str]:
        """Each package that is new, gone or of another version, as a line."""
        names = sorted({*self.pins, *self.before})
        return [
            f"{name} {self.before.get(name, 'none')} -> {self.pins.get(name, 'none')}"
            for name in names
            if self.pins.get(name) != self.before.get(name)
        ]


def write(spec: RunnerSpec, device: str, upgrade: bool = False) -> Lock:
    """Resolves and writes the lock of a device. Versions that are locked and not listed are kept if all of them still
    fit, unless ``upgrade``. Raises UsageError without a list of packages, ControllerError when uv finds no solution."""
    path = spec.lock(device)
    text = _resolved(spec, device, keep=not upgrade)
    before = _pins(path)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    partial.replace(path)
    return Lock(path, pins_of(text), before)


def check(spec: RunnerSpec, device: str) -> Lock:
    """The lock that is there beside what the list of packages asks for now: it fits if nothing changes."""
    path = spec.lock(device)
    if not path.is_file():
        raise ControllerError(f"{spec.name} has no lock {path}", f"run: controller lock {spec.name}")
    return Lock(path, pins_of(_resolved(spec, device, keep=True)), _pins(path))


def pins_of(text: str) -> dict[str, str]:
    """Versions by the package's name in the index's form."""
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in _PIN.findall(text)}


def _pins(path: Path) -> dict[str, str]:
    return pins_of(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _resolved(spec: RunnerSpec, device: str, keep: bool) -> str:
    """The text of the lock. The user's own indexes are asked first, then the runner's besides."""
    wanted = list_of(spec.lock(device))
    if not wanted.is_file():
        raise UsageError(f"{spec.name} has no list of packages {wanted}", "write it: one NAME==VERSION a line")
    with tempfile.TemporaryDirectory(prefix="trainyard-lock-") as folder:
        target, kept = Path(folder) / "lock.txt", Path(folder) / "kept.txt"
        arguments = _arguments(spec, device, wanted, target)
        for constraints, indexes in _attempts(spec, _kept(spec.lock(device), wanted) if keep else ""):
            kept.write_text(constraints, encoding="utf-8")
            code, output = _run([*arguments, "--constraint", str(kept)], wanted.parent, indexes)
            if code == 0:
                return _header(spec, device, wanted) + _plain(target, wanted)
    raise ControllerError(f"{wanted}: {uv_cause(output)}", "change the list, or look at the package index")


def _attempts(spec: RunnerSpec, kept: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Constraints and further indexes, in the order in which they are tried."""
    for constraints in dict.fromkeys((kept, "")):
        for indexes in dict.fromkeys(((), tuple(spec.indexes))):
            yield constraints, indexes


def _kept(lock: Path, wanted: Path) -> str:
    """The versions of a lock as constraints, but those of packages that the list has versions of. (A lock as uv's own
    output file would do the same, but then uv takes a pinned version from the first index that has any file of it.)"""
    listed = pins_of(wanted.read_text(encoding="utf-8"))
    return "".join(f"{name}=={version}\n" for name, version in _pins(lock).items() if name not in listed)


def _arguments(spec: RunnerSpec, device: str, wanted: Path, target: Path) -> list[str]:
    arguments = [uv_program(), "pip", "compile", "--generate-hashes", "--no-annotate", "--no-header", "--quiet"]
    arguments += [*pip_arguments(), "--python-version", spec.python, "--output-file", str(target)]
    build = spec.lock(device).with_name(spec.lock(device).name + ".build")
    if build.is_file():
        arguments += ["--build-constraints", build.name]
    if not spec.platform_supported() and spec.platforms[0] in _TRIPLES:
        arguments += ["--python-platform", _TRIPLES[spec.platforms[0]]]
    return [*arguments, wanted.name]


def _run(arguments: Sequence[str], folder: Path, indexes: Sequence[str]) -> tuple[int, str]:
    """Exit code and what uv printed on standard error."""
    try:
        done = subprocess.run(
            arguments,
            cwd=folder,
            env=uv_environment(indexes=indexes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, "error: it took too long"
    return done.returncode, done.stderr


def _header(spec: RunnerSpec, device: str, wanted: Path) -> str:
    option = "" if device == "cpu" else f" --device {device}"
    where = current_platform() if spec.platform_supported() else spec.platforms[0]
    return f"# controller lock {spec.name}{option}: {wanted.name} for Python {spec.python}, {where}\n"


def _plain(target: Path, wanted: Path) -> str:
    """The lock's lines, each known to be a pin or a hash. Raises ControllerError for any other."""
    text = target.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    foreign = _FOREIGN.search("\n".join(lines))
    if foreign:
        name = foreign[0].split("@", 1)[0].split("=", 1)[0].strip()
        raise ControllerError(
            f"{wanted}: {name} is not NAME==VERSION of an index",
            "name packages by version: nobody else has your paths",
        )
    return "\n".join(lines) + "\n"
