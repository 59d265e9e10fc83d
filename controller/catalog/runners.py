"""The runners that exist: every ``runners/*/runner.toml`` beside this package, read and checked."""

import platform
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

import controller
from controller.errors import UnknownNameError, UsageError

FLAVOURS = ("cpu", "gpu")

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
_Module = Annotated[str, StringConstraints(pattern=r"^runners(\.[a-z_][a-z0-9_]*)+$")]
_Python = Annotated[str, StringConstraints(pattern=r"^(3\.\d+)?$")]
_Relative = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+-]*(/[A-Za-z0-9_][A-Za-z0-9._+-]*)*$")]


class Locks(BaseModel):
    """Hashed requirement files by flavour, relative to runner.toml. An empty ``gpu`` means that the one lock
    serves both devices when the build has CUDA, and that there is no GPU flavour when it has not."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpu: _Relative
    gpu: _Relative | None = None


class _Block(BaseModel):
    """One ``[[runner]]`` block as written. ``writable`` are folders of its environment that the framework writes
    while it trains: in a container, where nothing else can be written, each trial has a fresh copy of them.
    ``image_environment`` are variables of images, over ``environment``: an image may move to another processor."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: _Name
    version: _Text
    distribution: _Text
    python: _Python
    default: bool = False
    platforms: tuple[_Text, ...] = ()
    cuda: str = ""
    gpu_architectures: tuple[Annotated[str, StringConstraints(pattern=r"^(sm|compute)_\d+[a-z]?$")], ...] = ()
    commands: tuple[_Text, ...] = ()
    debian_packages: tuple[_Text, ...] = ()
    prepare: _Module | None = None
    indexes: tuple[Annotated[str, StringConstraints(pattern=r"^https?://")], ...] = ()
    notes: str = ""
    locks: Locks
    environment: dict[str, str] = Field(default_factory=dict)
    image_environment: dict[str, str] = Field(default_factory=dict)
    writable: tuple[Annotated[str, StringConstraints(pattern=r"^\{environment\}/.+$")], ...] = ()


class RunnerSpec(_Block):
    """A runner: its block, what it has from its framework's file, and the folder of that file.

    ``python`` is never empty here: the reference runner's "" has become the controller's own minor version.
    """

    framework: str
    display_name: str
    adapter: str
    homepage: str
    folder: Path

    def lock(self, flavour: str) -> Path:
        """The requirement file for "cpu" or "gpu"; raises UsageError when this build cannot compute on a GPU."""
        if flavour not in FLAVOURS:
            raise ValueError(flavour)
        if flavour == "gpu" and self.locks.gpu:
            return self.folder / self.locks.gpu
        if flavour == "gpu" and not self.cuda:
            raise UsageError(f"{self.name} has no build for GPUs", "leave it out, or use --device cpu")
        return self.folder / self.locks.cpu

    def platform_supported(self) -> bool:
        """Whether this machine's platform is among those declared; none declared means any."""
        return not self.platforms or current_platform() in self.platforms


class _File(BaseModel):
    """A whole runner.toml as written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    framework: _Name
    display_name: _Text
    adapter: _Module
    homepage: Annotated[str, StringConstraints(pattern=r"^https?://")]
    runner: tuple[_Block, ...] = Field(min_length=1)


def runners_folder() -> Path:
    """The ``runners`` package as files: in the repository and in site-packages it lies beside ``controller``."""
    return Path(controller.__file__).parents[1] / "runners"


def own_python() -> str:
    """Minor version of the controller's interpreter, such as "3.11"."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def current_platform() -> str:
    """Such as "linux-x86_64", "windows-amd64" or "macos-arm64"."""
    system = {"darwin": "macos"}.get(platform.system().lower(), platform.system().lower())
    return f"{system}-{platform.machine().lower()}"


def load(folder: Path | None = None) -> dict[str, RunnerSpec]:
    """Every runner by name, in the order of the files. Raises UsageError naming the file and the field."""
    root = folder or runners_folder()
    found: dict[str, RunnerSpec] = {}
    for path in sorted(root.glob("*/runner.toml")):
        for spec in _read(path):
            if spec.name in found:
                raise UsageError(f"{path}: the runner name {spec.name!r} is taken by {found[spec.name].folder}")
            found[spec.name] = spec
    if not found:
        raise UsageError(f"no runner.toml below {root}", "reinstall trainyard")
    return found


def select(names: Iterable[str], specs: dict[str, RunnerSpec] | None = None) -> list[RunnerSpec]:
    """The runners asked for, each once and in the order asked; those marked ``default`` when none is named."""
    known = load() if specs is None else specs
    asked = list(dict.fromkeys(names))
    for name in asked:
        if name not in known:
            raise UnknownNameError("runner", name, known)
    return [known[name] for name in asked] if asked else [spec for spec in known.values() if spec.default]


def _read(path: Path) -> list[RunnerSpec]:
    try:
        file = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except ValidationError as error:
        raise UsageError(f"{path}: {_first_fault(error)}") from error
    if file.framework != path.parent.name:
        raise UsageError(f"{path}: framework = {file.framework!r} must be the folder's name, {path.parent.name!r}")
    shared: dict[str, Any] = file.model_dump(exclude={"runner"}) | {"folder": path.parent}
    specs = [RunnerSpec(**_block(block), **shared) for block in file.runner]
    for spec in specs:
        _check_files(path, spec)
    return specs


def _block(block: _Block) -> dict[str, Any]:
    return block.model_dump() | {"python": block.python or own_python()}


def _check_files(path: Path, spec: RunnerSpec) -> None:
    for name in filter(None, (spec.locks.cpu, spec.locks.gpu)):
        if not (spec.folder / name).is_file():
            raise UsageError(f"{path}: {spec.name}: lock file {name} does not exist")
    for module in filter(None, (spec.adapter, spec.prepare)):
        if not module_file(spec, module).is_file():
            raise UsageError(f"{path}: {spec.name}: module {module} does not exist")


def module_file(spec: RunnerSpec, module: str) -> Path:
    """Source file of a ``runners.`` module of this runner's tree."""
    return spec.folder.parent.joinpath(*module.split(".")[1:]).with_suffix(".py")


def _first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    where = ".".join(str(part) for part in fault["loc"])
    more = error.error_count() - 1
    text = re.sub(r"\s+", " ", fault["msg"])
    return f"{where}: {text}" + (f" (and {more} more)" if more else "")
