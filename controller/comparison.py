"""Compares the trials of a campaign: one row per cell, ranked within its workload. Pure functions of results.

Rules
- Every cell of the campaign is a row. Rows with measured trials come first, the fastest by geometric mean leading; then
  failed, unsupported, cancelled and not started ones.
- Medians are over the succeeded trials. One trial has no interval, and nothing is claimed from it.
- A row whose certificate is a failure does other work than its workload says. It is shown, after the others, and
  takes part in nothing: no rank, no ratio, no claim, no proof.
- Rows of one workload are ranked only if their trials prove that they did the same: digests of request, data,
  initial weights and the runner's source, and the number of parameters. If any differs, no row of that workload
  is ranked, because nothing says which one is right.
- "Fastest" is said only of a row without a flag that statistics.py can tell from every other one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.between import HostRatio, host_ratios
from controller.ranking import Problem, Verdict, problems, ranked
from controller.results import UNSUPPORTED, Campaign, Cell, Certificate, Trial, WorkloadSummary
from controller.rows import ORDER, Row, row_of


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one workload, and what may be said of them. ``fastest`` is the label of a row, or empty;
    ``tied`` are those that cannot be told from the row of rank 1; ``between``: the same row on several hosts."""

    workload: WorkloadSummary
    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]
    fastest: str
    tied: tuple[str, ...]
    verdict: str
    between: tuple[HostRatio, ...] = ()


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
        groups.append(_group(workload, cells, _asked(campaign, cells), certificates))
    return Comparison(campaign, tuple(groups))


def _asked(campaign: Campaign, cells: Mapping[Cell, list[Trial]]) -> int:
    """Trials that each row was to have: blocks may have been added until times were precise enough."""
    return max([campaign.trial_count, *(trial.block + 1 for runs in cells.values() for trial in runs)])


def _group(
    workload: WorkloadSummary, cells: dict[Cell, list[Trial]], asked: int, certificates: Mapping[Cell, Certificate]
) -> Group:
    rows = sorted(
        (row_of(cell, workload, runs, asked, certificates.get(cell)) for cell, runs in cells.items()), key=_place
    )
    found = problems(workload, [(row.label(), cells[row.cell]) for row in rows if not row.is_unequal])
    if found:
        return Group(workload, tuple(rows), found, "", (), "not ranked: the rows did not do the same work")
    places, verdict = ranked(rows, cells)
    if any(row.is_unequal and row.succeeded for row in rows) and not any(row.rank for row in places):
        verdict = Verdict("not ranked: no row does the work that it should")
    wrong = {row.cell for row in rows if row.is_unequal}
    between = host_ratios([cell for cell in cells if cell not in wrong], cells)
    return Group(workload, tuple(places), (), verdict.fastest, verdict.tied, verdict.text, between)


def _place(row: Row) -> tuple[int, bool, float, str]:
    return ORDER.index(row.state), row.is_unequal, row.seconds.median if row.seconds else 0.0, row.label()
