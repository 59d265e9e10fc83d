"""What is happening now: bars on a terminal, elsewhere one plain line per change. An observer of events."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from controller.events import BuildProgress, DataProgress, Event, Note, ProbeProgress, TrialDone, TrialProgress
from controller.results import SUCCEEDED, Trial
from controller.rows import reason_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

# Plain lines of one subject are at least so many seconds apart, unless its state changes.
PLAIN_INTERVAL = 10.0
# Bars are drawn when something happens and at most so often; no thread draws while a trial is being measured.
DRAW_INTERVAL = 0.25
_ENDED = ("done", "ready", "failed")


class Live(Protocol):
    """A context manager that is called with each event."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __call__(self, event: Event) -> None: ...


def live(console: "Console") -> Live:
    """The display that suits the console, which should be that of standard error."""
    return Bars(console) if console.is_terminal and not console.is_dumb_terminal else Lines(console)


# --- words -------------------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """Such as ``45 s``, ``3 min``, ``2 h 05 min``; for expectations, not for results."""
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def build_text(event: BuildProgress | DataProgress) -> str:
    """State and stage of an environment or a dataset."""
    words = {"running": event.stage or "running", "done": "ready", "ready": "ready (was there)"}
    text = words.get(event.state, event.state)
    return f"{text}: {event.stage}" if event.state == "failed" and event.stage else text


def probe_subject(event: ProbeProgress) -> str:
    """What is probed."""
    return f"check {event.number}/{event.total} {event.runner} on {event.workload}"


def probe_text(event: ProbeProgress) -> str:
    """How a probe stands."""
    return event.text or {"running": "training a few steps"}.get(event.state, event.state)


def trial_text(event: TrialProgress) -> str:
    """Phase, epoch, samples per second and expected time left of the running trial."""
    parts = [event.phase]
    if event.steps_total:
        parts.append(_position(event))
    if event.samples_per_second > 0:
        parts.append(f"{event.samples_per_second:,.0f} samples/s")
    if event.campaign_seconds_left:  # 0: it takes longer than expected, nobody knows how long
        parts.append(f"about {duration(event.campaign_seconds_left)} left")
    return ", ".join(parts)


