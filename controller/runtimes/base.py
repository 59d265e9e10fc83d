"""The seam between a campaign and the ways a runner can be started: one gRPC channel, whatever stands behind it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from controller.catalog.runners import RunnerSpec
from controller.errors import ControllerError
from controller.events import Observer
from controller.results import Environment, Failure


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether this machine can have a runner. ``reason`` says in words why not, or what will be done first;
    ``remedy`` is the next step, such as a command."""

    ok: bool
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How one runner is started. ``gpu_uuid`` empty: no GPU can be seen from inside. ``log`` receives all it prints.

    ``arrays`` are the digests of the datasets that it will be asked for, where they have to be brought to it first;
    ``campaign`` and ``trial`` are written on what is started, so that a later controller knows what it was."""

    threads: int
    blobs: Path
    log: Path
    gpu_uuid: str = ""
    start_seconds: float = 180.0
    arrays: tuple[str, ...] = ()
    campaign: str = ""
    trial: str = ""


_COUNTS = tuple(f"{name}_THREADS" for name in ("OMP_NUM", "MKL_NUM", "OPENBLAS_NUM", "VECLIB_MAXIMUM", "NUMEXPR_NUM"))


# Bytes. The second is the most that every glibc takes.
_ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}


def library_variables(threads: int) -> dict[str, str]:
    """What numerical libraries and the C library read when they are loaded: equal for every runner, in a process as in
    a container. Waiting threads of OpenMP sleep (docs/decisions/0006-waiting-threads.md), and glibc keeps memory that
    is freed (docs/decisions/0008-kept-memory.md)."""
    return dict.fromkeys(_COUNTS, str(threads)) | {"OMP_WAIT_POLICY": "passive"} | _ALLOCATOR


class RunningRunner(AbstractContextManager["RunningRunner"], Protocol):
    """A runner that is SERVING. Leaving the context stops it and everything that it started, for certain."""

    @property
    def target(self) -> Any:
        """Address for ``grpc.insecure_channel``, where the channel must not go through an HTTP proxy; or the channel
        itself, which is closed by whoever asked for it."""

    @property
    def pid(self) -> int | None:
        """The server's process on this machine; None where it has none."""

    def alive(self) -> bool:
        """Whether the server still runs."""

    def exit_reason(self) -> Failure | None:
        """Why it no longer runs, with its last log lines; None while it does. Waits a moment for a process that
        has just closed its connection."""

    def stop(self) -> None:
        """Stops it now; any number of times."""


class PreparedRunner(Protocol):
    """A runner whose environment stands. Every trial starts it afresh."""

    @property
    def spec(self) -> RunnerSpec:
        """What it is; ``name`` is what tables show."""

    @property
    def environment(self) -> Environment:
        """Where it came from, for the record."""

    def start(self, options: StartOptions) -> RunningRunner:
        """Starts a fresh one and waits until it is SERVING. Raises RunnerError with its last log lines."""


class Runtime(Protocol):
    """One way to have runners: managed environments, the user's own interpreters, containers, addresses."""

    @property
    def name(self) -> str:
        """Such as "venv"."""

    def availability(self, spec: RunnerSpec, device: str = "cpu") -> Availability:
        """Whether ``prepare`` can be expected to succeed. Quick; builds and fetches nothing."""

    def prepare(
        self, specs: Sequence[RunnerSpec], device: str, observe: Observer
    ) -> Mapping[str, PreparedRunner | ControllerError]:
        """Makes each runner ready, several at once; a failure is the value for that name and stops no other."""
