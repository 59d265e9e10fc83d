"""Builds several things at once: downloads overlap, heavy compiling takes turns, one failure stops no other."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from controller.errors import ControllerError, HostError
from controller.events import BuildProgress, Observer
from controller.runtimes.commands import CancelledError
from controller.runtimes.packages import Report

DOWNLOADS = 2  # A second download uses the network while the first one unpacks; more only compete for the cores.
_POLL_SECONDS = 0.1
_STEP = 0.005


class Slots:
    """Who may do what at the same time, and whether to go on at all."""

    def __init__(self) -> None:
        self.cancel = threading.Event()
        self._downloads = threading.Semaphore(DOWNLOADS)
        self._compiling = threading.Semaphore(1)  # One framework's compilation takes every core by itself.

    def downloading(self, waiting: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        return self._hold(self._downloads, waiting)

    def compiling(self, waiting: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        return self._hold(self._compiling, waiting)

    def check(self) -> None:
        """Raises CancelledError when the builds were given up."""
        if self.cancel.is_set():
            raise CancelledError

    @contextlib.contextmanager
    def _hold(self, semaphore: threading.Semaphore, waiting: Callable[[], None]) -> Iterator[None]:
        while not semaphore.acquire(timeout=_POLL_SECONDS):
            self.check()
            waiting()
        try:
            self.check()
            yield
        finally:
            semaphore.release()


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to build for one runner. ``build`` returns when it stands and raises ControllerError when it cannot."""

    runner: str
    build: Callable[[Slots, Report], None]


def build_all(jobs: Sequence[Job], observe: Observer) -> Mapping[str, ControllerError | None]:
    """Builds all, begun in the order given, and returns each one's error or None. ``observe`` is called on the
    calling thread only. Ctrl-C and whatever ``observe`` raises end all builds and their processes at once."""
    if not jobs:
        return {}
    slots = Slots()
    events: queue.SimpleQueue[BuildProgress] = queue.SimpleQueue()
    with ThreadPoolExecutor(len(jobs), thread_name_prefix="build") as pool:
        try:
            futures = {job.runner: pool.submit(_run, job, slots, events) for job in jobs}
            _watch(list(futures.values()), events, observe)
        except BaseException:
            slots.cancel.set()
            raise
    return {runner: future.result() for runner, future in futures.items()}


def _watch(
    futures: Sequence[Future[ControllerError | None]], events: "queue.SimpleQueue[BuildProgress]", observe: Observer
) -> None:
    pending = set(futures)
    while pending or not events.empty():
        with contextlib.suppress(queue.Empty):
            while True:
                observe(events.get_nowait())
        if pending:
            pending = wait(pending, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED).not_done


def _run(job: Job, slots: Slots, events: "queue.SimpleQueue[BuildProgress]") -> ControllerError | None:
    reporter = _Reporter(job.runner, events)
    reporter.put("waiting", "", None)
    try:
        job.build(slots, reporter.report)
    except ControllerError as error:
        reporter.put("failed", error.message, None)
        return error
    except CancelledError:
        return None
    except OSError as error:
        failure = HostError(f"{job.runner}: the environment could not be built: {error}")
        reporter.put("failed", failure.message, None)
        return failure
    reporter.put("done", "", 1.0)
    return None


class _Reporter:
    """Passes progress on when there is something to see."""

    def __init__(self, runner: str, events: "queue.SimpleQueue[BuildProgress]") -> None:
        self._runner = runner
        self._events = events
        self._last: tuple[str, float] = ("", -1.0)

    def report(self, stage: str, fraction: float | None) -> None:
        known = -1.0 if fraction is None else fraction
        if stage != self._last[0] or abs(known - self._last[1]) >= _STEP:
            self._last = (stage, known)
            self.put("running", stage, fraction)

    def put(self, state: str, stage: str, fraction: float | None) -> None:
        self._events.put(BuildProgress(self._runner, state, stage, fraction))
