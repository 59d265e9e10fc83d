"""The same runner on several hosts: how many times as long it takes on one as on another. Pure functions of results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.results import Cell, Trial
from controller.statistics import Ratio, ratio


@dataclass(frozen=True, slots=True)
class HostRatio:
    """``cell`` over the same on ``base``: ``value`` of geometric means within blocks, or of medians where ``ratio`` is
    None because no two blocks have both. The interval is corrected for all such ratios of a table."""

    cell: Cell
    base: str
    value: float
    ratio: Ratio | None

    def text(self) -> str:
        """One line for people."""
        what = f"{self.cell.label()}: {self.cell.host} takes {self.value:.2f} times as long as {self.base}"
        if self.ratio is None:
            return f"{what} (a single trial: no interval, and no claim)"
        between = f"95 %: {self.ratio.interval.low:.2f} to {self.ratio.interval.high:.2f}"
        told = "" if self.ratio.is_different else ": cannot tell them apart"
        return f"{what} ({between}){told}"


def host_ratios(cells: Sequence[Cell], trials: Mapping[Cell, Sequence[Trial]]) -> tuple[HostRatio, ...]:
    """Of each runner and variant, every further host over its first. Cells as the campaign has them; only those that
    were measured, and do the work of their workload, are to be given."""
    found: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        if _times(trials.get(cell, ())):
            key = (cell.workload_digest, cell.runner, cell.variant, cell.device)
            found.setdefault(key, []).append(cell)
    pairs = [(cell, group[0]) for group in found.values() for cell in group[1:]]
    return tuple(_ratio(cell, base, trials, len(pairs)) for cell, base in pairs)


def _ratio(cell: Cell, base: Cell, trials: Mapping[Cell, Sequence[Trial]], comparisons: int) -> HostRatio:
    from statistics import median

    mine, others = _times(trials[cell]), _times(trials[base])
    paired = ratio(mine, others, comparisons)
    value = paired.value if paired else median(mine.values()) / median(others.values())
    return HostRatio(cell, base.host, value, paired)


def _times(trials: Sequence[Trial]) -> dict[int, float]:
    return {trial.block: trial.measurement.measured_seconds for trial in trials if trial.measurement is not None}
