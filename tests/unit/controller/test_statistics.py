"""Intervals, ratios and verdicts on drawn times: what they claim, and how often they are wrong."""

import math
import random

import pytest

from controller.statistics import Contest, Interval, interval, ratio


def drawn(generator, location=1.0, noise=0.03, blocks=5, shared=()):
    """Seconds by block; ``shared`` multiplies a block's time for every row."""
    return {
        block: location * math.exp(generator.gauss(0, noise)) * (shared[block] if shared else 1.0)
        for block in range(blocks)
    }


def test_an_interval_needs_two_values_and_holds_the_time_in_19_of_20_cases():
    assert interval([3.0]) is None
    generator = random.Random(1)
    held = sum(1.0 in interval(list(drawn(generator).values())) for _ in range(2000))
    assert 0.935 <= held / 2000 <= 0.965


def test_a_ratio_is_that_of_blocks_and_not_of_their_noise():
    generator = random.Random(2)
    shared = [1.0, 3.0, 0.5, 2.0, 1.0]
    slow, fast = drawn(generator, 1.1, 0.01, shared=shared), drawn(generator, 1.0, 0.01, shared=shared)
    found = ratio(slow, fast)
    assert found.value == pytest.approx(1.1, rel=0.02)
    assert found.interval.high / found.interval.low < 1.1
    assert found.is_different and found.pairs == 5


def test_the_ratio_turned_round_is_the_inverse():
    one, other = {0: 1.0, 1: 1.2, 2: 0.9}, {0: 2.0, 1: 2.1, 2: 2.2}
    found, back = ratio(one, other), ratio(other, one)
    assert back.value == pytest.approx(1 / found.value)
    assert back.interval.low == pytest.approx(1 / found.interval.high)


def test_the_t_of_a_textbook():
    # Logarithms 0.1, 0.2, 0.3: mean 0.2, deviation 0.1, t(0.975; 2) = 4.302653.
    times = {block: math.exp(value) for block, value in enumerate((0.1, 0.2, 0.3))}
    found = ratio(times, dict.fromkeys(times, 1.0))
    margin = 4.302653 * 0.1 / math.sqrt(3)
    assert found.interval.low == pytest.approx(math.exp(0.2 - margin), rel=1e-6)
    assert found.interval.high == pytest.approx(math.exp(0.2 + margin), rel=1e-6)
    # Three comparisons: t(1 - 0.05 / 6; 2) = 7.648804.
    wide = ratio(times, dict.fromkeys(times, 1.0), comparisons=3)
    assert wide.interval.high == pytest.approx(math.exp(0.2 + 7.648804 * 0.1 / math.sqrt(3)), rel=1e-5)


def test_only_blocks_that_both_have_are_compared():
    assert ratio({0: 1.0, 1: 1.0}, {1: 1.0, 2: 1.0}) is None
    assert ratio({0: 1.0, 1: 2.0, 7: 9.0}, {0: 2.0, 1: 4.0, 8: 1.0}).value == pytest.approx(0.5)


@pytest.mark.parametrize("rows", [2, 4, 7])
def test_equal_rows_are_called_different_in_at_most_one_table_of_20(rows):
    generator = random.Random(3)
    tables = 1500
    false = 0
    for _ in range(tables):
        contest = Contest({row: drawn(generator, noise=0.02 * (1 + row)) for row in range(rows)})
        false += len(contest.tied()) < rows - 1
    # Three standard errors above 5 % of 1,500.
    assert false / tables <= 0.067


def test_a_real_difference_is_told():
    generator = random.Random(4)
    told = 0
    for _ in range(500):
        contest = Contest({"fast": drawn(generator, 1.0, 0.015), "slow": drawn(generator, 1.05, 0.015)})
        told += contest.order[0] == "fast" and not contest.tied()
    assert told / 500 >= 0.8


def test_two_rows_share_a_letter_exactly_if_they_cannot_be_told_apart():
    generator = random.Random(5)
    for _ in range(200):
        rows = {name: drawn(generator, generator.choice([1.0, 1.05, 1.1, 1.3]), 0.03, 4) for name in "pqrst"}
        contest = Contest(rows)
        letters = contest.letters()
        for one in rows:
            for other in rows:
                assert bool(set(letters[one]) & set(letters[other])) == (
                    one == other or not contest.differs(one, other)
                )
        assert letters[contest.order[0]].startswith("a")


def test_no_noise_and_no_difference_is_no_difference():
    assert ratio({0: 2.0, 1: 3.0}, {0: 2.0, 1: 3.0}).interval == Interval(1.0, 1.0)
    assert not Contest({"one": {0: 2.0, 1: 3.0}, "other": {0: 2.0, 1: 3.0}}).differs("one", "other")
    assert Contest({}).letters() == {}
