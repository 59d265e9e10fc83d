"""Initial weights and order of samples: the same bits on every Python and NumPy, for ever. Python 3.6 syntax.

The digests were equal on Python 3.6 with NumPy 1.19 and on Python 3.13 with NumPy 2. A change here makes every stored
result incomparable with new ones.
"""

import hashlib

import numpy as np
import pytest

from runners.core.batches import Source, order
from runners.core.initial import initial_weights, random_state, weights_digest
from tests.contract.layer_checks import layer_model
from tests.contract.sketch import Sketch, execution, samples
from tests.contract.train_checks import MODELS

WEIGHTS = {
    "mlp": "8e30db0a4c0c45b33efefb7d27082a7e0ce94f2805e848460ffc5e9c5ee3b3eb",
    "cnn": "d0d0f6ac4413aad7dcb8285338452855659c1146510083cdec14a8286b42ba75",
    "fasttext": "a563b062962962916e58edb1868f4c08573fb4eaeabe5381f71b4b62c243afe9",
    "bilstm": "8043d535902fd1bc5ec8a04f5eea0e05a18524cbc3f916badd1baf7e25eeaa40",
    "lstm": "0898888839bcd89de96e3570e1aa410347b13de2c0b91270f322b73603f25fd8",
}
ORDERS = {
    (7, 0, 60000, 32): "6b74dd958546bc731fdd10a17181df673f25eb54b5304a4fe5e3eb18ee9fc49b",
    (7, 1, 60000, 32): "4a6dd31ba2f15d6df98db8d83217876aabc236231062da07c49f807d5f9ae1df",
    (0, 0, 10, 3): "bfb092d1f3d0d5e73d16d2942300e3251b56a7e85d6216cd1a5187fe99fa2022",
    (2**32 - 1, 12345, 1001, 8): "025cbe48330b03a9fa9cd5aa3c800d5d852825776feeb36313c183ac42f8bcb0",
}


@pytest.mark.parametrize("name", sorted(WEIGHTS))
def test_initial_weights_are_frozen(name):
    model = MODELS[name]()
    assert weights_digest(model, initial_weights(model)) == WEIGHTS[name]


@pytest.mark.parametrize("key", sorted(ORDERS))
def test_order_is_frozen(key):
    assert hashlib.sha256(order(*key).astype("<i8").tobytes()).hexdigest() == ORDERS[key]


def test_weights_depend_on_seed_and_layer_name_alone():
    def dense(seed, name, more=False):
        sketch = Sketch((6,), seed=seed)
        if more:
            sketch.add("dense", "other", units=6)
        sketch.add("dense", name, units=3)
        return initial_weights(sketch.model())[name]["kernel"]

    assert np.array_equal(dense(1, "d"), dense(1, "d", more=True))
    assert not np.array_equal(dense(1, "d"), dense(2, "d"))
    assert not np.array_equal(dense(1, "d"), dense(1, "e"))


def test_weights_have_the_ranges_of_the_specification():
    model = layer_model("conv2d")
    weights = initial_weights(model)
    kernel = weights["valid"]["kernel"]  # (3, 3, 3, 4): fans 27 and 36
    assert kernel.dtype == np.float32
    assert 0.8 < np.abs(kernel).max() / np.sqrt(6.0 / (27 + 36)) <= 1
    assert not weights["valid"]["bias"].any()
    words = initial_weights(MODELS["fasttext"]())["words"]["table"]
    assert 0.04 < np.abs(words).max() <= 0.05
    gates = initial_weights(MODELS["bilstm"]())["both"]
    for name in ("forward_bias", "backward_bias"):
        assert gates[name].tolist() == [0] * 6 + [1] * 6 + [0] * 12
    norm = initial_weights(MODELS["cnn"]())["b1"]
    assert [norm[name].mean() for name in ("scale", "offset", "mean", "variance")] == [1, 0, 0, 1]


def test_digest_sees_values_names_and_shapes():
    model = MODELS["mlp"]()
    weights = initial_weights(model)
    before = weights_digest(model, weights)
    weights["logits"]["bias"][3] += 1e-6
    assert weights_digest(model, weights) != before


def test_order_is_a_permutation_in_full_batches():
    batches = order(3, 5, 50, 8)
    assert batches.shape == (6, 8)
    assert len(set(batches.reshape(-1).tolist())) == 48
    assert not np.array_equal(batches, order(3, 6, 50, 8))
    assert not np.array_equal(batches, order(4, 5, 50, 8))


def test_random_state_parts_are_kept_apart():
    assert random_state("ab", "c").randint(1 << 30) != random_state("a", "bc").randint(1 << 30)
    assert random_state(1).randint(1 << 30) != random_state("1").randint(1 << 30)


def test_take_applies_the_transform():
    sketch = Sketch((4,))
    sketch.add("dense", "d", units=3)
    x, y = samples(sketch.model())
    source = Source(x, y, 7, 8, execution().variant, lambda x, epoch, indices: x + epoch)
    taken_x, taken_y = source.take(2, source.order(2)[1])
    assert np.array_equal(taken_x, x[source.order(2)[1]] + 2)
    assert np.array_equal(taken_y, y[source.order(2)[1]])
