"""One managed virtual environment: what it is made of, whether it stands, and how it is built.

It is built in the place where it stays, because neither virtual environments nor compile caches survive a move. A
marker file written last tells a whole one from one whose build was interrupted; a lock keeps two builders apart.
"""

import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainyard.source import source_digest

from controller.catalog import module_files
from controller.catalog.runners import RunnerSpec, current_platform
from controller.errors import BuildError, HostError
from controller.runtimes import process
from controller.runtimes.builds import Slots
from controller.runtimes.commands import Command
from controller.runtimes.locks import FileLock
from controller.runtimes.packages import Report, compile_bytecode, sync, uv_cause, uv_environment, uv_program
from controller.runtimes.pythons import Pythons
from controller.runtimes.service import stage_own

MARKER = "trainyard-environment.json"
_BYTECODE = 0.85  # Where on the bar it begins.
_FORMAT = 1  # Raised when environments built by older code must not be used.


@dataclass(frozen=True, slots=True)
class Plan:
    """An environment of one runner and flavour. ``digest`` is the SHA-256 of its lock; ``key`` of all that it is
    made of, so that a change of any of it is another environment."""

    spec: RunnerSpec
    lock: Path
    digest: str
    key: str
    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    @property
    def log(self) -> Path:
        return self.folder.parent.parent / "logs" / f"build-{self.folder.name}.log"

    def stands(self) -> bool:
        """Whether it was built to the end and its Python is still there."""
        return is_whole(self.folder, self.key) and self.python.exists()

    def identity(self) -> str:
        """SHA-256 of what results of it are known by: its lock, and an adapter that is no part of the service."""
        code = _own_digest(self.spec)
        return hashlib.sha256((self.digest + code).encode("ascii")).hexdigest() if code else self.digest

    def launch(self, service: Path) -> process.Launch:
        """How its Python is started, to prepare it and to serve."""
        variables = {
            name: value.replace("{environment}", str(self.folder)) for name, value in self.spec.environment.items()
        }
        own = stage_own(self.spec, self.folder.parents[1])
        place, adapters = (self.python.parent,), own.folder if own else None
        return process.Launch(
            self.spec.name, self.python, self.spec.adapter, service, variables, place, adapters=adapters
        )


def plan(spec: RunnerSpec, device: str, cache: Path) -> Plan:
    """The environment that ``spec`` needs for "cpu" or "gpu". Raises UsageError when it has no such build."""
    lock = spec.lock(device)
    digest = _file_digest(lock)
    parts = {
        "format": _FORMAT,
        "platform": current_platform(),
        "python": spec.python,
        "lock": digest,
        "build": _file_digest(lock.with_name(lock.name + ".build")),
        "prepare": _prepare_digests(spec),
        "environment": spec.environment,
    }
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8")).hexdigest()
    return Plan(spec, lock, digest, key, cache / "environments" / f"{spec.name}-{key[:12]}")


def _prepare_digests(spec: RunnerSpec) -> dict[str, str]:
    """SHA-256 of the preparing module and of what it imports of its runner: what changed layers need is not there."""
    if not spec.prepare:
        return {}
    if spec.own_code:
        return {"own": _own_digest(spec)}
    root = spec.code.parents[1]
    files = [root / name for name in module_files.closure(root, spec.prepare)]
    return {file.name: _file_digest(file) for file in files if file.is_relative_to(spec.code)}


def _own_digest(spec: RunnerSpec) -> str:
    """Of an adapter that is the user's own; empty for the others."""
    return str(source_digest({spec.framework: spec.own_code})) if spec.own_code else ""


def build(plan: Plan, pythons: Pythons, service: Path, slots: Slots, report: Report) -> None:
    """Makes the environment stand; returns at once when another controller has built it meanwhile. Raises
    BuildError with the log's last lines, or HostError when there is no such Python or no room."""

    def waiting() -> None:
        slots.check()
        report("waiting for another controller that builds it", None)

    with FileLock(plan.folder.with_name(plan.folder.name + ".lock"), waiting) as lock:
        if plan.stands():
            return
        _Build(plan, service, slots, report, lock.descriptor).run(pythons)


