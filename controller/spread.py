"""How far accuracies lie apart: of different rows with the same seed, and of one row with different seeds. Pure.

Frameworks that do the same work differ in accuracy by rounding alone, which training makes larger; another seed of the
initial weights and of the order of samples shows how much is within what chance does anyway.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from controller.comparison import Comparison, Group
from controller.results import WorkloadSummary
from controller.rows import Row


@dataclass(frozen=True, slots=True)
class Spread:
    """``between_rows`` and ``between_seeds`` are largest differences of accuracies (fractions of 1) of one workload;
    the second is None where there is one seed."""

    workload: str
    rows: int
    between_rows: float
    seeds: int
    between_seeds: float | None

    def line(self) -> str:
        """For people."""
        rows = f"{self.rows} rows of {self.workload}"
        text = f"accuracy: {rows} differ by at most {self.between_rows:.4f} with the same seed"
        if self.between_seeds is None:
            return text
        told = "more than" if self.between_rows > self.between_seeds else "no more than"
        return f"{text}, {told} each does over {self.seeds} seeds (at most {self.between_seeds:.4f})"


def spreads(comparison: Comparison) -> tuple[Spread, ...]:
    """Of each workload with at least two rows that do its work; groups that differ in the seed alone count as one."""
    families: dict[WorkloadSummary, list[Group]] = {}
    for group in comparison.groups:
        families.setdefault(replace(group.workload, seed=0, digest="", message=""), []).append(group)
    found = (_spread(groups) for groups in families.values())
    return tuple(each for each in found if each is not None)


def _spread(groups: Sequence[Group]) -> Spread | None:
    by_row: dict[str, list[float]] = {}
    between_rows = []
    for group in groups:
        sound = list(_sound(group.rows))
        for row, accuracy in sound:
            by_row.setdefault(row.label(), []).append(accuracy)
        if len(sound) > 1:
            between_rows.append(_range([accuracy for _, accuracy in sound]))
    if not between_rows:
        return None
    seeds = len(groups)
    between_seeds = max(_range(values) for values in by_row.values()) if seeds > 1 else None
    return Spread(groups[0].workload.name, len(by_row), max(between_rows), seeds, between_seeds)


def _sound(rows: Iterable[Row]) -> Iterable[tuple[Row, float]]:
    return ((row, row.accuracy) for row in rows if row.accuracy is not None and not row.is_unequal)


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)
