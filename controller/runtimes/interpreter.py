"""Runtime of interpreters that the user already has, such as a conda environment: used as they are, never changed."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from controller import paths
from controller.catalog import runners as catalog
from controller.catalog.runners import RunnerSpec
from controller.errors import BuildError, ControllerError, HostError, UnknownNameError, UsageError
from controller.events import BuildProgress, Observer
from controller.results import Environment
from controller.runtimes import environments, service
from controller.runtimes.base import Availability, PreparedRunner
from controller.runtimes.builds import Job, Slots, build_all
from controller.runtimes.commands import Command
from controller.runtimes.locks import FileLock
from controller.runtimes.packages import Report, clean_environment, pip_arguments, uv_cause, uv_environment, uv_program
from controller.runtimes.process import Launch, LocalRunner
from controller.runtimes.service import Staged

NAME = "interpreter"
# What the service itself imports: module, and the requirement that brings it.
_NEEDED = {
    "numpy": "numpy",
    "grpc": "grpcio",
    "google.protobuf": "protobuf",
    "grpc_health.v1": "grpcio-health-checking==1.48.2",
}
# Any Python from 3.6 on. Distributions are read from the names of their folders, the first on the path winning.
_READ = """
import importlib.util, json, os, sys
packages = {}
for folder in sys.path:
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        stem, kind = os.path.splitext(name)
        if kind in (".dist-info", ".egg-info") and "-" in stem:
            parts = stem.split("-")
            packages.setdefault(parts[0].lower().replace("_", "-"), parts[1])
def has(module):
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, AttributeError, ValueError):
        return False
print(json.dumps([list(sys.version_info[:3]), sys.prefix, packages, [name for name in sys.argv[1:] if not has(name)]]))
"""
_CHECK = "import sys; sys.path.append(sys.argv[1]); import numpy, grpc, google.protobuf.message, grpc_health.v1.health"


@dataclass(frozen=True, slots=True)
class OwnPython:
    """What an interpreter said of itself. ``packages``: versions by normalised name; ``missing``: modules."""

    path: Path
    version: str
    prefix: Path
    packages: Mapping[str, str]
    missing: tuple[str, ...]

    @property
    def minor(self) -> str:
        return self.version.rsplit(".", 1)[0]


def read(path: Path) -> OwnPython:
    """Runs the interpreter. Raises UsageError when it is none, or older than 3.6."""
    try:
        done = subprocess.run(
            [str(path), "-c", _READ, *_NEEDED],
            env=clean_environment(),
            cwd=path.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        version, prefix, packages, missing = json.loads(done.stdout.decode("utf-8"))
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise UsageError(
            f"{path} is not a working Python 3.6 or newer", "give the path of its python program"
        ) from error
    if tuple(version) < (3, 6):
        raise UsageError(f"{path} is Python {version[0]}.{version[1]}", "runners need 3.6 or newer")
    return OwnPython(path, ".".join(map(str, version)), Path(prefix), packages, tuple(missing))


@dataclass(frozen=True, slots=True)
class Own:
    """A runner, and the user's Python that it runs on."""

    spec: RunnerSpec
    path: Path


def resolve(pairs: Sequence[tuple[str, Path]], specs: Mapping[str, RunnerSpec] | None = None) -> list[Own]:
    """The runner that each ``--interpreter NAME=PATH`` means.

    NAME is a runner, and then the interpreter must have its very version; or a framework, and then any version will
    do, and the runner is called such as "pytorch@2.4.1", so that no row claims to be a pinned one.
    Raises UsageError, also where two mean the same.
    """
    if not pairs:
        return []
    known = catalog.load() if specs is None else specs
    found: dict[str, Own] = {}
    for name, path in pairs:
        spec = _meant(name, read(path), known)
        if spec.name in found:
            message = f"--interpreter: {found[spec.name].path} and {path} are both {spec.name}"
            raise UsageError(message, "give one of the two")
        found[spec.name] = Own(spec, path)
    return list(found.values())


def _meant(name: str, python: OwnPython, known: Mapping[str, RunnerSpec]) -> RunnerSpec:
    if name in known:
        return _exact(known[name], python)
    candidates = [spec for spec in known.values() if spec.framework == name]
    if not candidates:
        raise UnknownNameError("runner or framework", name, {*known, *(spec.framework for spec in known.values())})
    present = [(spec, version) for spec in candidates if (version := _version(spec, python))]
    if not present:
        wanted = ", ".join(dict.fromkeys(spec.distribution for spec in candidates))
        raise _lacking(python, wanted)
    if len({(spec.adapter, _own_variables(spec)) for spec, _ in present}) > 1:
        raise UsageError(
            f"--interpreter {name} may mean several runners", "name one: " + ", ".join(s.name for s, _ in present)
        )
    spec, version = present[0]
    # The pins' notes, CUDA and architectures are of another build.
    changed = {"name": f"{name}@{version}", "version": version, "cuda": "", "gpu_architectures": (), "notes": ""}
    return spec.model_copy(update={**changed, "python": python.minor})


def _exact(spec: RunnerSpec, python: OwnPython) -> RunnerSpec:
    found = _version(spec, python)
    if found is None:
        raise _lacking(python, spec.distribution)
    if found != spec.version:
        message = f"{python.path} has {spec.distribution} {found}, but runner {spec.name} is {spec.version}"
        raise UsageError(message, f"any version is taken by --interpreter {spec.framework}={python.path}")
    return spec


def _lacking(python: OwnPython, distribution: str) -> UsageError:
    message = f"{python.path} (Python {python.version}) has no {distribution}"
    return UsageError(message, "install it there, name the Python that has it, or leave --interpreter out")


