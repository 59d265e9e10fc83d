"""Rows of one workload beside each other: whether they may be ranked, in which order, and what may be said of it.

Pure functions of rows and their trials.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.results import SUCCEEDED, Cell, Trial, WorkloadSummary
from controller.rows import Row
from controller.statistics import Contest

# What must be equal in all trials of a workload: field of Identity, and its name for people.
SAME_WORK = (
    ("workload_digest", "workload"),
    ("data_digest", "data"),
    ("weights_digest", "initial weights"),
    ("parameter_count", "number of parameters"),
    ("service_digest", "source of the runner service"),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows that did not do the same work: ``what`` differs, and ``holders`` says which value each row has."""

    what: str
    holders: tuple[tuple[str, tuple[str, ...]], ...]

    def text(self) -> str:
        """One line for people."""
        parts = (f"{value[:12] or 'none'} in {', '.join(labels)}" for value, labels in self.holders)
        return f"{self.what} differs: {'; '.join(parts)}"


def problems(workload: WorkloadSummary, runs: Sequence[tuple[str, Sequence[Trial]]]) -> tuple[Problem, ...]:
    """What speaks against ranking; ``runs`` are labels and trials of the rows that take part."""
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """``fastest`` is a label or empty; ``tied`` are labels that cannot be told from the first; ``text`` for people."""

    text: str
    fastest: str = ""
    tied: tuple[str, ...] = ()


def ranked(rows: Sequence[Row], cells: Mapping[Cell, Sequence[Trial]]) -> tuple[list[Row], Verdict]:
    """Rows in their order, with what they have beside the fastest, and what may be said."""
    by_label = {row.label(): row for row in rows if row.seconds is not None and not row.is_unequal}
    contest = Contest({label: _times(cells[row.cell]) for label, row in by_label.items()})
    letters = contest.letters()
    result = []
    for number, label in enumerate(contest.order, 1):
        row = replace(by_label[label], rank=number, ties=_shared(letters, label))
        found = contest.ratio(label, contest.order[0])
        if number == 1:
            row = replace(row, ratio=1.0)
        elif found is not None:
            row = replace(row, ratio=found.value, ratio_interval=found.interval)
        else:
            row = replace(row, ratio=_plain_ratio(row, by_label[contest.order[0]]))
        result.append(row)
    return [*result, *(row for row in rows if row.label() not in letters)], _verdict(result, contest)


def _shared(letters: Mapping[str, str], label: str) -> str:
    """The letters of a row; none if it can be told from every other."""
    others = {letter for other, text in letters.items() if other != label for letter in text}
    return letters[label] if others & set(letters[label]) else ""


def _times(trials: Sequence[Trial]) -> dict[int, float]:
    return {trial.block: trial.measurement.measured_seconds for trial in trials if trial.measurement is not None}


def _plain_ratio(row: Row, first: Row) -> float | None:
    """Of medians: for rows that have no two blocks in common."""
    return row.seconds.median / first.seconds.median if row.seconds and first.seconds else None


def _verdict(ranked: Sequence[Row], contest: Contest[str]) -> Verdict:
    if len(ranked) < 2:
        return Verdict("one row: nothing to compare it with" if ranked else "nothing was measured")
    first, others = ranked[0], ranked[1:]
    single = [row.label() for row in ranked if row.succeeded < 2]
    if len(single) == len(ranked):
        return Verdict("single trial: no interval, and no claim which one is fastest")
    tied = contest.tied()
    if single:
        return Verdict(f"no claim: a single trial of {', '.join(single)}", tied=tied)
    if tied:
        return Verdict(_tie_text(first.label(), tied, contest), tied=tied)
    least = min(row.ratio_interval.low for row in others if row.ratio_interval)
    if first.flags:
        return Verdict(f"no claim: {first.label()} leads, but is flagged {first.flags[0].name}")
    more = f"the others take at least {least:.2f} times as long (95 % sure)"
    return Verdict(f"fastest: {first.label()}; {more}", fastest=first.label())


def _tie_text(first: str, tied: Sequence[str], contest: Contest[str]) -> str:
    seen = [found.detectable for label in tied if (found := contest.ratio(label, first))]
    text = f"no claim: {', '.join([first, *tied])} cannot be told apart"
    return f"{text} (under {_difference(max(seen))} is not seen with so few trials and so much noise)" if seen else text


def _difference(share: float) -> str:
    return f"{share:.0%}" if share < 1 else f"a factor of {1 + share:.1f}"