class _Build:
    """One build under the lock; every command that it starts holds the lock too."""

    def __init__(self, plan: Plan, service: Path, slots: Slots, report: Report, descriptor: int) -> None:
        self._plan = plan
        self._service = service
        self._slots = slots
        self._report = report
        plan.log.unlink(missing_ok=True)
        self._command = Command(plan.log, plan.folder.parent, slots.cancel, (descriptor,))

    def run(self, pythons: Pythons) -> None:
        started = time.monotonic()
        spec = self._plan.spec
        # The part of the bar that packages take; where something is compiled afterwards, that takes longer.
        packages_end = _BYTECODE / 3 if spec.prepare else _BYTECODE
        try:
            with self._slots.downloading(lambda: self._report("waiting for its turn to download", None)):
                self._create(pythons)
                self._install(packages_end)
            if spec.prepare:
                with self._slots.compiling(lambda: self._report("waiting for its turn to compile", None)):
                    self._prepare(spec.prepare, self._part(packages_end, _BYTECODE))
            self._compile()
        except BuildError as error:
            raise BuildError(f"{spec.name}: {error.message}", error.hint, error.log_tail) from error
        except HostError as error:
            raise HostError(f"{spec.name}: {error.message}", error.hint) from error
        self._mark(time.monotonic() - started)

    def _install(self, end: float) -> None:
        """Packages, up to ``end`` of the bar."""
        spec, report = self._plan.spec, self._part(0.03, end)
        editable = bool(spec.prepare)
        sync(self._command, self._plan.python, self._plan.lock, report, indexes=spec.indexes, editable=editable)

    def _compile(self) -> None:
        self._report("compiling bytecode", _BYTECODE)
        library = self._plan.folder / ("Lib" if sys.platform == "win32" else "lib")
        compile_bytecode(self._command, self._plan.python, library)

    def _part(self, start: float, end: float) -> Report:
        def report(stage: str, fraction: float | None) -> None:
            self._report(stage, None if fraction is None else start + (end - start) * min(1.0, fraction))

        return report

    def _create(self, pythons: Pythons) -> None:
        minor = self._plan.spec.python
        self._report(f"finding Python {minor}", 0.0)
        interpreter = pythons.get(minor, self._command)
        self._report("creating the environment", 0.02)
        remove(self._plan.folder)
        arguments = [uv_program(), "venv", "--no-project", "--python", str(interpreter.path), str(self._plan.folder)]
        code, output = self._command.run(arguments, uv_environment())
        if code != 0:
            message = f"the environment could not be created: {uv_cause(output)}"
            raise BuildError(message, f"see {self._plan.log}", output)

    def _prepare(self, module: str, report: Report) -> None:
        """Runs the runner's module in the new environment, with the runner's variables."""
        launch = self._plan.launch(self._service)
        report("preparing", 0.0)
        arguments = [str(self._plan.python), "-m", module]
        code, output = self._command.run(arguments, process.base_environment(launch), _progress_lines(report))
        if code != 0:
            lines = [line for line in output.splitlines() if line.strip()]
            cause = lines[-1].strip() if lines else "it printed nothing"
            tail = "\n".join(lines[-12:])
            raise BuildError(f"preparing it failed (exit code {code}): {cause}", f"see {self._plan.log}", tail)

    def _mark(self, seconds: float) -> None:
        content = {
            "runner": self._plan.spec.name,
            "lock_sha256": self._plan.digest,
            "python": os.path.realpath(self._plan.python),
            "build_seconds": round(seconds, 1),
        }
        mark_whole(self._plan.folder, self._plan.key, content)


def _progress_lines(report: Report) -> Callable[[str], None]:
    def line(text: str) -> None:
        if match := re.match(r"progress ([01](?:\.\d+)?)\s*(.*)", text):
            report(match[2] or "preparing", float(match[1]))

    return line


def is_whole(folder: Path, key: str) -> bool:
    """Whether ``folder`` was built to the end from what ``key`` stands for."""
    try:
        return bool(json.loads((folder / MARKER).read_text(encoding="utf-8"))["key"] == key)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def mark_whole(folder: Path, key: str, content: Mapping[str, object]) -> None:
    """The last act of a build; ``content`` is for people who look."""
    partial = folder / (MARKER + ".partial")
    partial.write_text(json.dumps({"key": key, **content}, indent=1), encoding="utf-8")
    partial.replace(folder / MARKER)


def remove(folder: Path) -> None:
    """Removes what an interrupted build left; its marker first, so that half of it never looks whole."""
    (folder / MARKER).unlink(missing_ok=True)
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise HostError(f"{folder} cannot be removed: {error}", "end the programs that use it and try again") from error


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
