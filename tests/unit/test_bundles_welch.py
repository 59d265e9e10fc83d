"""The unpaired ratio beside SciPy's Welch test."""

import math

import pytest

from controller.bundles import welch


@pytest.mark.parametrize("comparisons", [1, 6])
def test_the_interval_is_that_of_scipy(comparisons):
    from scipy.stats import ttest_ind

    times, base = [55.1, 54.2, 53.7, 54.9, 57.0], [37.2, 35.1, 36.4]
    test = ttest_ind(list(map(math.log, times)), list(map(math.log, base)), equal_var=False)
    expected = test.confidence_interval(1 - 0.05 / comparisons)
    found = welch.ratio(times, base, comparisons)
    assert found.interval.low == pytest.approx(math.exp(expected.low), rel=1e-9)
    assert found.interval.high == pytest.approx(math.exp(expected.high), rel=1e-9)


def test_one_trial_has_no_interval():
    assert welch.ratio([1.0], [1.0, 2.0]) is None
