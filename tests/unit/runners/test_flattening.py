"""Flattened pictures with channels first: when their order is free, and the way of a kernel and back."""

import numpy as np
import pytest

from runners.core import flattening
from tests.contract.sketch import Sketch


def free(*layers):
    """Whether the order of ``flat`` is free before these layers: (op, name, inputs)."""
    sketch = Sketch((4, 3, 2))
    sketch.add("flatten", "flat")
    for op, name, inputs in layers:
        sketch.add(op, name, inputs, **{"dense": {"units": 3}, "dropout": {"rate": 0.0}}.get(op, {}))
    nodes = sketch.model().nodes
    consumers = {node.name: [other for other in nodes if node.name in other.inputs] for node in nodes}
    return flattening.order_is_free(next(node for node in nodes if node.name == "flat"), consumers)


@pytest.mark.parametrize(
    ("expected", "layers"),
    [
        (True, [("dense", "d", ["flat"])]),
        (True, [("relu", "r", ["flat"]), ("dropout", "o", ["r"]), ("dense", "d", ["o"])]),
        (True, [("dense", "d", ["flat"]), ("dense", "e", ["flat"]), ("add", "s", ["d", "e"])]),
        (False, [("dense", "d", ["flat"]), ("concat", "c", ["d", "flat"]), ("dense", "e", ["c"])]),
        (False, [("batch_norm", "b", ["flat"]), ("dense", "d", ["b"])]),
        (False, [("relu", "r", ["flat"])]),  # its values are seen
        (False, []),
    ],
)
def test_the_order_is_free_only_where_dense_layers_alone_read_it(expected, layers):
    assert free(*layers) is expected


def test_a_moved_kernel_gives_what_the_specification_gives_and_comes_back():
    random = np.random.RandomState(3)
    pictures, kernel = random.normal(size=(5, 4, 3, 2)), random.normal(size=(24, 7))
    encode, decode = flattening.kernel_codec((4, 3, 2))
    rows = pictures.transpose(0, 3, 1, 2).reshape(5, -1)
    assert np.allclose(rows @ encode(kernel).T, pictures.reshape(5, -1) @ kernel)
    assert np.array_equal(decode(encode(kernel)), kernel)
    assert np.array_equal(flattening.decode_rows(rows, (4, 3, 2)), pictures.reshape(5, -1))
