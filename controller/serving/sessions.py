"""Runners that this host has started for controllers: one at a time, each as long as its call."""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from trainyard.v1 import host_pb2, runner_pb2_grpc

from controller.client import open_channel
from controller.errors import RunnerError
from controller.hosts import usable_cpus
from controller.results import Failure
from controller.runtimes.base import PreparedRunner, RunningRunner, StartOptions
from controller.serving.limits import Refusal, invalid

_LOOK_SECONDS = 0.5
_MAX_WAIT_SECONDS = 3600.0


@dataclass(slots=True)
class Session:
    """A runner that serves. ``stub`` is of its Runner service, ``gpu_uuid`` what it may see."""

    name: str
    running: RunningRunner
    channel: grpc.Channel
    gpu_uuid: str
    stub: Any = field(init=False)

    def __post_init__(self) -> None:
        self.stub = runner_pb2_grpc.RunnerStub(self.channel)


class Sessions:
    """``seconds``: how long a runner may live."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turn = threading.Lock()
        self._current: Session | None = None
        self._closed = threading.Event()

    def find(self, name: str) -> Session:
        """The session that a call is for. Raises Refusal."""
        current = self._current
        if current is None or not secrets.compare_digest(current.name.encode(), name.encode()):
            raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, "SESSION", "this runner has ended, or never was")
        return current

    def close(self) -> None:
        """Ends the runner that is there; none is started any more."""
        self._closed.set()

    def wait_until_idle(self, seconds: float) -> None:
        """Waits, not longer, until the runner that was there has ended."""
        if self._turn.acquire(timeout=seconds):
            self._turn.release()

    def run(
        self, runner: PreparedRunner, options: StartOptions, wait_seconds: float, is_wanted: Callable[[], bool]
    ) -> Iterator[Any]:
        """Starts a runner and yields StartRunnerEvent messages until it ends or is not wanted any more. Raises
        Refusal."""
        with self.turn(wait_seconds, is_wanted):
            try:
                running = runner.start(options)
            except RunnerError as error:
                yield _ended(Failure(error.reason, error.line(), error.log_tail))
                return
            with running, self._session(running, options) as session:
                yield host_pb2.StartRunnerEvent(serving=host_pb2.RunnerServing(session=session.name))
                failure = self._watch(running, is_wanted)
            if failure is not None:
                yield _ended(failure)

    @contextmanager
    def turn(self, wait_seconds: float, is_wanted: Callable[[], bool]) -> Iterator[None]:
        """What may not be done while a runner runs here, and the other way round: nothing is measured while something
        is built. Raises Refusal where it takes too long."""
        deadline = time.monotonic() + min(max(0.0, wait_seconds), _MAX_WAIT_SECONDS)
        while not self._turn.acquire(timeout=_LOOK_SECONDS):
            if not is_wanted() or self._closed.is_set() or time.monotonic() > deadline:
                message = "another controller's runner is running here, or being built"
                raise Refusal(grpc.StatusCode.ABORTED, "HOST_BUSY", message)
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def _session(self, running: RunningRunner, options: StartOptions) -> Iterator[Session]:
        with open_channel(running.target) as channel:
            self._current = Session(secrets.token_hex(16), running, channel, options.gpu_uuid)
            try:
                yield self._current
            finally:
                self._current = None

    def _watch(self, running: RunningRunner, is_wanted: Callable[[], bool]) -> Failure | None:
        """Waits until the runner ends by itself, and says why; or is not wanted any more."""
        deadline = time.monotonic() + self._seconds
        while is_wanted() and not self._closed.is_set():
            if not running.alive():
                return running.exit_reason() or Failure("PROCESS_DIED", "the runner ended")
            if time.monotonic() > deadline:
                return Failure("TIMEOUT", f"a runner may live for {self._seconds:,.0f} s on this host")
            time.sleep(_LOOK_SECONDS)
        return Failure("STOPPING", "the host is being stopped") if self._closed.is_set() else None


def check_threads(threads: int) -> int:
    """Raises Refusal for more threads than four for each core, or none."""
    if not 1 <= threads <= 4 * usable_cpus():
        raise invalid("threads", f"threads must be 1 to {4 * usable_cpus()} on this host, not {threads}")
    return threads


def _ended(failure: Failure) -> Any:
    ended = host_pb2.RunnerEnded(reason=failure.reason, message=failure.message, log_tail=failure.log_tail)
    return host_pb2.StartRunnerEvent(ended=ended)
