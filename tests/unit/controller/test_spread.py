"""How far accuracies lie apart, over rows and over seeds."""

from dataclasses import replace

import pytest

from controller.comparison import compare
from controller.spread import spreads
from tests.unit.controller.made_up import MLP, OTHER_WORK, campaign, cell, certified, trials

SEVEN = replace(MLP, seed=7, digest="c7" * 32)


def runs(name, workload, accuracy):
    return trials(cell(name, workload), 1.0, 1.1, accuracy=accuracy)


def test_rows_of_one_seed_and_one_row_over_seeds_are_told_apart():
    entries = [
        *runs("a-1", MLP, 0.970),
        *runs("b-1", MLP, 0.971),
        *runs("a-1", SEVEN, 0.975),
        *runs("b-1", SEVEN, 0.9752),
    ]
    cells = [cell(name, workload) for workload in (MLP, SEVEN) for name in ("a-1", "b-1")]
    (found,) = spreads(compare(campaign(*cells, workloads=(MLP, SEVEN), trials=2), entries))
    assert (found.rows, found.seeds) == (2, 2)
    assert found.between_rows == pytest.approx(0.001)
    assert found.between_seeds == pytest.approx(0.005)
    assert found.between_means == pytest.approx(0.0006)
    assert found.line() == (
        "accuracy: 2 rows of mlp-mnist differ by at most 0.0010 with the same seed, and each by at most 0.0050 over "
        "2 seeds; seeds explain that their means differ by 0.0006 (p = 0.87)"
    )


@pytest.mark.parametrize(
    ("other", "p_value", "words"),
    [
        ((0.970, 0.974), 1.0, "seeds explain"),
        # By hand: F(1, 2) is 0.5 and 1250, and p is 1 - sqrt(F / (F + 2)).
        ((0.972, 0.976), 0.552786, "seeds explain"),
        ((0.870, 0.874), 0.000799041, "seeds do not explain"),
    ],
)
def test_rows_that_part_further_than_seeds_do_are_named_so(other, p_value, words):
    entries = []
    for workload, mine, theirs in zip((MLP, SEVEN), (0.970, 0.974), other, strict=True):
        entries += [*runs("a-1", workload, mine), *runs("b-1", workload, theirs)]
    cells = [cell(name, workload) for workload in (MLP, SEVEN) for name in ("a-1", "b-1")]
    (found,) = spreads(compare(campaign(*cells, workloads=(MLP, SEVEN), trials=2), entries))
    assert found.p_value == pytest.approx(p_value)
    assert words in found.line()


@pytest.mark.parametrize(("other", "p_value"), [(0.970, 1.0), (0.960, 0.0)])
def test_where_seeds_change_nothing_any_difference_is_one(other, p_value):
    entries = [
        run for workload in (MLP, SEVEN) for run in (*runs("a-1", workload, 0.97), *runs("b-1", workload, other))
    ]
    cells = [cell(name, workload) for workload in (MLP, SEVEN) for name in ("a-1", "b-1")]
    (found,) = spreads(compare(campaign(*cells, workloads=(MLP, SEVEN), trials=2), entries))
    assert found.p_value == p_value


def test_one_seed_says_nothing_of_others():
    cells = (cell("a-1"), cell("b-1"))
    (found,) = spreads(compare(campaign(*cells, trials=2), [*runs("a-1", MLP, 0.97), *runs("b-1", MLP, 0.98)]))
    assert found.between_seeds is None
    assert found.line().endswith("differ by at most 0.0100 with the same seed")


def test_rows_that_do_other_work_do_not_count():
    whole = certified(campaign(cell("a-1"), cell("b-1"), trials=2), OTHER_WORK)
    assert spreads(compare(whole, [*runs("a-1", MLP, 0.5), *runs("b-1", MLP, 0.98)])) == ()
