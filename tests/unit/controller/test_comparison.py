"""The comparison on trials that never ran: order, ranks, claims, and proofs of the same work."""

from dataclasses import replace

import pytest

from controller.comparison import compare
from controller.results import CANCELLED, FAILED, UNSUPPORTED, Memory
from controller.rows import NOT_RUN
from tests.unit.controller.made_up import (
    IDENTITY,
    JIT,
    MLP,
    OTHER_WORK,
    PASSED,
    RANDOM,
    campaign,
    cell,
    certified,
    lost,
    measurement,
    trial,
    trials,
)

A, B, C, D = (cell(name) for name in ("a-1", "b-1", "c-1", "d-1"))


def group_of(*parts, cells=(A, B), **fields):
    (group,) = compare(campaign(*cells, **fields), [entry for part in parts for entry in part]).groups
    return group


def test_rows_are_ordered_by_time_and_rated_against_the_fastest():
    group = group_of(trials(A, 30.0, 90.0, 31.0), trials(B, 20.0, 20.0, 31.0))
    assert [row.label() for row in group.rows] == ["b-1", "a-1"]
    assert [row.rank for row in group.rows] == [1, 2]
    assert [row.ratio for row in group.rows] == [1.0, pytest.approx((1.5 * 4.5 * 1.0) ** (1 / 3))]
    assert group.rows[1].ratio in group.rows[1].ratio_interval
    assert (group.rows[1].seconds.median, group.rows[1].seconds.low, group.rows[1].seconds.high) == (31.0, 30.0, 90.0)


def test_the_fastest_is_named_when_it_can_be_told_from_all_others():
    group = group_of(trials(A, 30.0, 31.0, 32.0), trials(B, 20.0, 19.0, 20.5))
    assert group.fastest == "b-1"
    assert group.verdict == "fastest: b-1; the others take at least 1.41 times as long (95 % sure)"
    assert group.tied == () and [row.ties for row in group.rows] == ["", ""]


def test_what_disturbs_a_whole_block_disturbs_no_verdict():
    apart = group_of(trials(A, 11.0, 22.1, 55.2), trials(B, 10.0, 20.0, 50.0))
    assert apart.fastest == "b-1"


def test_rows_that_cannot_be_told_apart_are_tied_and_no_claim_is_made():
    group = group_of(trials(A, 30.0, 31.0, 32.0), trials(B, 20.0, 19.0, 35.0))
    assert group.fastest == ""
    assert group.tied == ("a-1",)
    assert group.verdict.startswith("no claim: b-1, a-1 cannot be told apart (under ")
    assert [row.ties for row in group.rows] == ["a", "a"]


def test_a_flagged_row_is_never_called_fastest():
    runs = [replace(entry, measurement=replace(entry.measurement, telemetry={"cpu_other_share": 0.4}))
            for entry in trials(B, 20.0, 19.0, 20.5)]  # fmt: skip
    group = group_of(trials(A, 30.0, 31.0, 32.0), runs)
    assert group.fastest == ""
    assert group.verdict == "no claim: b-1 leads, but is flagged FOREIGN"


def test_equal_rows_are_tied_and_stand_in_order_of_names():
    group = group_of(trials(B, 20.0, 20.0), trials(C, 25.0, 25.0), trials(A, 20.0, 20.0), cells=(C, B, A))
    assert [(row.label(), row.ties) for row in group.rows] == [("a-1", "a"), ("b-1", "a"), ("c-1", "")]
    assert group.tied == ("b-1",)


def test_one_trial_is_no_claim_whatever_the_distance():
    group = group_of(trials(A, 30.0), trials(B, 1.0), trials=1)
    assert (group.fastest, group.tied) == ("", ())
    assert group.verdict == "single trial: no interval, and no claim which one is fastest"


def test_a_row_with_one_trial_left_is_no_claim():
    group = group_of(trials(A, 30.0, 31.0, 32.0), trials(B, 1.0))
    assert group.verdict == "no claim: a single trial of b-1"
    assert group.fastest == ""


def test_one_row_has_nothing_to_be_faster_than():
    group = group_of(trials(A, 30.0, 31.0), cells=(A,))
    assert (group.rows[0].rank, group.fastest) == (1, "")
    assert group.verdict == "one row: nothing to compare it with"


