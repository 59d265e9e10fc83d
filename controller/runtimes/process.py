"""Starts a runner's server as a process on this machine and waits until it is SERVING; the same for every Python."""

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from controller import interrupts
from controller.catalog.runners import RunnerSpec
from controller.errors import RunnerError
from controller.results import Environment, Failure
from controller.runtimes.base import StartOptions, library_variables
from controller.runtimes.health import wait_until_serving
from controller.runtimes.packages import clean_environment
from controller.runtimes.trees import Tree, tail

OVERLAY_VARIABLE = "TRAINYARD_OVERLAY"
"""A folder that the server and its training process append to the module path."""

ADAPTERS_VARIABLE = "TRAINYARD_ADAPTERS"
"""A folder that the package ``runners`` is looked for in too."""

_POLL_SECONDS = 0.02
_LAST_WORDS_SECONDS = 3.0
# The caller's settings of numerical libraries would make two users' results differ without a trace.
_TUNING = (
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "VECLIB_", "NUMEXPR_", "ONEDNN_", "DNNL_"),
    *("TF_", "XLA_", "TORCH", "PYTORCH_", "CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_TF32", "HIP_", "ROCR_"),
    *("KERAS_", "THEANO", "JITTOR_"),
)
_TUNING_KEPT = ("CUDA_HOME", "CUDA_PATH", "CUDA_MPS_PIPE_DIRECTORY")


@dataclass(frozen=True, slots=True)
class Launch:
    """What is started. ``variables`` are the runner's own; ``search_path`` is put before PATH; ``user_site`` says
    whether packages that the user installed for themselves count (in their own interpreter they do); ``overlay``
    holds packages that the interpreter lacks, and comes after all that it has; ``adapters`` a copy of an adapter that
    is the user's own."""

    runner: str
    python: Path
    adapter: str
    service: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    search_path: tuple[Path, ...] = ()
    user_site: bool = False
    overlay: Path | None = None
    adapters: Path | None = None


def base_environment(launch: Launch) -> dict[str, str]:
    """Variables of every process of a runner, building or training: nothing of the caller's that changes results."""
    environment = {
        name: value
        for name, value in clean_environment().items()
        if not name.startswith(_TUNING) or name in _TUNING_KEPT
    }
    environment.pop(ADAPTERS_VARIABLE, None)
    environment.update(launch.variables)
    environment["PATH"] = os.pathsep.join([*map(str, launch.search_path), os.environ.get("PATH", os.defpath)])
    environment["PYTHONPATH"] = str(launch.service)
    environment["PYTHONHASHSEED"] = "0"
    environment["PYTHONUNBUFFERED"] = "1"
    environment["PYTHONIOENCODING"] = "utf-8"
    if not launch.user_site:
        environment["PYTHONNOUSERSITE"] = "1"
    if launch.overlay:
        environment[OVERLAY_VARIABLE] = str(launch.overlay)
    if launch.adapters:
        environment[ADAPTERS_VARIABLE] = str(launch.adapters)
    return environment


def server_environment(launch: Launch, options: StartOptions) -> dict[str, str]:
    """Variables of a server: ``base_environment``, its threads and its device."""
    # On Windows an empty variable is no variable, and an unset one shows every GPU; -1 names none.
    no_gpu = "-1" if sys.platform == "win32" else ""
    return (
        base_environment(launch)
        | library_variables(options.threads)
        | {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": options.gpu_uuid or no_gpu,
            # Bytecode was written when the environment was built: a trial must not leave the next one a faster start.
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONFAULTHANDLER": "1",
        }
    )


class ServerProcess:
    """A running server; see ``base.RunningRunner``."""

    def __init__(self, launch: Launch, tree: Tree, folder: Path, log: Path) -> None:
        self._launch = launch
        self._tree = tree
        self._folder = folder
        self._log = log
        self._target = ""

    @property
    def target(self) -> str:
        return self._target

    @property
    def pid(self) -> int | None:
        return self._tree.pid

    def alive(self) -> bool:
        return self._tree.exit_code() is None

    def exit_reason(self) -> Failure | None:
        self._tree.wait(_LAST_WORDS_SECONDS)
        return self._tree.failure()

    def stop(self) -> None:
        try:
            self._tree.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "ServerProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait_until_serving(self, seconds: float) -> None:
        """Raises RunnerError when the server ends before it serves, or has not served after ``seconds``."""
        deadline = time.monotonic() + seconds
        while not self._target:
            self._check(deadline, seconds)
            with contextlib.suppress(OSError):
                self._target = (self._folder / "address").read_text(encoding="utf-8").strip()
        wait_until_serving(self._target, lambda: self._check(deadline, seconds))

    def _check(self, deadline: float, seconds: float) -> None:
        """Waits one poll, and raises when there is nothing left to wait for."""
        if self._tree.wait(_POLL_SECONDS) is not None:
            failure = self._tree.failure() or Failure("PROCESS_DIED", "the process ended")
            message = f"{self._launch.runner}: did not start: {failure.message}"
            raise RunnerError(message, f"see {self._log}", failure.reason, failure.log_tail)
        if time.monotonic() > deadline:
            message = f"{self._launch.runner}: was not ready within {seconds:.0f} s"
            raise RunnerError(message, f"see {self._log}", "START_TIMEOUT", tail(self._log))


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """A runner that is started as a process of this machine; see ``base.PreparedRunner``."""

    spec: RunnerSpec
    environment: Environment
    launch: Launch

    def start(self, options: StartOptions) -> ServerProcess:
        return start(self.launch, options)


def start(launch: Launch, options: StartOptions) -> ServerProcess:
    """Starts a server and returns it SERVING; whatever is raised, Ctrl-C included, nothing is left running."""
    options.blobs.mkdir(parents=True, exist_ok=True)
    options.log.parent.mkdir(parents=True, exist_ok=True)
    folder = server = None
    try:
        with interrupts.postponed():
            folder = Path(tempfile.mkdtemp(prefix="trainyard-"))
            server = ServerProcess(launch, _spawn(launch, options, folder), folder, options.log)
        server.wait_until_serving(options.start_seconds)
    except BaseException:
        if server is not None:
            server.stop()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return server


def _spawn(launch: Launch, options: StartOptions, folder: Path) -> Tree:
    command = [str(launch.python), "-m", "runners.core.server", "--exit-with-stdin", "--adapter", launch.adapter]
    command += ["--listen", "127.0.0.1:0", "--address-file", str(folder / "address"), "--blobs", str(options.blobs)]
    try:
        # Its own empty folder: ``-m`` puts the current one on the module path, and frameworks may leave files there.
        return Tree(command, server_environment(launch, options), folder, options.log)
    except OSError as error:
        raise RunnerError(f"{launch.runner}: {launch.python} cannot be started: {error}") from error
