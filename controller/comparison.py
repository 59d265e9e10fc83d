"""Compares the trials of a campaign: one row per cell, ranked within its workload. Pure functions of results.

Rules
- Every cell of the campaign is a row. Rows with measured trials come first, by median measured time (ties by
  label); then failed, unsupported, cancelled and not started ones.
- Medians are over the succeeded trials. One trial has no interval, and nothing is claimed from it.
- A row whose certificate is a failure does other work than its workload says. It is shown, after the others, and
  takes part in nothing: no rank, no ratio, no claim, no proof.
- Rows of one workload are ranked only if their trials prove that they did the same: digests of request, data,
  initial weights and the runner's source, and the number of parameters. If any differs, no row of that workload
  is ranked, because nothing says which one is right.
- "Fastest" is said only where each of a row's trials (two at least) was faster than every trial of the others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from controller.results import (
    CANCELLED,
    FAIL,
    FAILED,
    SUCCEEDED,
    UNSUPPORTED,
    Campaign,
    Cell,
    Certificate,
    Environment,
    Identity,
    Measurement,
    Memory,
    Trial,
    WorkloadSummary,
)

NOT_RUN = "not run"

# What must be equal in all trials of a workload: field of Identity, and its name for people.
SAME_WORK = (
    ("workload_digest", "workload"),
    ("data_digest", "data"),
    ("weights_digest", "initial weights"),
    ("parameter_count", "number of parameters"),
    ("service_digest", "source of the runner service"),
)
_ORDER = (SUCCEEDED, FAILED, UNSUPPORTED, CANCELLED, NOT_RUN)


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, smallest and largest value of at least one trial."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Row:
    """One cell. Seconds, samples per second, bytes; None where nothing was measured or it is not defined.

    ``seconds`` is the measured section, ``epoch_seconds`` and ``step_seconds`` medians of one epoch and one step;
    ``ratio`` is to the smallest median of the ranked rows, whose ``rank`` is 1. ``memory`` holds the median of
    each kind of its own: they are never added or mixed. ``text`` says in one line what is missing and why.
    ``certificate`` is None where the cell was not verified.
    """

    cell: Cell
    workload: WorkloadSummary
    state: str
    text: str
    succeeded: int
    asked: int
    rank: int | None = None
    ratio: float | None = None
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
        place = [part for part, usual in ((self.cell.host, "local"), (self.cell.device, "cpu")) if part != usual]
        return " on ".join([self.cell.label(), *place])

    def memory_bytes(self, kind: str) -> int | None:
        """Median of one kind of memory, in bytes."""
        return next((entry.size_bytes for entry in self.memory if entry.kind == kind), None)


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows that did not do the same work: ``what`` differs, and ``holders`` says which value each row has."""

    what: str
    holders: tuple[tuple[str, tuple[str, ...]], ...]

    def text(self) -> str:
        """One line for people."""
        parts = (f"{value[:12] or 'none'} in {', '.join(labels)}" for value, labels in self.holders)
        return f"{self.what} differs: {'; '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one workload, and what may be said of them. ``fastest`` is the label of a row, or empty;
    ``tied`` are those whose trials overlap with the trials of the row of rank 1."""

    workload: WorkloadSummary
    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]
    fastest: str
    tied: tuple[str, ...]
    verdict: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that a report shows."""

    campaign: Campaign
    groups: tuple[Group, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, workload after workload."""
        return tuple(row for group in self.groups for row in group.rows)

    @property
    def is_sound(self) -> bool:
        """Whether nothing failed, was cut short or differs. A cell that is not supported is an answer."""
        complete = all(row.state == UNSUPPORTED or row.succeeded >= row.asked for row in self.rows)
        measured = any(row.succeeded for row in self.rows)
        equal = not any(row.is_unequal for row in self.rows)
        return complete and measured and equal and not any(group.problems for group in self.groups)


def compare(campaign: Campaign, trials: Iterable[Trial]) -> Comparison:
    """The comparison of a campaign from the trials that it has so far, in any order."""
    found: dict[Cell, list[Trial]] = {cell: [] for cell in campaign.cells}
    for trial in trials:
        found.setdefault(trial.cell, []).append(trial)
    workloads = {workload.digest: workload for workload in campaign.workloads}
    certificates = {entry.cell: entry.certificate for entry in campaign.certificates}
    groups = []
    for digest, workload in workloads.items():
        cells = {cell: runs for cell, runs in found.items() if cell.workload_digest == digest}
        groups.append(_group(workload, cells, campaign.trial_count, certificates))
    return Comparison(campaign, tuple(groups))


def _group(
    workload: WorkloadSummary, cells: dict[Cell, list[Trial]], asked: int, certificates: Mapping[Cell, Certificate]
) -> Group:
    rows = [
        replace(_row(cell, workload, runs, asked), certificate=certificates.get(cell)) for cell, runs in cells.items()
    ]
    rows.sort(key=_place)
    problems = _problems(workload, [(row.label(), cells[row.cell]) for row in rows if not row.is_unequal])
    if problems:
        return Group(workload, tuple(rows), problems, "", (), "not ranked: the rows did not do the same work")
    ranked = _ranked(rows)
    fastest, tied, verdict = _verdict([row for row in ranked if row.rank is not None])
    if any(row.is_unequal and row.succeeded for row in rows) and not any(row.rank for row in ranked):
        verdict = "not ranked: no row does the work that it should"
    return Group(workload, tuple(ranked), (), fastest, tied, verdict)


def _place(row: Row) -> tuple[int, bool, float, str]:
    return _ORDER.index(row.state), row.is_unequal, row.seconds.median if row.seconds else 0.0, row.label()


# --- one row -----------------------------------------------------------------------------------------------


def _row(cell: Cell, workload: WorkloadSummary, trials: Sequence[Trial], asked: int) -> Row:
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
        seconds=_spread([run.measured_seconds for run in measured]),
        epoch_seconds=_middle(measured, lambda run: _median(run.epoch_seconds)),
        step_seconds=_middle(measured, lambda run: _median(run.step_seconds)),
        samples_per_second=_middle(measured, _throughput),
        accuracy=_middle(measured, lambda run: run.test_accuracy),
        test_loss=_middle(measured, lambda run: run.test_loss),
        memory=_memory(measured),
        environment=source.environment if source else None,
        identity=source.identity if source else None,
    )


def _state(trials: Sequence[Trial], succeeded: int) -> tuple[str, str]:
    """State of a row, and what to say of the trials that have no result."""
    if not trials:
        return NOT_RUN, NOT_RUN
    bad = [trial for trial in trials if trial.state != SUCCEEDED or trial.measurement is None]
    if not bad:
        return SUCCEEDED, ""
    worst = min(bad, key=lambda trial: _ORDER.index(trial.state))
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
    return Spread(float(median(values)), min(values), max(values)) if values else None


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


# --- rows beside each other --------------------------------------------------------------------------------


def _problems(workload: WorkloadSummary, runs: Sequence[tuple[str, Sequence[Trial]]]) -> tuple[Problem, ...]:
    succeeded = [(label, trial) for label, trials in runs for trial in trials if trial.state == SUCCEEDED]
    found = []
    for field, name in SAME_WORK:
        holders: dict[str, list[str]] = {}
        if field == "workload_digest" and succeeded:
            holders[workload.digest] = ["the request"]
        for label, trial in succeeded:
            value = str(getattr(trial.identity, field)) if trial.identity else ""
            if label not in holders.setdefault(value, []):
                holders[value].append(label)
        if len(holders) > 1:
            found.append(Problem(name, tuple((value, tuple(labels)) for value, labels in holders.items())))
    found.extend(_changed_versions(runs))
    return tuple(found)


def _changed_versions(runs: Sequence[tuple[str, Sequence[Trial]]]) -> Iterable[Problem]:
    """Rows whose environment changed from one trial to another."""
    for label, trials in runs:
        versions = [trial.identity.versions for trial in trials if trial.state == SUCCEEDED and trial.identity]
        for name in sorted({name for entry in versions for name in entry}):
            values = dict.fromkeys(entry.get(name, "") for entry in versions)
            if len(values) > 1:
                yield Problem(f"version of {name}", tuple((value, (label,)) for value in values))


def _ranked(rows: Sequence[Row]) -> list[Row]:
    """Rows with ``rank`` and ``ratio``. Rows are sorted; equal medians share a rank."""
    result: list[Row] = []
    base = next((row.seconds.median for row in rows if row.seconds), 0.0)
    for number, row in enumerate(rows, 1):
        if row.seconds is None or row.is_unequal:
            result.append(row)
            continue
        before = result[-1] if result else None
        is_equal = before is not None and before.seconds is not None and before.seconds.median == row.seconds.median
        ratio = row.seconds.median / base if base > 0 else None
        result.append(replace(row, rank=before.rank if before is not None and is_equal else number, ratio=ratio))
    return result


def _verdict(ranked: Sequence[Row]) -> tuple[str, tuple[str, ...], str]:
    """(label of the fastest row or "", labels that cannot be told from the first, one line for people)."""
    if not ranked:
        return "", (), "nothing was measured"
    first, others = ranked[0], ranked[1:]
    if not others:
        return "", (), "one row: nothing to compare it with"
    single = [row for row in ranked if row.succeeded < 2]
    if len(single) == len(ranked):
        return "", (), "single trial: no interval, and no claim which one is fastest"
    tied = tuple(row.label() for row in others if _overlaps(first, row))
    if tied:
        return "", tied, f"no claim: the trials of {first.label()} and {', '.join(tied)} overlap"
    if single:
        names = ", ".join(row.label() for row in single)
        return "", (), f"no claim: a single trial of {names}"
    faster = f"each of its {first.succeeded} trials was faster than every trial of the others"
    return first.label(), (), f"fastest: {first.label()}; {faster}"


def _overlaps(first: Row, other: Row) -> bool:
    return first.seconds is not None and other.seconds is not None and other.seconds.low <= first.seconds.high
