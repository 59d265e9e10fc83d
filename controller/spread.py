"""How far accuracies lie apart: of different rows with the same seed, and of one row with different seeds. Pure.

Frameworks that do the same work differ in accuracy by rounding alone, which training makes larger; another seed of the
initial weights and of the order of samples shows how much is within what chance does anyway.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance

from controller.comparison import Comparison, Group
from controller.results import WorkloadSummary
from controller.rows import Row

_CHANCE = 0.05  # below it, seeds alone are not taken for the reason why rows differ


@dataclass(frozen=True, slots=True)
class Spread:
    """Accuracies (fractions of 1) of one workload. ``between_rows`` and ``between_seeds`` are largest differences: of
    rows with the same seed, of one row's seeds. ``between_means`` is that of the rows' means over seeds, and
    ``p_value`` how often chance alone, as seeds show it, parts them as far (one-way analysis of variance).
    With one seed, only ``between_rows`` is known."""

    workload: str
    rows: int
    between_rows: float
    seeds: int
    between_seeds: float | None
    between_means: float | None = None
    p_value: float | None = None

    def line(self) -> str:
        """For people."""
        rows = f"{self.rows} rows of {self.workload}"
        text = f"accuracy: {rows} differ by at most {self.between_rows:.4f} with the same seed"
        if self.between_seeds is None or self.between_means is None or self.p_value is None:
            return text
        does = "explain" if self.p_value >= _CHANCE else "do not explain"
        return (
            f"{text}, and each by at most {self.between_seeds:.4f} over {self.seeds} seeds; "
            f"seeds {does} that their means differ by {self.between_means:.4f} (p = {self.p_value:.2g})"
        )


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
    name = groups[0].workload.name
    if seeds < 2:
        return Spread(name, len(by_row), max(between_rows), seeds, None)
    # A row that is missing from a seed's table has no mean over the same seeds.
    whole = [values for values in by_row.values() if len(values) == seeds]
    between_seeds = max(_range(values) for values in by_row.values())
    if len(whole) < 2:
        return Spread(name, len(by_row), max(between_rows), seeds, between_seeds)
    means = _range([fmean(values) for values in whole])
    return Spread(name, len(by_row), max(between_rows), seeds, between_seeds, means, _chance(whole))


def _chance(rows: Sequence[Sequence[float]]) -> float:
    """P value of a one-way analysis of variance over ``rows`` of equally many accuracies: Fisher, Statistical Methods
    for Research Workers, chapter 7."""
    from scipy.special import fdtrc  # scipy.stats, which has the whole test, takes a second to import

    count, seeds = len(rows), len(rows[0])
    between = seeds * variance([fmean(row) for row in rows])
    within = fmean([variance(row) for row in rows])
    if within == 0:  # seeds change nothing: there is no chance to measure by
        return 1.0 if between == 0 else 0.0
    return float(fdtrc(count - 1, count * (seeds - 1), between / within))


def _sound(rows: Iterable[Row]) -> Iterable[tuple[Row, float]]:
    return ((row, row.accuracy) for row in rows if row.accuracy is not None and not row.is_unequal)


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)
