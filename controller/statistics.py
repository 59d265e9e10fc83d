"""What may be said of measured times: intervals, paired ratios, and which differences are real. Pure functions.

A comparison's trials come in blocks: one trial of every row, in random order, then the next block. What disturbs a
block (another program, a warm processor) disturbs all its rows, so rows are compared within blocks.

Formulas
- Interval of a row's time: Student's t on the logarithms of its trials' times (Student, 1908). Times are positive and
  their noise multiplies, so logarithms are taken; where they are symmetric it is an interval of the median.
- Ratio of two rows: the geometric mean of the blocks' ratios; its interval is that of a paired t-test on logarithms.
- Several rows: each two of them are compared, and Bonferroni's correction keeps the chance that anything at all is
  called different, where nothing is, at ``ALPHA`` or less. It holds whichever row turns out the fastest.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

ALPHA = 0.05
"""Chance of a false claim in one table."""

Key = TypeVar("Key")
Times = Mapping[int, float]
"""Seconds of one row's trials, by the number of their block."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Both ends belong to it."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def precision(self) -> float:
        """How far each end is from the (geometric) middle, as a fraction of it."""
        return math.sqrt(self.high / self.low) - 1.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long one row takes as another: ``interval`` at the level of the whole table, ``pairs`` blocks
    that have both. ``detectable`` is the smallest slowdown that would have been told with this noise, as a fraction."""

    value: float
    interval: Interval
    pairs: int

    @property
    def is_different(self) -> bool:
        return 1.0 not in self.interval

    @property
    def detectable(self) -> float:
        return self.interval.precision


def interval(values: Sequence[float]) -> Interval | None:
    """95 % interval of the time of a row from its trials, in their unit; None for fewer than two."""
    return _around(list(map(math.log, values)), 1) if len(values) > 1 else None


def ratio(times: Times, base: Times, comparisons: int = 1) -> Ratio | None:
    """``times`` over ``base`` in the blocks that have both, as one of ``comparisons`` of a table; None where fewer than
    two blocks do. Times are seconds, greater than 0."""
    blocks = sorted(times.keys() & base.keys())
    if len(blocks) < 2:
        return None
    logs = [math.log(times[block] / base[block]) for block in blocks]
    return Ratio(math.exp(math.fsum(logs) / len(logs)), _around(logs, comparisons), len(logs))


def _around(logs: Sequence[float], comparisons: int) -> Interval:
    """Interval of what the logarithms scatter around, as one of ``comparisons``; not a logarithm itself."""
    mean = math.fsum(logs) / len(logs)
    deviation = math.sqrt(math.fsum((each - mean) ** 2 for each in logs) / (len(logs) - 1))
    margin = _quantile(len(logs) - 1, comparisons) * deviation / math.sqrt(len(logs))
    return Interval(math.exp(mean - margin), math.exp(mean + margin))


def _quantile(freedom: int, comparisons: int) -> float:
    """Two-sided critical value of Student's t after Bonferroni's correction."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - ALPHA / (2 * comparisons)))


class Contest(Generic[Key]):
    """All rows of one table against each other. ``rows``: seconds of each by block, all positive."""

    def __init__(self, rows: Mapping[Key, Times]) -> None:
        self._rows = rows
        self._comparisons = max(1, len(rows) * (len(rows) - 1) // 2)
        self.order: tuple[Key, ...] = tuple(sorted(rows, key=lambda key: _location(rows[key])))
        """From the fastest on, by the geometric mean of times."""

    def ratio(self, key: Key, base: Key) -> Ratio | None:
        """None where fewer than two blocks have both."""
        return ratio(self._rows[key], self._rows[base], self._comparisons)

    def differs(self, key: Key, other: Key) -> bool:
        """Whether the two can be told apart."""
        found = self.ratio(key, other)
        return found is not None and found.is_different

    def tied(self) -> tuple[Key, ...]:
        """Those that cannot be told from the fastest, without it."""
        return tuple(key for key in self.order[1:] if not self.differs(key, self.order[0]))

    def letters(self) -> dict[Key, str]:
        """Letters such that two rows share one exactly if they cannot be told apart (a compact letter display by
        insertion and absorption: Piepho, 2004). Rows in ``order``; the fastest has "a"."""
        groups: list[frozenset[Key]] = [frozenset(self.order)]
        for first, second in combinations(self.order, 2):
            if self.differs(second, first):
                groups = _split(groups, first, second)
        place = {key: number for number, key in enumerate(self.order)}
        groups.sort(key=lambda group: sorted(place[key] for key in group))
        return {
            key: "".join(_letter(number) for number, group in enumerate(groups) if key in group) for key in self.order
        }


def _location(times: Times) -> float:
    return math.fsum(map(math.log, times.values())) / len(times)


def _split(groups: Sequence[frozenset[Key]], first: Key, second: Key) -> list[frozenset[Key]]:
    """Groups of which none holds both, and none lies in another."""
    parted = []
    for group in groups:
        parted += [group - {first}, group - {second}] if {first, second} <= group else [group]
    unique = list(dict.fromkeys(parted))
    return [group for group in unique if not any(group < other for other in unique)]


def _letter(number: int) -> str:
    """a to z, then A to Z, then the number in brackets."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return letters[number] if number < len(letters) else f"({number})"
