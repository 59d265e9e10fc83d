"""Certificates of probes that nobody trained: what is allowed, where two part, and what rounding excuses."""

import math

import numpy as np
import pytest

from controller.certificate import NOISE_FACTOR, TOLERANCES, Noise, absorbed, certify, ramp_norm
from controller.results import FAIL, PASS
from tests.unit.controller.made_up_probes import model, probe, with_losses, with_output, with_parameter

FLOAT32 = TOLERANCES["float32"]


def judge(subject, expected=None, tolerance=FLOAT32, **options):
    return certify(subject, expected or probe(), model(), tolerance, against="the reference", **options)


def test_equal_probes_pass_and_say_what_was_compared():
    found = judge(probe())
    assert (found.state, found.text, found.parting, found.against) == (PASS, "", None, ("the reference",))
    # Two numbers of each of five outputs; five losses; six gradients and their norm; three of each weight but two.
    assert found.compared == {"output": 10, "loss": 5, "gradient": 7, "weight": 18}
    assert {each.kind for each in found.largest} == set(found.compared)
    assert (found.probed, found.unjudged) == ("a1" * 32, 0)


def test_a_reference_without_finite_numbers_proves_nothing_either_way():
    lost = probe(losses=(1.2, math.nan, math.nan, math.nan, math.nan))
    for subject in (probe(), lost):
        found = judge(subject, lost)
        assert (found.state, found.against, found.parting) == (FAIL, (), None)
        assert found.text.startswith("the reference has no finite loss of step 2")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"workload_digest": "00" * 32}, "workload: 000000000000, not a1a1a1a1a1a1 as the reference"),
        ({"data_digest": ""}, "data: none, not b2b2b2b2b2b2"),
        ({"weights_digest": "00" * 32}, "initial weights: 0000"),
        ({"parameter_count": 1234}, "number of parameters: 1,234, not 491"),
        ({"sample_count": 39}, "number of samples consumed: 39, not 40"),
    ],
)
def test_what_must_be_identical(change, words):
    found = judge(probe(**change))
    assert found.state == FAIL and found.text.startswith(words)


@pytest.mark.parametrize(
    ("subject", "where"),
    [
        (with_output(probe(), "conv", norm=10.1), "layer conv (conv2d): norm of its output"),
        (with_output(probe(), "flat", ramp=-0.5), "layer flat (flatten): order of its output"),
        (probe(losses=(1.3, 1.1, 1.0, 0.9, 0.8)), "loss of step 1"),
        (
            with_parameter(probe(), "norm", "scale", gradient=0.7),
            "layer norm (batch_norm): norm of the gradient of scale",
        ),
        (probe(gradient_norm=1.6), "norm of the whole gradient"),
        (
            with_parameter(probe(), "norm", "variance", moved=0.2),
            "layer norm (batch_norm): way of variance in training",
        ),
        (
            with_parameter(probe(), "logits", "kernel", ramp=-9.0),
            "layer logits (dense): order of kernel after training",
        ),
    ],
)  # fmt: skip
def test_where_two_probes_part(subject, where):
    found = judge(subject)
    assert found.state == FAIL and found.parting.what == where
    assert found.text.startswith(f"parts from the reference at {where}: ")
    assert f"allowed {found.parting.allowed:.1e}" in found.text


def test_the_first_in_the_order_of_computation_is_named():
    subject = with_output(with_output(probe(), "logits", norm=99.0), "bent", norm=99.0)
    assert judge(with_losses(subject, 7.0)).parting.what == "layer bent (relu): norm of its output"
    # Backwards the gradient of the later layer comes first.
    subject = with_parameter(with_parameter(probe(), "conv", "kernel", gradient=9.0), "logits", "bias", gradient=9.0)
    assert judge(subject).parting.what == "layer logits (dense): norm of the gradient of bias"


def test_an_equal_first_step_lays_the_fault_on_the_optimizer():
    subject = with_parameter(with_losses(probe(), 0.95, 0.9), "logits", "kernel", moved=0.4)
    found = judge(subject)
    assert found.text == (
        "parts from the reference at optimizer sgd: loss of step 4 0.95 instead of 0.9 (off by 5.6e-02, allowed "
        "1.0e-04); of the weights first layer logits (dense): way of kernel in training: 0.4 instead of 0.3 (off by "
        "3.3e-01, allowed 1.0e-03)"
    )


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_not_finite_never_passes(value):
    found = judge(with_losses(probe(), value))
    assert (found.state, found.parting.found, found.parting.deviation) == (FAIL, None, None)
    assert "loss of step 5 not finite instead of 0.8" in found.text
    assert found.largest[1].deviation is None


def test_a_layer_that_is_not_reported_fails():
    found = judge(probe(outputs=probe().outputs[1:]))
    assert found.parting.what == "layer conv (conv2d): norm of its output"


