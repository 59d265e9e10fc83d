"""Runtime of containers: each runner's image built where it is missing or stale, a fresh container for every trial."""

import contextlib
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from controller import paths, preflight
from controller.catalog.runners import RunnerSpec
from controller.errors import ControllerError, HostError, RunnerError, UsageError
from controller.events import BuildProgress, Observer
from controller.hosts import Gpu
from controller.images import bases, building
from controller.images.recipes import ImagePlan, plan, refuse_own_code
from controller.images.states import ImageState, engine_errors, look
from controller.results import Environment, Failure
from controller.runtimes import containers, reaping, service
from controller.runtimes.base import Availability, PreparedRunner, StartOptions
from controller.runtimes.containers import FOLDER_LABEL, Place, Request
from controller.runtimes.engine import Engine
from controller.runtimes.engine_errors import translated
from controller.runtimes.health import facts, wait_until_serving
from controller.runtimes.limits import Limits
from controller.runtimes.trees import describe_exit
from controller.runtimes.tunnels import Tunnel

NAME = "docker"
_LAST_WORDS_SECONDS = 3.0
_POLL_SECONDS = 0.02
_TAIL_LINES = 20


class DockerRuntime:
    """See ``base.Runtime``. ``limits`` hold for every container; ``gpu`` is the one that will be trained on;
    ``policy`` is where base images come from."""

    name = NAME

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        gpu: Gpu | None = None,
        policy: str = bases.AUTO,
        cache: Path | None = None,
    ) -> None:
        self._engine = engine
        self._limits = limits
        self._gpu = gpu
        self._policy = policy
        self._cache = cache or paths.cache_folder()

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def limits(self) -> Limits:
        return self._limits

    def availability(self, spec: RunnerSpec, device: str = "cpu") -> Availability:
        platform = f"linux-{self._engine.info.get('Architecture', 'x86_64')}"
        if spec.platforms and platform not in spec.platforms:
            return Availability(False, f"exists for {', '.join(spec.platforms)}, the engine is {platform}")
        try:
            spec.lock(device)
            refuse_own_code(spec)
        except UsageError as error:
            return Availability(False, error.message, error.hint)
        if device == "gpu" and self._gpu is not None:
            for check in preflight.gpu_checks(spec, self._gpu):
                if check.state == preflight.FAILED:
                    return Availability(False, check.text, check.remedy)
        return Availability(True)

    def states(self, specs: Sequence[RunnerSpec], device: str) -> list[ImageState]:
        """The images of those that have a build for this device."""
        staged = service.stage(self._cache)
        plans = [plan(spec, device, staged) for spec in specs if self.availability(spec, device).ok]
        return [look(self._engine, item) for item in plans]

    def prepare(
        self, specs: Sequence[RunnerSpec], device: str, observe: Observer
    ) -> Mapping[str, PreparedRunner | ControllerError]:
        """Builds what is missing or stale; see ``base.Runtime``. Containers of controllers that are gone go first."""
        reaping.reap(self._engine)
        staged = service.stage(self._cache)
        results: dict[str, PreparedRunner | ControllerError] = {}
        plans: dict[str, ImagePlan] = {}
        for spec in specs:
            answer = self.availability(spec, device)
            if answer.ok:
                plans[spec.name] = plan(spec, device, staged)
            else:
                results[spec.name] = HostError(f"{spec.name}: {answer.reason}", answer.remedy)
        results |= self._build(plans, observe)
        for name, item in plans.items():
            if name not in results:
                results[name] = self._prepared(item)
        return results

    def _build(self, plans: Mapping[str, ImagePlan], observe: Observer) -> dict[str, ControllerError]:
        missing = []
        for name, item in plans.items():
            if look(self._engine, item).is_ready:
                observe(BuildProgress(name, "ready", fraction=1.0))
            else:
                missing.append(item)
        built = building.build(self._engine, missing, self._policy, observe)
        return {name: error for name, error in built.items() if error is not None}

    def _prepared(self, item: ImagePlan) -> "PreparedRunner | ControllerError":
        state = look(self._engine, item)
        if not state.is_ready:
            return HostError(f"{item.spec.name}: its image is {state.kind}", f"controller build {item.spec.name}")
        environment = Environment(NAME, state.identifier, item.reference)
        return ContainerRunner(item.spec, environment, item, self._engine, self._limits)


