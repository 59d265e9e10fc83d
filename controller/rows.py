"""One row of a comparison: what the trials of a cell say, before it stands beside others. Pure functions of results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from controller.flags import Flag, flags
from controller.results import (
    CANCELLED,
    FAIL,
    FAILED,
    SUCCEEDED,
    UNSUPPORTED,
    Cell,
    Certificate,
    Environment,
    Identity,
    Measurement,
    Memory,
    Trial,
    WorkloadSummary,
)
from controller.statistics import Interval, interval

NOT_RUN = "not run"
ORDER = (SUCCEEDED, FAILED, UNSUPPORTED, CANCELLED, NOT_RUN)
"""States of rows, in the order of a table."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, smallest and largest value of at least one trial; ``interval`` (95 %) of two at least."""

    median: float
    low: float
    high: float
    interval: Interval | None = None

    @property
    def precision(self) -> float | None:
        """Half the interval's width, as a fraction of its middle; None where there is no interval."""
        return None if self.interval is None else self.interval.precision


@dataclass(frozen=True, slots=True)
class Row:
    """One cell. Seconds, samples per second, bytes; None where nothing was measured or it is not defined.

    ``seconds`` is the measured section, ``epoch_seconds`` and ``step_seconds`` medians of one epoch and one step;
    ``ratio`` is to the row of ``rank`` 1, within blocks, ``ratio_interval`` its 95 % interval for the whole table. Two
    rows share a letter of ``ties`` exactly if they cannot be told apart. ``memory`` holds the median of each kind of
    its own: they are never added or mixed. ``text`` says in one line what is missing and why. ``certificate`` is None
    where the cell was not verified.
    """

    cell: Cell
    workload: WorkloadSummary
    state: str
    text: str
    succeeded: int
    asked: int
    failed: int = 0
    rank: int | None = None
    ratio: float | None = None
    ratio_interval: Interval | None = None
    ties: str = ""
    flags: tuple[Flag, ...] = ()
    seconds: Spread | None = None
    epoch_seconds: float | None = None
    step_seconds: float | None = None
    samples_per_second: float | None = None
    accuracy: float | None = None
    test_loss: float | None = None
    memory: tuple[Memory, ...] = ()
    environment: Environment | None = None
    identity: Identity | None = None
    certificate: Certificate | None = None

    @property
    def is_unequal(self) -> bool:
        """Whether it is known not to do the work of its workload."""
        return self.certificate is not None and self.certificate.state == FAIL

    def label(self) -> str:
        """The cell's label, with host and device where they are not this machine's CPU."""
        return self.cell.placed()

    def memory_bytes(self, kind: str) -> int | None:
        """Median of one kind of memory, in bytes."""
        return next((entry.size_bytes for entry in self.memory if entry.kind == kind), None)


def row_of(
    cell: Cell, workload: WorkloadSummary, trials: Sequence[Trial], asked: int, certificate: Certificate | None
) -> Row:
    """The row of a cell from its trials, not yet beside others."""
    good = [trial for trial in trials if trial.state == SUCCEEDED and trial.measurement is not None]
    measured = [trial.measurement for trial in good if trial.measurement is not None]
    source = good[0] if good else trials[0] if trials else None
    state, text = _state(trials, len(good))
    return Row(
        cell=cell,
        workload=workload,
        state=state,
        text=text,
        succeeded=len(good),
        asked=asked,
        failed=sum(trial.state == FAILED for trial in trials),
        seconds=_spread([run.measured_seconds for run in measured]),
        epoch_seconds=_middle(measured, lambda run: _median(run.epoch_seconds)),
        step_seconds=_middle(measured, lambda run: _median(run.step_seconds)),
        samples_per_second=_middle(measured, _throughput),
        accuracy=_middle(measured, lambda run: run.test_accuracy),
        test_loss=_middle(measured, lambda run: run.test_loss),
        memory=_memory(measured),
        environment=source.environment if source else None,
        identity=source.identity if source else None,
        certificate=certificate,
        flags=flags(trials, certificate),
    )


def _state(trials: Sequence[Trial], succeeded: int) -> tuple[str, str]:
    """State of a row, and what to say of the trials that have no result."""
    if not trials:
        return NOT_RUN, NOT_RUN
    bad = [trial for trial in trials if trial.state != SUCCEEDED or trial.measurement is None]
    if not bad:
        return SUCCEEDED, ""
    worst = min(bad, key=lambda trial: ORDER.index(trial.state))
    text = reason_text(worst)
    if not succeeded:
        return (worst.state if worst.state != SUCCEEDED else FAILED), text
    return SUCCEEDED, f"{len(bad)} of {len(trials)} trials {text}"


def reason_text(trial: Trial) -> str:
    """Why a trial has no result, in one line."""
    failure = trial.failure
    message = " ".join(failure.message.split()) if failure else ""
    reason = failure.reason if failure else ""
    if trial.state == UNSUPPORTED:
        return f"not supported: {message or reason or 'no reason given'}"
    if trial.state == CANCELLED:
        return f"cancelled: {message}" if message else "cancelled"
    return f"failed: {f'{reason} {message}'.strip() or 'no reason given'}"


def _median(values: Sequence[float]) -> float | None:
    return float(median(values)) if values else None


def _middle(runs: Sequence[Measurement], value: Callable[[Measurement], float | None]) -> float | None:
    """Median over the trials that have the value."""
    return _median([number for run in runs if (number := value(run)) is not None])


def _throughput(run: Measurement) -> float | None:
    return run.sample_count / run.measured_seconds if run.measured_seconds > 0 else None


def _spread(values: Sequence[float]) -> Spread | None:
    return Spread(float(median(values)), min(values), max(values), interval(values)) if values else None


def _memory(runs: Sequence[Measurement]) -> tuple[Memory, ...]:
    """Median of each kind over the trials, in the order in which kinds appear."""
    kinds: dict[str, list[Memory]] = {}
    for run in runs:
        for entry in run.memory:
            kinds.setdefault(entry.kind, []).append(entry)
    return tuple(_middle_memory(kind, entries) for kind, entries in kinds.items())


def _middle_memory(kind: str, entries: Sequence[Memory]) -> Memory:
    sizes = [entry.size_bytes for entry in entries if entry.size_bytes is not None]
    reason = next((entry.reason for entry in entries if entry.reason), "")
    return Memory(kind, round(median(sizes)), "") if sizes else Memory(kind, None, reason)