def test_tolerances_are_those_of_the_arithmetic():
    inside, outside = (with_losses(probe(), 0.8 * (1 + share)) for share in (0.9e-4, 1.1e-4))
    assert (judge(inside).state, judge(outside).state) == (PASS, FAIL)
    assert judge(outside, tolerance=TOLERANCES["tf32"]).state == PASS
    assert judge(outside, factor=2.0).state == PASS
    loosest = [TOLERANCES[name] for name in ("float32", "tf32", "amp")]
    for field in ("output", "gradient", "loss", "weight", "perturbation"):
        values = [getattr(each, field) for each in loosest]
        assert values == sorted(values) and len(set(values)) == 3


def test_what_rounding_carries_further_is_allowed_that_much_more():
    noise = Noise(probe(), with_losses(probe(), 0.9 * (1 + 1e-3), 0.8))
    inside, outside = (with_losses(probe(), 0.9 * (1 + share * NOISE_FACTOR), 0.8) for share in (0.9e-3, 1.1e-3))
    assert (judge(inside, noise=noise).state, judge(outside, noise=noise).state) == (PASS, FAIL)
    # A later loss follows from it, an earlier one does not.
    assert judge(with_losses(probe(), 0.8 * (1 + 5e-3)), noise=noise).state == PASS
    assert judge(with_losses(probe(), 1.0 * (1 + 5e-4), 0.9, 0.8), noise=noise).state == FAIL


def test_what_rounding_carries_too_far_is_not_judged():
    noise = Noise(probe(), with_losses(probe(), 1.0, 0.8))
    found = judge(with_losses(probe(), 0.1, 0.2), noise=noise)
    assert (found.state, found.unjudged, found.compared["loss"]) == (PASS, 2, 3)
    # The steps before it still count.
    assert judge(with_losses(probe(), 1.2, 0.1, 0.2), noise=noise).state == FAIL


def test_where_nothing_can_be_judged_nothing_is_proven():
    shaken = with_losses(probe(gradient_norm=3.0), 1.0, 0.8)
    for output in probe().outputs:
        shaken = with_output(shaken, output.layer, norm=2 * output.norm)
    for entry in probe().parameters:
        shaken = with_parameter(shaken, entry.layer, entry.parameter, moved=9.0, final=99.0, ramp=99.0)
    found = judge(probe(), noise=Noise(probe(), shaken))
    assert (found.state, found.against, found.compared) == (FAIL, (), {})
    assert found.unjudged == 40 and "smaller learning rate" in found.text


def test_small_gradients_and_movements_are_held_to_the_whole():
    floor = with_parameter(probe(), "conv", "bias", gradient=1e-9)
    noisy = with_parameter(probe(), "conv", "bias", gradient=5e-6)
    assert judge(noisy, floor).state == PASS
    assert judge(with_parameter(probe(), "conv", "bias", gradient=1e-3), floor).state == FAIL


def test_the_bias_that_batch_normalisation_takes_away_may_go_anywhere():
    assert absorbed(model()) == {("conv", "bias"), ("norm", "mean")}
    subject = with_parameter(probe(), "conv", "bias", moved=5.0, final=7.0, ramp=3.0)
    assert judge(subject).state == PASS
    assert judge(with_parameter(probe(), "norm", "variance", moved=5.0)).state == FAIL


def test_adaptive_optimizers_may_step_elements_that_are_rounding():
    subject = with_parameter(probe(), "logits", "kernel", moved=0.3 * 1.15)
    assert judge(subject).state == FAIL
    assert certify(subject, probe(), model("adam"), FLOAT32, against="the reference").state == PASS


def test_weights_that_have_hardly_moved_may_be_rounded_once_a_step():
    def still(final):
        return probe(parameters=tuple(
            each if each.gradient is None else
            type(each)(each.layer, each.parameter, 2.0, final, 1e-4, 0.4, each.gradient) for each in probe().parameters
        ))  # fmt: skip

    assert judge(still(2.0 + 4 * 2.0**-24), still(2.0)).state == PASS
    assert judge(still(2.0 + 40 * 2.0**-24), still(2.0)).state == FAIL


@pytest.mark.parametrize("length", [1, 2, 3, 1000])
def test_the_norm_of_the_ramp(length):
    assert ramp_norm(length) == pytest.approx(np.linalg.norm(np.linspace(-1, 1, length)))


def test_the_bound_of_norm_and_ramp_holds_for_any_difference():
    """The order of an output may differ by the share that the output may, times the ramp's norm: never by more."""
    random = np.random.RandomState(3)
    for _ in range(50):
        value = random.normal(size=300)
        other = value + 1e-3 * np.linalg.norm(value) * _unit(random.normal(size=300))
        ramp = np.linspace(-1, 1, 300)
        assert abs(np.linalg.norm(other) - np.linalg.norm(value)) <= 1.0001e-3 * np.linalg.norm(value)
        assert abs(ramp @ other - ramp @ value) <= 1.0001e-3 * np.linalg.norm(value) * ramp_norm(300)


def _unit(vector):
    return vector / np.linalg.norm(vector)