def _version(spec: RunnerSpec, python: OwnPython) -> str | None:
    """Version of the framework there; builds for one device are named such as "tensorflow-cpu"."""
    if spec.distribution.startswith("trainyard-"):
        return spec.version  # Our own code, which is staged.
    plain = re.sub(r"-(cpu|gpu)$", "", spec.distribution.lower().replace("_", "-"))
    found = (python.packages.get(plain + suffix) for suffix in ("", "-cpu", "-gpu"))
    return next(filter(None, found), None)


def _own_variables(spec: RunnerSpec) -> tuple[tuple[str, str], ...]:
    """The runner's variables, without those that point into a managed environment: there is none."""
    return tuple(sorted((name, value) for name, value in spec.environment.items() if "{environment}" not in value))


class InterpreterRuntime:
    """See ``base.Runtime``. ``interpreters``: Python programs by the name of the runner as ``specs`` have it."""

    name = NAME

    def __init__(self, interpreters: Mapping[str, Path], cache: Path | None = None) -> None:
        self._interpreters = interpreters
        self._cache = cache or paths.cache_folder()

    def availability(self, spec: RunnerSpec, device: str = "cpu") -> Availability:
        """Any platform, Python and device will do; the interpreter has to run and to have the framework."""
        try:
            self._read(spec)
        except UsageError as error:
            return Availability(False, error.message, error.hint)
        return Availability(True)

    def prepare(
        self, specs: Sequence[RunnerSpec], device: str, observe: Observer
    ) -> Mapping[str, PreparedRunner | ControllerError]:
        """Adds what the service needs and the interpreter lacks, in a folder of our own."""
        staged = service.stage(self._cache)
        results: dict[str, PreparedRunner | ControllerError] = {}
        pythons: dict[str, OwnPython] = {}
        for spec in specs:
            try:
                pythons[spec.name] = self._read(spec)
            except UsageError as error:
                results[spec.name] = error
        results |= self._build_overlays(pythons, observe)
        for spec in specs:
            if spec.name not in results:
                results[spec.name] = self._prepared(spec, pythons[spec.name], staged)
        return results

    def _read(self, spec: RunnerSpec) -> OwnPython:
        python = read(self._interpreters[spec.name])
        _exact(spec, python)
        return python

    def _build_overlays(self, pythons: Mapping[str, OwnPython], observe: Observer) -> dict[str, ControllerError]:
        jobs = []
        for name, python in pythons.items():
            if not python.missing or environments.is_whole(self._overlay(python), _key(python)):
                observe(BuildProgress(name, "ready", fraction=1.0))
            else:
                jobs.append(Job(name, partial(_build_overlay, python, self._overlay(python))))
        return {name: error for name, error in build_all(jobs, observe).items() if error is not None}

    def _overlay(self, python: OwnPython) -> Path:
        return self._cache / "overlays" / f"py{python.minor}-{_key(python)[:12]}"

    def _prepared(self, spec: RunnerSpec, python: OwnPython, staged: Staged) -> LocalRunner:
        staged.compile(python.path, python.minor)
        overlay = self._overlay(python) if python.missing else None
        variables = dict(_own_variables(spec))
        own = service.stage_own(spec, self._cache)
        place, adapters = _search_path(python), own.folder if own else None
        launch = Launch(spec.name, python.path, spec.adapter, staged.folder, variables, place, True, overlay, adapters)
        return LocalRunner(spec, Environment(NAME, "", str(python.path)), launch)


def _search_path(python: OwnPython) -> tuple[Path, ...]:
    """What activating the environment would put on PATH; conda's libraries on Windows are found only so."""
    if sys.platform == "win32" and (python.prefix / "conda-meta").is_dir():
        return (python.prefix, python.prefix / "Library" / "bin", python.prefix / "Scripts")
    return (python.path.parent,)


def _key(python: OwnPython) -> str:
    parts = [os.path.realpath(python.path), python.version, *(_NEEDED[module] for module in python.missing)]
    return hashlib.sha256("\n".join(parts).encode("utf-8")).hexdigest()


def _build_overlay(python: OwnPython, folder: Path, slots: Slots, report: Report) -> None:
    def waiting() -> None:
        slots.check()
        report("waiting for another controller", None)

    with FileLock(folder.with_name(folder.name + ".lock"), waiting) as lock, slots.downloading(waiting):
        if environments.is_whole(folder, _key(python)):
            return
        environments.remove(folder)
        report("adding " + ", ".join(python.missing), 0.0)
        log = folder.parent.parent / "logs" / f"overlay-{folder.name}.log"
        _install(python, folder, Command(log, folder.parent, slots.cancel, (lock.descriptor,)))
        environments.mark_whole(folder, _key(python), {"python": str(python.path), "added": python.missing})


def _install(python: OwnPython, folder: Path, command: Command) -> None:
    """Only wheels: compiling gRPC takes longer than any comparison."""
    requirements = [_NEEDED[module] for module in python.missing]
    arguments = [uv_program(), "pip", "install", "--no-build", *pip_arguments(), "--python", str(python.path)]
    code, output = command.run([*arguments, "--target", str(folder), *requirements], uv_environment())
    if code != 0:
        message = f"{python.path}: {', '.join(requirements)} could not be added: {uv_cause(output)}"
        raise BuildError(message, "install them there", "\n".join(output.splitlines()[-12:]))
    code, output = command.run([str(python.path), "-c", _CHECK, str(folder)], clean_environment())
    if code != 0:
        message = f"{python.path}: cannot import what was added: {uv_cause(output)}"
        raise HostError(message, f"install there: {' '.join(requirements)}")
