"""The reference's backward passes against central differences of its forward passes."""

import numpy as np
import pytest

from runners.core.initial import random_state
from runners.reference.adapter import ReferenceAdapter
from runners.reference.losses import LOSSES
from tests.contract import sketch
from tests.contract.layer_checks import CASES, layer_model, varied
from tests.contract.train_checks import MODELS

STEP = 1e-6
TOLERANCE = 1e-7
PLACES = 8


def built(model):
    """A reference with weights as float64, and its batch."""
    adapter = ReferenceAdapter()
    adapter.open(sketch.execution())
    adapter.build(model, varied(model))
    x, y = sketch.samples(model, 4)
    return adapter, x if model.input_is_integer else x.astype(np.float64), y


def loss_of(adapter, x, y):
    """The loss in training mode; batch-norm's running values are not part of it."""
    return adapter.loss(adapter.forward(x, training=True)[adapter.model.nodes[-1].name], y)[0]


def gradients_of(adapter, x, y):
    """({layer: {parameter: gradient}}, gradient by the input)."""
    logits = adapter.forward(x, training=True)[adapter.model.nodes[-1].name]
    by_input = adapter.backward(adapter.loss(logits, y)[1])
    return {name: dict(layer.gradients) for name, layer in adapter.layers.items()}, by_input


def central_difference(array, place, function):
    """(f(a + h) - f(a - h)) / 2h at one place of ``array``, which is changed and put back."""
    kept = array[place]
    array[place] = kept + STEP
    above = function()
    array[place] = kept - STEP
    below = function()
    array[place] = kept
    return (above - below) / (2 * STEP)


def assert_agree(array, gradient, function, name):
    """Compares at up to ``PLACES`` places of ``array``."""
    assert gradient.shape == array.shape
    for number in random_state(name).permutation(array.size)[:PLACES]:
        place = np.unravel_index(number, array.shape)
        assert gradient[place] == pytest.approx(central_difference(array, place, function), abs=TOLERANCE, rel=1e-5)


def assert_gradients(model):
    adapter, x, y = built(model)
    gradients, by_input = gradients_of(adapter, x, y)
    for node in model.nodes:
        assert set(gradients[node.name]) == set(node.parameters)
        for name in node.parameters:
            assert_agree(
                adapter.values[node.name][name],
                gradients[node.name][name],
                lambda: loss_of(adapter, x, y),
                f"{node.name}/{name}",
            )
    if by_input is not None:
        assert_agree(x, by_input, lambda: loss_of(adapter, x, y), "input")


@pytest.mark.parametrize("name", sorted(CASES))
def test_layer_gradients(name):
    assert_gradients(layer_model(name))


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"mlp"}))
def test_model_gradients(name):
    assert_gradients(MODELS[name]())


def test_every_layer_of_the_language_is_checked():
    assert {op for op, _ in CASES.values()} == set(ReferenceAdapter().describe().layers)


@pytest.mark.parametrize(("name", "width"), [("sparse_categorical_crossentropy", 5), ("binary_crossentropy", 1)])
def test_loss_gradient(name, width):
    random = random_state(name)
    logits, labels = random.uniform(-4, 4, (6, width)), random.randint(0, max(width, 2), 6).astype(np.int32)
    _, gradient = LOSSES[name](logits, labels)
    assert_agree(logits, gradient, lambda: LOSSES[name](logits, labels)[0], name)


def test_losses_of_known_logits():
    """Four equal logits: log 4. A logit z of class 1: log(1 + exp(-z))."""
    categorical, _ = LOSSES["sparse_categorical_crossentropy"](np.zeros((2, 4)), np.array([0, 3]))
    binary, _ = LOSSES["binary_crossentropy"](np.array([[1.5], [-2.0]]), np.array([1, 0]))
    assert categorical == pytest.approx(np.log(4), rel=1e-14)
    assert binary == pytest.approx((np.log1p(np.exp(-1.5)) + np.log1p(np.exp(-2.0))) / 2, rel=1e-14)


def test_losses_of_extreme_logits_are_finite():
    categorical, gradient = LOSSES["sparse_categorical_crossentropy"](np.array([[1e4, -1e4]]), np.array([1]))
    binary, binary_gradient = LOSSES["binary_crossentropy"](np.array([[-1e4]]), np.array([1]))
    assert (categorical, binary) == (2e4, 1e4)
    assert np.all(np.isfinite(gradient))
    assert binary_gradient == pytest.approx(-1)


def test_dropout_gradient_uses_the_mask_of_its_forward_pass():
    drawing = sketch.Sketch((50,))
    drawing.add("dropout", "drop", rate=0.4)
    drawing.add("dense", "logits", units=3)
    adapter, x, y = built(drawing.model())
    outputs = adapter.forward(x, training=True)
    logits_gradient = adapter.loss(outputs["logits"], y)[1]
    by_input = adapter.backward(logits_gradient)
    dropped = outputs["drop"] == 0
    assert 0.2 < dropped.mean() < 0.6
    assert np.all(by_input[dropped] == 0)
    expected = logits_gradient @ adapter.values["logits"]["kernel"].T / 0.6
    assert by_input[~dropped] == pytest.approx(expected[~dropped], rel=1e-12)