def _position(event: TrialProgress) -> str:
    """In epochs where the phase has whole ones, else in steps."""
    per_epoch = event.steps_per_epoch
    if per_epoch and event.steps_total >= per_epoch:
        epochs = -(-event.steps_total // per_epoch)
        return f"epoch {min(event.steps_done // per_epoch + 1, epochs)}/{epochs}"
    return f"step {event.steps_done:,}/{event.steps_total:,}"


def result_text(trial: Trial) -> str:
    """How a trial ended."""
    run = trial.measurement
    if trial.state == SUCCEEDED and run is not None:
        return f"{run.measured_seconds:.2f} s, accuracy {run.test_accuracy:.4f}"
    return reason_text(trial)


# --- plain lines -------------------------------------------------------------------------------------------


class Lines:
    """One line when a build or dataset changes its state and when a trial starts or ends; progress in between
    at most every ``PLAIN_INTERVAL`` seconds."""

    def __init__(self, console: "Console", clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._last: dict[str, tuple[str, str, float]] = {}
        self._lock = threading.Lock()  # environments are built by several threads

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __call__(self, event: Event) -> None:
        """Prints the event, or keeps silent."""
        with self._lock:
            self._handle(event)

    def _handle(self, event: Event) -> None:
        match event:
            case BuildProgress():
                self._change(event.runner, event.state, build_text(event))
            case DataProgress():
                self._change(event.dataset, event.state, build_text(event))
            case ProbeProgress():
                self._change(probe_subject(event), event.state, probe_text(event))
            case TrialProgress():
                self._change(f"trial {event.number}/{event.total} {event.cell.placed()}", "", trial_text(event))
            case TrialDone():
                self._print(
                    f"trial {event.number}/{event.total} {event.trial.cell.placed()}: {result_text(event.trial)}"
                )
            case Note():
                self._print(f"note: {event.text}")

    def _change(self, subject: str, state: str, text: str) -> None:
        now = self._clock()
        old_state, old_text, since = self._last.get(subject, (None, "", now))
        is_due = text != old_text and now - since >= PLAIN_INTERVAL
        if state != old_state or is_due:
            self._last[subject] = (state, text, now)
            self._print(f"{subject}: {text}")

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=False, highlight=False)


# --- bars --------------------------------------------------------------------------------------------------


class Bars:
    """Builds and datasets as several bars, then one for the running trial and one for the campaign."""

    def __init__(self, console: "Console", clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = _progress(console)
        self._clock = clock
        self._tasks: dict[str, TaskID] = {}
        self._states: dict[str, str] = {}
        self._preparing: list[str] = []
        self._drawn_at = clock()
        self._lock = threading.Lock()  # environments are built by several threads

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._tasks):
            self._remove(name)
        self._progress.stop()

    def __call__(self, event: Event) -> None:
        """Shows the event."""
        with self._lock:
            self._handle(event)
            now = self._clock()
            if now - self._drawn_at >= DRAW_INTERVAL or self._has_changed(event):
                self._drawn_at = now
                self._progress.refresh()

    def _has_changed(self, event: Event) -> bool:
        """Whether a subject is in another state than before: that is drawn at once."""
        match event:
            case BuildProgress(runner=name, state=state) | DataProgress(dataset=name, state=state):
                pass
            case ProbeProgress(state=state):
                name = probe_subject(event)
            case TrialProgress(phase=state):
                name = "trial"
            case _:
                return True
        before, self._states[name] = self._states.get(name), state
        return before != state

    def _handle(self, event: Event) -> None:
        match event:
            case BuildProgress():
                self._prepare(event.runner, event)
            case DataProgress():
                self._prepare(event.dataset, event)
            case ProbeProgress():
                self._probe(event)
            case TrialProgress():
                self._trial(event)
            case TrialDone():
                self._done(event)
            case Note():
                self._print(f"note: {event.text}", "yellow")

    def _prepare(self, name: str, event: BuildProgress | DataProgress) -> None:
        if name not in self._preparing:
            self._preparing.append(name)
        fraction = 1.0 if event.state in _ENDED else event.fraction
        self._show(name, name, build_text(event), fraction if event.state != "waiting" else 0.0)
        if event.state == "failed":
            self._print(f"{name}: {build_text(event)}", "red")

    def _probe(self, event: ProbeProgress) -> None:
        self._clear_preparing()
        if event.state == "running":
            done = (event.number - 1) / max(event.total, 1)
            self._show("probe", f"check {event.runner} on {event.workload}", probe_text(event), None)
            self._show("probes", "checks", f"{event.number} of {event.total}", done)
        elif event.text:
            self._print(f"{probe_subject(event)}: {event.text}", "red" if event.state == "failed" else "")

    def _trial(self, event: TrialProgress) -> None:
        self._clear_preparing()
        self._remove("probe")
        self._remove("probes")
        fraction = event.steps_done / event.steps_total if event.steps_total else None
        self._show("trial", event.cell.placed(), trial_text(event), fraction)
        self._show("campaign", "trials", f"{event.number} of {event.total}", (event.number - 1) / max(event.total, 1))

    def _done(self, event: TrialDone) -> None:
        self._clear_preparing()
        self._remove("trial")
        self._show("campaign", "trials", f"{event.number} of {event.total} done", event.number / max(event.total, 1))
        style = "" if event.trial.state == SUCCEEDED else "red"
        self._print(
            f"trial {event.number}/{event.total} {event.trial.cell.placed()}: {result_text(event.trial)}", style
        )

    def _clear_preparing(self) -> None:
        while self._preparing:
            self._remove(self._preparing.pop())

    def _show(self, name: str, label: str, detail: str, fraction: float | None) -> None:
        """Updates or adds a bar; one that never had a fraction only pulses."""
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(label, total=None, detail=detail)
        total = None if fraction is None else 1.0
        self._progress.update(
            self._tasks[name], description=label, total=total, completed=fraction or 0.0, detail=detail
        )

    def _remove(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            self._progress.remove_task(task)

    def _print(self, text: str, style: str = "") -> None:
        self._progress.console.print(text, style=style, soft_wrap=True, markup=False, highlight=False)


def _progress(console: "Console") -> "Progress":
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[detail]}", markup=False),
        console=console,
        transient=True,
        auto_refresh=False,
    )