@dataclass(frozen=True, slots=True)
class ContainerRunner:
    """A runner that is started as a container; see ``base.PreparedRunner``."""

    spec: RunnerSpec
    environment: Environment
    plan: ImagePlan
    engine: Engine
    limits: Limits

    def start(self, options: StartOptions) -> "RunningContainer":
        if self.engine.is_local:
            return self._start(options, options.blobs)
        from controller.runtimes import remote_blobs

        volume = remote_blobs.bring(
            self.engine, options, lambda place, read_only: self._open(options, place, read_only)
        )
        return self._start(options, volume)

    def _start(self, options: StartOptions, blobs: Path | str) -> "RunningContainer":
        return self._open(options, blobs, True)

    def _open(self, options: StartOptions, blobs: Path | str, blobs_read_only: bool) -> "RunningContainer":
        """Starts a container and returns it SERVING and proven; whatever is raised, nothing is left."""
        options.log.parent.mkdir(parents=True, exist_ok=True)
        folder = reaping.new_folder()
        running = RunningContainer(self.spec.name, self.engine, folder, options.log)
        try:
            place = _place(self.engine, blobs, folder)
            labels = {FOLDER_LABEL: str(folder)} if self.engine.is_local else {}
            image, owner = self.environment.digest, reaping.owner()
            request = Request(self.plan, image, place, self.limits, options, owner, labels, blobs_read_only)
            running.start(containers.arguments(request), place)
            running.wait(place, options.start_seconds)
            running.prove(containers.expected_facts(self.limits))
        except BaseException:
            running.stop()
            raise
        return running


def _place(engine: Engine, blobs: Path | str, folder: Path) -> Place:
    if isinstance(blobs, Path):
        blobs.mkdir(parents=True, exist_ok=True)
        _open_to_others(blobs)
    if not engine.is_local:
        return Place(blobs)
    inner = folder / "run"
    inner.mkdir()
    # The outer folder is this user's alone; the container's user, who is another one, writes into the inner.
    inner.chmod(0o777)
    return Place(blobs, inner)


def _open_to_others(folder: Path) -> None:
    """Datasets are no secret, and the user inside the container is another one."""
    mode = folder.stat().st_mode & 0o777
    if mode & 0o005 != 0o005:
        try:
            folder.chmod(mode | 0o055)
        except OSError as error:
            message = f"{folder} cannot be read by a container's user: {error}"
            raise RunnerError(message, f"chmod o+rx {folder}", "BLOBS_UNREADABLE") from error


