"""Each flag on trials that never ran: what raises it, and what does not."""

from dataclasses import replace

import pytest

from controller.flags import flags
from controller.results import FAILED, UNSUPPORTED, Certificate
from tests.unit.controller.made_up import OTHER_WORK, PASSED, cell, lost, trials

A = cell("a-1")


def names(entries, certificate=None):
    return [flag.name for flag in flags(entries, certificate)]


def changed(entries, **fields):
    return [replace(entry, measurement=replace(entry.measurement, **fields)) for entry in entries]


def test_a_quiet_row_has_none():
    assert names(trials(A, 30.0, 31.0, 29.0, 30.5), PASSED) == []


@pytest.mark.parametrize(
    ("telemetry", "name", "word"),
    [
        ({"cpu_other_share": 0.11}, "FOREIGN", "other programs used 11 %"),
        ({"cpu_steal_share": 0.3}, "FOREIGN", "the hypervisor used 30 %"),
        ({"gpu_other_processes": 2.0}, "FOREIGN", "2 other processes used the GPU"),
        ({"gpu_throttled_share": 0.2}, "THROTTLED", "in 20 % of the samples"),
        ({"gpu_over_capacity_bytes": 2.0**30}, "SPILLED", "1,024 MiB more than the GPU has"),
        ({"gpu_utilisation_peak": 0.0}, "FALLBACK", "the GPU was idle"),
    ],
)
def test_telemetry_raises_flags(telemetry, name, word):
    (flag,) = flags(changed(trials(A, 30.0, 31.0), telemetry=telemetry), None)
    assert flag.name == name
    assert word in flag.text.replace("%", " %").replace("  ", " ")


@pytest.mark.parametrize("telemetry", [{"cpu_other_share": 0.09}, {"gpu_throttled_share": 0.02}, {}])
def test_a_little_of_it_does_not(telemetry):
    assert names(changed(trials(A, 30.0, 31.0), telemetry=telemetry)) == []


@pytest.mark.parametrize(("end", "advice"), [(1.3, "look for what slows it down"), (0.7, "raise --warmup-steps")])
def test_steps_that_drift_are_unstable(end, advice):
    steps = tuple(0.01 * (1 + (end - 1) * number / 99) for number in range(100))
    (flag,) = flags(changed(trials(A, 1.0), step_seconds=steps), None)
    assert (flag.name, flag.text.split(": ")[1]) == ("UNSTABLE", advice)


def test_a_single_slow_step_is_no_drift():
    assert names(changed(trials(A, 1.0), step_seconds=(0.01,) * 99 + (3.0,))) == []


def test_a_first_trial_slower_than_all_others_is_unstable():
    (flag,) = flags(trials(A, 40.0, 30.0, 31.0, 30.0), None)
    assert (flag.name, "1.33 times as long" in flag.text) == ("UNSTABLE", True)
    assert names(trials(A, 30.0, 40.0, 31.0, 30.0)) == []
    assert names(trials(A, 40.0, 30.0)) == []  # too few to say


def test_trials_that_fell_back_or_stopped_short_flag_the_row():
    entries = [*trials(A, 30.0, 31.0), *lost(A, FAILED, "FALLBACK", "computes on cpu", count=1)]
    (flag,) = flags(entries, None)
    assert flag.line() == "FALLBACK: 1 of 3 trials computed on another device"
    assert names(lost(A, FAILED, "SHORT", "measured 9 of 10 steps", count=2)) == ["SHORT"]
    assert names(lost(A, FAILED, "PROCESS_DIED", "code -9", count=2)) == []


def test_certificates_raise_flags():
    assert names(trials(A, 30.0), OTHER_WORK) == ["UNEQUAL"]
    assert names(trials(A, 30.0), replace(OTHER_WORK, against=())) == ["UNPROVEN"]
    assert names(trials(A, 30.0), Certificate(UNSUPPORTED)) == []
