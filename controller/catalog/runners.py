"""The runners that exist: every ``runners/*/runner.toml`` beside this package and in the user's own folder."""

import platform
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

import controller
from controller import paths
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
    """One ``[[runner]]`` block as written. ``gpu_platforms``: where its build computes on GPUs, if not on all of its
    ``platforms``. ``writable`` are folders of its environment that the framework writes
    while it trains: in a container, where nothing else can be written, each trial has a fresh copy of them.
    ``image_environment`` are variables of images, over ``environment``: an image may move to another processor."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: _Name
    version: _Text
    distribution: _Text
    python: _Python
    default: bool = False
    platforms: tuple[_Text, ...] = ()
    gpu_platforms: tuple[_Text, ...] = ()
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
    ``own`` is one of the user's own folder.
    """

    framework: str
    display_name: str
    adapter: str
    homepage: str
    folder: Path
    own: bool = False

    @property
    def code(self) -> Path:
        """Folder of the framework's modules; a version that the user has added shares those of the service."""
        shared = runners_folder() / self.framework
        return shared if self.own and shared.is_dir() else self.folder

    @property
    def own_code(self) -> Path | None:
        """Folder of an adapter that is the user's own and no part of the service; None where there is none."""
        return self.folder if self.own and self.code == self.folder else None

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

    def platform_fault(self, device: str) -> str:
        """Why there is no build for this machine's platform that computes on the device; empty where there is one."""
        here = current_platform()
        if not self.platform_supported():
            return f"exists for {', '.join(self.platforms)}, this is {here}"
        if device == "gpu" and self.gpu_platforms and here not in self.gpu_platforms:
            return f"has a build for {here} that computes on the CPU only"
        return ""


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
    """Every runner by name, in the order of the files; the user's own come last, unless ``folder`` is given. Raises
    UsageError naming the file and the field; what is wrong with the user's own is only found by ``own``."""
    root = folder or runners_folder()
    found: dict[str, RunnerSpec] = {}
    for path in sorted(root.glob("*/runner.toml")):
        for spec in _read(path):
            _check_files(path, spec)
            found[spec.name] = _free(path, spec, found)
    if not found:
        raise UsageError(f"no runner.toml below {root}", "reinstall trainyard")
    return found if folder else {**found, **own(found).specs}


@dataclass(frozen=True, slots=True)
class Own:
    """The user's own runners that are sound, by name; and what is wrong with the others, by name or file."""

    specs: Mapping[str, RunnerSpec]
    faults: Mapping[str, UsageError]


def own(others: Mapping[str, RunnerSpec]) -> Own:
    """The runners of the user's own folder. One that is not sound, or is named as one of ``others``, is left out."""
    found: dict[str, RunnerSpec] = {}
    faults: dict[str, UsageError] = {}
    for path in sorted(paths.own_runners_folder().glob("*/runner.toml")):
        try:
            specs = _read(path, is_own=True)
        except UsageError as error:
            faults[str(path)] = error
            continue
        for spec in specs:
            try:
                _check_files(path, spec)
                found[spec.name] = _free(path, spec, {**others, **found})
            except UsageError as error:
                faults[spec.name] = error
    return Own(found, faults)


def declared() -> dict[str, RunnerSpec]:
    """Every runner by name, whether its lock exists or not. Raises UsageError for a file that cannot be read."""
    found: dict[str, RunnerSpec] = {}
    for root, is_own in ((runners_folder(), False), (paths.own_runners_folder(), True)):
        for path in sorted(root.glob("*/runner.toml")):
            for spec in _read(path, is_own=is_own):
                found[spec.name] = _free(path, spec, found)
    return found


def select(names: Iterable[str], specs: dict[str, RunnerSpec] | None = None) -> list[RunnerSpec]:
    """The runners asked for, each once and in the order asked; those marked ``default`` when none is named."""
    known = load() if specs is None else specs
    asked = list(dict.fromkeys(names))
    for name in asked:
        if name not in known:
            raise _unknown(name, known, own(known).faults if specs is None else {})
    return [known[name] for name in asked] if asked else [spec for spec in known.values() if spec.default]


def _unknown(name: str, known: Mapping[str, RunnerSpec], faults: Mapping[str, UsageError]) -> UsageError:
    """Why there is no such runner: it may be one of the user's own that is not sound."""
    if name in faults:
        return faults[name]
    error = UnknownNameError("runner", name, known)
    error.hint += "".join(f"; left out: {fault.line()}" for fault in faults.values())
    return error


def _free(path: Path, spec: RunnerSpec, taken: Mapping[str, RunnerSpec]) -> RunnerSpec:
    """The runner itself. Raises UsageError where another one has its name."""
    if spec.name in taken:
        raise UsageError(f"{path}: the runner name {spec.name!r} is taken by {taken[spec.name].folder}")
    return spec


def _read(path: Path, is_own: bool = False) -> list[RunnerSpec]:
    try:
        file = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except ValidationError as error:
        raise UsageError(f"{path}: {_first_fault(error)}") from error
    if file.framework != path.parent.name:
        raise UsageError(f"{path}: framework = {file.framework!r} must be the folder's name, {path.parent.name!r}")
    if not file.adapter.startswith(f"runners.{file.framework}."):
        raise UsageError(f"{path}: adapter = {file.adapter!r} must be a module of runners.{file.framework}")
    shared: dict[str, Any] = file.model_dump(exclude={"runner"}) | {"folder": path.parent, "own": is_own}
    return [RunnerSpec(**_block(block), **shared) for block in file.runner]


def _block(block: _Block) -> dict[str, Any]:
    return block.model_dump() | {"python": block.python or own_python()}


def _check_files(path: Path, spec: RunnerSpec) -> None:
    for name, option in ((spec.locks.cpu, ""), (spec.locks.gpu, " --device gpu")):
        if name and not (spec.folder / name).is_file():
            remedy = f"run: controller lock {spec.name}{option}"
            raise UsageError(f"{path}: {spec.name}: lock file {name} does not exist", remedy)
    for module in filter(None, (spec.adapter, spec.prepare)):
        if not module_file(spec, module).is_file():
            raise UsageError(f"{path}: {spec.name}: module {module} does not exist")


def module_file(spec: RunnerSpec, module: str) -> Path:
    """Source file of a ``runners.`` module of this runner's tree."""
    return spec.code.parent.joinpath(*module.split(".")[1:]).with_suffix(".py")


def _first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    where = ".".join(str(part) for part in fault["loc"])
    more = error.error_count() - 1
    text = re.sub(r"\s+", " ", fault["msg"])
    return f"{where}: {text}" + (f" (and {more} more)" if more else "")