def test_rows_without_a_result_come_last_and_are_never_omitted():
    group = group_of(
        lost(A, UNSUPPORTED, "UNSUPPORTED_LAYER", "lstm", count=1),
        lost(B, FAILED, "PROCESS_DIED", "ended with\n code -9"),
        trials(C, 99.0, 98.0),
        cells=(A, B, C, D),
    )
    assert [(row.label(), row.state, row.text) for row in group.rows] == [
        ("c-1", "succeeded", ""),
        ("b-1", FAILED, "failed: PROCESS_DIED ended with code -9"),
        ("a-1", UNSUPPORTED, "not supported: lstm"),
        ("d-1", NOT_RUN, NOT_RUN),
    ]
    assert [row.rank for row in group.rows] == [1, None, None, None]
    assert [row.seconds is None for row in group.rows] == [False, True, True, True]


def test_a_row_with_some_failed_trials_says_so_and_counts_only_the_others():
    group = group_of(trials(A, 10.0, 12.0), lost(A, FAILED, "TIMEOUT", "no step for 1800 s", count=1), cells=(A,))
    (row,) = group.rows
    assert (row.succeeded, row.asked, row.seconds.median) == (2, 3, 11.0)
    assert row.text == "1 of 3 trials failed: TIMEOUT no step for 1800 s"


def test_a_trial_that_says_it_succeeded_without_a_measurement_has_failed():
    group = group_of([trial(A, 0, run=None)], cells=(A,), trials=1)
    assert group.rows[0].state == FAILED
    assert group.verdict == "nothing was measured"


def test_a_cancelled_row():
    assert group_of(lost(A, CANCELLED, "CANCELLED", "", count=1), cells=(A,)).rows[0].text == "cancelled"


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("data_digest", "00" * 32, "data"),
        ("weights_digest", "00" * 32, "initial weights"),
        ("parameter_count", 407051, "number of parameters"),
        ("service_digest", "00" * 32, "source of the runner service"),
        ("data_digest", "", "data"),
    ],
)
def test_rows_that_did_other_work_are_not_ranked(field, value, what):
    other = replace(IDENTITY, **{field: value})
    odd = [replace(entry, identity=other) for entry in trials(B, 20.0, 21.0)]
    group = group_of(trials(A, 30.0, 31.0), odd, trials(C, 40.0, 41.0), cells=(A, B, C))
    (problem,) = group.problems
    assert problem.what == what
    assert dict(problem.holders) == {str(value): ("b-1",), str(getattr(IDENTITY, field)): ("a-1", "c-1")}
    assert [(row.label(), row.rank, row.ratio) for row in group.rows] == [
        ("b-1", None, None),
        ("a-1", None, None),
        ("c-1", None, None),
    ]
    assert (group.fastest, group.verdict) == ("", "not ranked: the rows did not do the same work")


def test_a_workload_that_was_not_the_requested_one_is_a_problem_even_if_all_agree():
    other = replace(IDENTITY, workload_digest="00" * 32)
    group = group_of([replace(entry, identity=other) for entry in trials(A, 1.0, 2.0)], cells=(A,))
    assert dict(group.problems[0].holders) == {MLP.digest: ("the request",), "00" * 32: ("a-1",)}


def test_a_trial_without_identity_proves_nothing():
    group = group_of([replace(entry, identity=None) for entry in trials(A, 1.0, 2.0)], trials(B, 3.0, 4.0))
    assert {problem.what for problem in group.problems} >= {"data", "initial weights"}
    assert "none in a-1" in next(problem for problem in group.problems if problem.what == "data").text()


def test_an_environment_that_changed_between_trials_is_a_problem():
    first, second = trials(A, 1.0, 2.0)
    changed = replace(IDENTITY, versions={**IDENTITY.versions, "numpy": "1.22.0"})
    group = group_of([first, replace(second, identity=changed)], trials(B, 3.0, 4.0))
    assert [problem.text() for problem in group.problems] == [
        "version of numpy differs: 1.21.6 in a-1; 1.22.0 in a-1",
    ]


def test_failed_trials_take_no_part_in_the_proof():
    died = replace(lost(B, FAILED, "OUT_OF_MEMORY", "", count=1)[0], identity=replace(IDENTITY, data_digest="zz"))
    assert group_of(trials(A, 1.0, 2.0), [died]).problems == ()


def test_workloads_are_compared_apart():
    big_a, big_b = cell("a-1", RANDOM), cell("b-1", RANDOM)
    entries = [*trials(A, 1.0, 1.1), *trials(B, 2.0, 2.1), *trials(big_a, 90.0, 91.0), *trials(big_b, 60.0, 61.0)]
    comparison = compare(campaign(A, big_a, B, big_b, workloads=(MLP, RANDOM), trials=2), entries)
    assert [(group.workload.name, group.fastest) for group in comparison.groups] == [
        ("mlp-mnist", "a-1"),
        ("resnet152-random", "b-1"),
    ]
    assert [row.ratio for row in comparison.groups[1].rows] == [1.0, pytest.approx((90 / 60 * 91 / 61) ** 0.5)]
    assert comparison.is_sound


