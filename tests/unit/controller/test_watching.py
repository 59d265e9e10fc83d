"""How long a campaign is said to take still."""

import pytest

from controller.results import Cell
from controller.watching import Clock

SLOW, FAST = Cell("slow-1", "w", "digest"), Cell("fast-1", "w", "digest")


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time():
    return Time()


def after_a_fast_trial(time: Time, seconds: float = 10) -> Clock:
    clock = Clock(time)
    clock.begin()
    time.now += seconds
    clock.end(FAST)
    clock.begin()
    return clock


def test_nothing_is_said_before_anything_is_known(time):
    clock = Clock(time)
    clock.begin()
    clock.step("warmup", 10, 20)
    assert clock.seconds_left([SLOW, FAST]) is None


def test_trials_of_rows_already_seen_take_as_long_again(time):
    clock = after_a_fast_trial(time)
    time.now += 4
    assert clock.seconds_left([FAST, FAST]) == 16
    time.now += 20
    assert clock.seconds_left([FAST]) == 0  # longer than expected


def test_a_slow_row_is_judged_by_its_own_steps_and_not_by_other_rows(time):
    clock = after_a_fast_trial(time)
    time.now += 20
    clock.step("measure", 0, 100)
    time.now += 30
    clock.step("measure", 25, 100)
    # 90 s of its own steps, then the fast row, then the slow one whole: 50 s so far and 90 s.
    assert clock.seconds_left([SLOW, FAST, SLOW]) == 90 + 10 + 140


def test_steps_of_another_phase_or_trial_are_not_counted_on(time):
    clock = after_a_fast_trial(time)
    clock.step("measure", 0, 100)
    time.now += 5
    clock.step("measure", 50, 100)
    clock.step("evaluate", 0, 10)
    assert clock.seconds_left([FAST]) == 5
    clock.end(FAST)
    clock.begin()
    assert clock.seconds_left([FAST]) == 7.5


def test_a_row_not_seen_yet_is_like_others_of_its_runner(time):
    clock = after_a_fast_trial(time)
    time.now += 100
    clock.end(SLOW)
    clock.begin()
    assert clock.seconds_left([Cell("slow-1", "w2", "digest")]) == 100
    assert clock.seconds_left([Cell("new-1", "w", "digest")]) == 55
