"""Times that were not measured in the same blocks: the ratio of two rows and its interval. Pure functions.

The trials of two campaigns are no pairs, and their noise need not be alike: each machine has its own. So the interval
is that of Welch's t-test (Welch, 1947) on the logarithms of times, with the degrees of freedom of Satterthwaite (1946).
"""

import math
from collections.abc import Sequence

from controller.statistics import ALPHA, Interval, Ratio


def ratio(times: Sequence[float], base: Sequence[float], comparisons: int = 1) -> Ratio | None:
    """Geometric mean of ``times`` over that of ``base`` (positive seconds), as one of ``comparisons`` of a table
    (Bonferroni); None where either has fewer than two. ``pairs`` of the result is 0: there are none."""
    if min(len(times), len(base)) < 2:
        return None
    first, second = _moments(times), _moments(base)
    difference = first[0] - second[0]
    margin = _margin(first[1], len(times), second[1], len(base), comparisons)
    return Ratio(math.exp(difference), Interval(math.exp(difference - margin), math.exp(difference + margin)), 0)


def _moments(times: Sequence[float]) -> tuple[float, float]:
    """Mean of the logarithms, and the squared standard error of that mean."""
    logs = list(map(math.log, times))
    mean = math.fsum(logs) / len(logs)
    return mean, math.fsum((each - mean) ** 2 for each in logs) / (len(logs) - 1) / len(logs)


def _margin(first: float, count: int, second: float, other: int, comparisons: int) -> float:
    """Half the width of the interval. Without any noise on both sides there is nothing to be unsure of."""
    from scipy.special import stdtrit

    total = first + second
    if total <= 0:
        return 0.0
    freedom = total**2 / (first**2 / (count - 1) + second**2 / (other - 1))
    return float(stdtrit(freedom, 1 - ALPHA / (2 * comparisons))) * math.sqrt(total)
