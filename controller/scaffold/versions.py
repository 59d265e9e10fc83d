"""A new version of a framework that is there: the nearest version's block of runner.toml and its list of packages,
with the new name and version. No Python is written."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from controller.catalog.runners import RunnerSpec
from controller.errors import UsageError
from controller.scaffold.places import Place

_NAME = re.compile(r"(?P<stem>[a-z][a-z0-9_-]*)-(?P<version>\d[A-Za-z0-9.]*)")
_BLOCK = re.compile(r"^\[\[runner\]\].*?(?=^\[\[runner\]\]|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. ``version`` is the package's, ``python`` a minor version or empty for the nearest runner's;
    ``further`` are lines for the list of packages."""

    name: str
    stem: str
    version: str
    python: str = ""
    further: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """Files that were written, the runner that they were made after (empty for a skeleton), and the devices to lock."""

    files: tuple[Path, ...]
    after: str
    devices: tuple[str, ...]


def wanted(name: str, version: str = "", python: str = "", further: Iterable[str] = ()) -> Wanted:
    """What ``name`` asks for. Raises UsageError where it is no FRAMEWORK-VERSION, or ``further`` no packages."""
    match = _NAME.fullmatch(name)
    if match is None:
        message = f"{name!r} is not a framework and its version in small letters"
        raise UsageError(message, "write e.g. pytorch-1.10.2")
    if python and not re.fullmatch(r"3\.\d+", python):
        raise UsageError(f"--python {python!r} is not a minor version of Python", "write e.g. 3.9")
    lines = tuple(further)
    for line in lines:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*([<>=!~]=?[A-Za-z0-9.,<>=!~*+]+)?", line):
            raise UsageError(f"--with {line!r} is not a package", "write e.g. setuptools==59.5.0")
    return Wanted(name, match["stem"], version or match["version"], python, lines)


def nearest(asked: Wanted, specs: Iterable[RunnerSpec]) -> RunnerSpec | None:
    """The runner of the same framework whose version is nearest, of two the older; None for a new framework."""
    kin = [spec for spec in specs if asked.stem in (spec.framework, _stem(spec.name))]
    kin = [spec for spec in kin if _stem(spec.name) == asked.stem] or kin
    numbers = _numbers(asked.version)
    return min(kin, key=lambda spec: (_distance(numbers, _numbers(spec.version)), _numbers(spec.version)), default=None)


def write(asked: Wanted, model: RunnerSpec, place: Place) -> Written:
    """Adds the version after the ``model`` runner. Raises UsageError where its list of packages cannot be followed."""
    folder = place.folder / model.framework
    devices = ("cpu", "gpu") if model.locks.gpu else ("cpu",)
    python = asked.python or model.python
    lists = {device: _packages(asked, model, device) for device in devices}
    names = {device: _lock_name(asked, device, python, folder) for device in devices}
    files = []
    for device, text in lists.items():
        files.append(_put(folder / names[device].replace(".txt", ".in"), text))
        constraints = model.lock(device).with_name(model.lock(device).name + ".build")
        if constraints.is_file():
            files.append(_put(folder / f"{names[device]}.build", constraints.read_text(encoding="utf-8")))
    source = (model.folder / "runner.toml").read_text(encoding="utf-8")
    block = _changed(_block(source, model.name), asked, python, names)
    return Written((_append(folder / "runner.toml", source, block), *files), model.name, devices)


def _append(path: Path, source: str, block: str) -> Path:
    """Adds a block to runner.toml; a new file begins as the model's does."""
    text = path.read_text(encoding="utf-8") if path.is_file() else source[: source.index("[[runner]]")]
    return _put(path, f"{text.rstrip()}\n\n{block.strip()}\n")


def _put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    partial.replace(path)
    return path


def _block(source: str, name: str) -> str:
    """The text of a runner's block, comments included."""
    is_it = re.compile(rf"^name\s*=\s*[\"']{re.escape(name)}[\"']", re.MULTILINE)
    return next(match[0] for match in _BLOCK.finditer(source) if is_it.search(match[0]))


def _changed(block: str, asked: Wanted, python: str, locks: dict[str, str]) -> str:
    values: dict[str, object] = {"name": asked.name, "version": asked.version, "python": python, "default": False}
    for key, value in {**values, **locks}.items():
        block = re.sub(rf"^{key}(\s*)=.*$", rf"{key}\g<1>= {json.dumps(value)}", block, count=1, flags=re.MULTILINE)
    return block


def _lock_name(asked: Wanted, device: str, python: str, folder: Path) -> str:
    name = f"locks/{asked.version}-{device}-py{python.replace('.', '')}.txt"
    is_free = not (folder / name).exists() and not (folder / name.replace(".txt", ".in")).exists()
    return name if is_free else name.replace("locks/", f"locks/{asked.stem}-")


def _packages(asked: Wanted, model: RunnerSpec, device: str) -> str:
    """The model's list of packages with the new version of the framework's own, whose build may be called such as
    tensorflow-cpu and have a local label; and further ones."""
    path = list_of(model.lock(device))
    if not path.is_file():
        raise UsageError(f"{model.name} has no list of packages {path.name}", "write runner.toml and the list by hand")
    pin = re.compile(rf"^({re.escape(model.distribution)}(?:-cpu|-gpu)?\s*==\s*)[^\s+;]+", re.MULTILINE | re.IGNORECASE)
    text, count = pin.subn(rf"\g<1>{asked.version}", path.read_text(encoding="utf-8"))
    if count != 1:
        raise UsageError(f"{path}: has no line {model.distribution}==VERSION", "write the list by hand")
    return "".join(f"{line}\n" for line in (text.rstrip(), *asked.further))


def list_of(lock: Path) -> Path:
    """The list of packages beside a lock that the lock is made from."""
    return lock.with_name(lock.name.removesuffix(".txt") + ".in")


def _stem(name: str) -> str:
    match = _NAME.fullmatch(name)
    return match["stem"] if match else name


def _numbers(version: str) -> tuple[int, ...]:
    found = [int(text) for text in re.findall(r"\d+", version)[:4]]
    return tuple(found + [0] * (4 - len(found)))


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(abs(left - right) for left, right in zip(one, other, strict=True))