def test_numbers_of_a_row_are_medians_over_trials():
    (row,) = group_of(trials(A, 20.0, 40.0, 30.0), cells=(A,)).rows
    assert row.epoch_seconds == pytest.approx(1.5)
    assert row.step_seconds == pytest.approx(0.15)
    assert row.samples_per_second == pytest.approx(40_000)
    assert (row.accuracy, row.test_loss) == (0.9754, 0.0812)
    assert row.identity.versions["torch"] == "1.11.0"


def test_kinds_of_memory_are_kept_apart_and_a_missing_one_keeps_its_reason():
    gone = Memory("device_peak", None, "not defined under WDDM")
    runs = [measurement(1.0, memory=(("host_rss_peak", size), ("workers_pss", 7))) for size in (100, 300)]
    runs = [replace(run, memory=(*run.memory, gone)) for run in runs]
    (row,) = group_of([trial(A, number, run=run) for number, run in enumerate(runs)], cells=(A,), trials=2).rows
    mebibyte = 1024 * 1024
    assert row.memory == (Memory("host_rss_peak", 200 * mebibyte), Memory("workers_pss", 7 * mebibyte), gone)
    assert row.memory_bytes("device_peak") is None
    assert row.memory_bytes("unheard_of") is None


def certified_group(*certificates, parts=(), cells=(A, B, C)):
    whole = certified(campaign(*cells), *certificates)
    return compare(whole, [entry for part in parts for entry in part])


def test_a_row_that_does_other_work_is_shown_last_and_takes_part_in_nothing():
    other = replace(IDENTITY, parameter_count=1)
    odd = [replace(entry, identity=other) for entry in trials(A, 1.0, 1.1, 1.2)]
    comparison = certified_group(
        OTHER_WORK, PASSED, PASSED, parts=(odd, trials(B, 20.0, 21.0, 22.0), trials(C, 30.0, 31.0, 32.0))
    )
    (group,) = comparison.groups
    assert [(row.label(), row.rank, row.ratio) for row in group.rows] == [
        ("b-1", 1, 1.0),
        ("c-1", 2, pytest.approx((30 / 20 * 31 / 21 * 32 / 22) ** (1 / 3))),
        ("a-1", None, None),
    ]
    assert (group.fastest, group.problems, group.tied) == ("b-1", (), ())
    assert group.rows[2].seconds.median == 1.1 and group.rows[2].certificate == OTHER_WORK
    assert not comparison.is_sound


def test_rows_that_all_do_other_work_are_not_ranked():
    comparison = certified_group(OTHER_WORK, OTHER_WORK, parts=(trials(A, 1.0, 2.0, 3.0), trials(B, 4.0, 5.0, 6.0)))
    assert comparison.groups[0].verdict == "not ranked: no row does the work that it should"
    assert [row.rank for row in comparison.groups[0].rows] == [None, None, None]


def test_certified_rows_are_sound_and_so_are_those_that_were_not_verified():
    parts = [trials(where, 1.0, 2.0, 3.0) for where in (A, B, C)]
    assert certified_group(PASSED, PASSED, PASSED, parts=parts).is_sound
    assert certified_group(PASSED, parts=parts).is_sound


def test_labels_tell_variant_host_and_device_apart():
    cells = (A, cell("a-1", variant=JIT), cell("a-1", host="wsl"), cell("a-1", device="gpu:0"))
    group = group_of(*(trials(where, 1.0, 2.0) for where in cells), cells=cells)
    assert sorted(row.label() for row in group.rows) == ["a-1", "a-1 (jit)", "a-1 on gpu:0", "a-1 on wsl"]


@pytest.mark.parametrize(
    ("entries", "is_sound"),
    [
        ([*trials(A, 1, 2, 3), *trials(B, 1, 2, 3)], True),
        ([*trials(A, 1, 2, 3), *lost(B, UNSUPPORTED, "UNSUPPORTED_LAYER", "lstm", 1)], True),
        ([*trials(A, 1, 2, 3), *trials(B, 1, 2)], False),
        ([*trials(A, 1, 2, 3), *lost(B, FAILED, "NO_ENVIRONMENT", "", 1)], False),
        (lost(A, UNSUPPORTED, "UNSUPPORTED_LAYER", "lstm", 1) + lost(B, UNSUPPORTED, "", "", 1), False),
        ([], False),
    ],
)
def test_soundness(entries, is_sound):
    assert compare(campaign(A, B), entries).is_sound is is_sound