class RunningContainer:
    """A running container; see ``base.RunningRunner``."""

    def __init__(self, runner: str, engine: Engine, folder: Path, log: Path) -> None:
        self._runner = runner
        self._engine = engine
        self._folder = folder
        self._log = log
        # Known before the container exists, so that one is removed whose making was interrupted.
        self._identifier = f"trainyard-{uuid.uuid4().hex}"
        self._target = ""
        self._tunnel: Tunnel | None = None

    @property
    def target(self) -> str:
        return self._target

    @property
    def identifier(self) -> str:
        """The container's name."""
        return self._identifier

    @property
    def pid(self) -> int | None:
        """The container's first process, where it is one of this machine."""
        found = reaping.state(self._engine, self._identifier) if self._engine.is_local else None
        return int(found["Pid"]) or None if found else None

    def start(self, arguments: Mapping[str, Any], place: Place) -> None:
        """Raises RunnerError, HostError."""
        what = f"{self._runner}: its container could not be started"
        try:
            self._engine.client.containers.create(**arguments, name=self._identifier)
            self._engine.client.api.start(self._identifier)
        except engine_errors() as error:
            known = translated(error, what)
            raise RunnerError(known.message, known.hint, "CONTAINER_NOT_STARTED") from error
        if place.folder:
            self._target = f"unix://{place.folder / 'runner.sock'}"
        else:
            from controller.runtimes.relay import opener

            way = opener(self._engine, self._identifier, containers.INNER_SOCKET)
            self._tunnel = Tunnel(self._folder / "runner.sock", way)
            self._target = self._tunnel.target

    def wait(self, place: Place, seconds: float) -> None:
        """Until it is SERVING. Raises RunnerError when it ends before, or takes longer than ``seconds``."""
        deadline = time.monotonic() + seconds

        def check() -> None:
            time.sleep(_POLL_SECONDS)
            if not self.alive():
                failure = self._failure()
                message = f"{self._runner}: did not start: {failure.message}"
                raise RunnerError(message, f"see {self._log}", failure.reason, failure.log_tail)
            if time.monotonic() > deadline:
                message = f"{self._runner}: was not ready within {seconds:.0f} s"
                raise RunnerError(message, f"see {self._log}", "START_TIMEOUT", self._tail())

        while place.folder and not (place.folder / "address").exists():
            check()
        wait_until_serving(self._target, check)

    def prove(self, expected: Mapping[str, str]) -> None:
        """Asks the service what it finds around itself. Raises RunnerError for a protection or limit that is not so."""
        wrong = containers.unmet(expected, facts(self._target))
        if wrong:
            message = f"{self._runner}: the engine did not do what was asked: inside the container {wrong}"
            raise RunnerError(message, "docker info shows what this engine cannot do", "UNPROTECTED")

    def alive(self) -> bool:
        found = self._state()
        return bool(found and found["Running"])

    def exit_reason(self) -> Failure | None:
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        while self.alive():
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL_SECONDS)
        return self._failure()

    def stop(self) -> None:
        """Removes the container for certain: a Ctrl-C in the middle only makes it start again."""
        try:
            self._keep_log()
            reaping.remove(self._engine, self._identifier)
        except KeyboardInterrupt:
            with contextlib.suppress(*engine_errors()):
                reaping.remove(self._engine, self._identifier)
            raise
        except engine_errors() as error:
            known = translated(error, f"removing the container of {self._runner}")
            raise RunnerError(known.message, known.hint, "ENGINE_LOST") from error
        finally:
            if self._tunnel is not None:
                self._tunnel.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "RunningContainer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _state(self) -> dict[str, Any] | None:
        try:
            return reaping.state(self._engine, self._identifier)
        except engine_errors() as error:
            raise RunnerError(translated(error, self._runner).line(), reason="ENGINE_LOST") from error

    def _failure(self) -> Failure:
        found = self._state()
        if found is None:
            return Failure("PROCESS_DIED", "somebody else removed its container", "")
        return death(found, self._tail())

    def _tail(self) -> str:
        with contextlib.suppress(*engine_errors()):
            return self._engine.client.api.logs(self._identifier, tail=_TAIL_LINES).decode("utf-8", "replace").rstrip()  # type: ignore[no-any-return]
        return ""

    def _keep_log(self) -> None:
        with contextlib.suppress(*engine_errors()), self._log.open("ab") as file:
            file.write(self._engine.client.api.logs(self._identifier))


def death(state: Mapping[str, Any], tail: str) -> Failure:
    """Why a container ended, from ``State`` as the engine tells it and the last lines of its log."""
    code = int(state.get("ExitCode") or 0)
    if state.get("OOMKilled"):
        return Failure("OUT_OF_MEMORY", "the container went over its memory limit and was killed", tail)
    if state.get("Error"):
        return Failure("CONTAINER_NOT_STARTED", translated(str(state["Error"]), "the container").line(), tail)
    # The first process passes on how its child ended, as a shell does.
    return Failure("PROCESS_DIED", f"the container {describe_exit(128 - code if code > 128 else code)}", tail)
