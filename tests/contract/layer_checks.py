"""Each layer alone: outputs and gradients against the reference. Python 3.6 syntax.

A case is a branch of its own: before (has parameters, so that the case's backward pass is seen) -> the case ->
after. One model holds several cases of an op, since a framework builds once per process. Weights are not the usual
initial ones: no bias is zero and no scale one, so that a layer that leaves them out is seen.
"""

import numpy as np
from trainyard.graph import INPUT

from runners.core.initial import initial_weights, random_state
from tests.contract.sketch import Sketch, samples

SEQUENCE, PICTURE = (6, 5), (9, 8, 3)
_POOLS = [("valid", "picture", {}), ("same", "picture", {"padding": "same"}),
          ("overlap", "picture", {"size": 3, "stride": 2, "padding": "same"}),
          ("oblong", "picture", {"size": (2, 3), "stride": (1, 2)})]
_LSTMS = [("last", "sequence", {"units": 4}), ("all", "sequence", {"units": 4, "return_sequences": True}),
          ("hard", "sequence", {"units": 4, "recurrent_activation": "hard_sigmoid"}),
          ("hard-all", "sequence", {"units": 4, "return_sequences": True, "recurrent_activation": "hard_sigmoid"})]
_ROWS = [("row", "row", {}), ("sequence", "sequence", {})]

# Check name -> (op, cases), a case being (name, shape before it, fields).
CASES = {
    "dense": ("dense", [("row", "row", {"units": 4}), ("no-bias", "row", {"units": 4, "use_bias": False}),
                        ("sequence", "sequence", {"units": 4})]),
    "conv2d": ("conv2d", [
        ("valid", "picture", {"filters": 4}),
        ("same", "picture", {"filters": 4, "padding": "same"}),
        ("no-bias", "picture", {"filters": 4, "use_bias": False}),
        ("one-by-one", "picture", {"filters": 4, "kernel": 1})]),
    "conv2d-odd": ("conv2d", [
        ("same-even", "picture", {"filters": 4, "kernel": (2, 4), "padding": "same"}),
        ("same-stride-2", "picture", {"filters": 4, "stride": 2, "padding": "same"}),
        ("same-stride-3", "picture", {"filters": 4, "kernel": 5, "stride": (3, 1), "padding": "same"}),
        ("valid-stride-2", "picture", {"filters": 4, "kernel": (3, 2), "stride": 2}),
        ("one-by-one-stride-2", "picture", {"filters": 4, "kernel": 1, "stride": 2, "padding": "same"})]),
    "batch_norm": ("batch_norm", [("picture", "picture", {"epsilon": 1e-2, "momentum": 0.8}), ("row", "row", {})]),
    "batch_norm-sequence": ("batch_norm", [("sequence", "sequence", {"epsilon": 0.1})]),
    "relu": ("relu", [("row", "row", {}), ("picture", "picture", {})]),
    "sigmoid": ("sigmoid", _ROWS),
    "tanh": ("tanh", _ROWS),
    "softmax": ("softmax", _ROWS),
    "flatten": ("flatten", [("picture", "picture", {}), ("row", "row", {})]),
    "flatten-sequence": ("flatten", [("sequence", "sequence", {})]),
    "add": ("add", [("two", "picture", 2), ("three", "row", 3)]),
    "concat": ("concat", [("two", "picture", 2), ("three", "row", 3)]),
    "concat-sequence": ("concat", [("two", "sequence", 2)]),
    "max_pool2d": ("max_pool2d", _POOLS),
    "avg_pool2d": ("avg_pool2d", _POOLS),
    "global_avg_pool1d": ("global_avg_pool1d", [("sequence", "sequence", {})]),
    "global_avg_pool2d": ("global_avg_pool2d", [("picture", "picture", {})]),
    "dropout": ("dropout", [("row", "row", {"rate": 0.0}), ("picture", "picture", {"rate": 0.0})]),
    "embedding": ("embedding", [("tokens", "tokens", {"vocabulary": 11, "dim": 4})]),
    "lstm": ("lstm", _LSTMS),
    "bidirectional_lstm": ("bidirectional_lstm", _LSTMS),
}


def check_layer(bench, name):
    """Compares ``inspect`` of the model of a check. Raises Deviation."""
    model = layer_model(name)
    subject, oracle = bench.pair(model, varied(model))
    x, y = samples(model, model.workload.schedule.batch_size)
    bench.inspect(model, subject, oracle, x, y)


def layer_model(name):
    """The checked model of all cases of a check."""
    op, cases = CASES[name]
    if op == "embedding":
        sketch = Sketch((6,), vocabulary=11)
    else:
        sketch = Sketch(PICTURE if any(shape == "picture" for _, shape, _ in cases) else SEQUENCE)
    heads = [_branch(sketch, op, *case) for case in cases]
    if len(heads) > 1:
        sketch.add("add", "sum", heads)
    return sketch.model()


def _branch(sketch, op, name, shape, fields):
    """Adds one case and returns the name of its last layer."""
    count = fields if op in ("add", "concat") else 1
    # A bias before batch_norm has a gradient of nothing but rounding: none there.
    befores = [_before(sketch, "{}.before{}".format(name, number or ""), shape, use_bias=op != "batch_norm")
               for number in range(count)]
    sketch.add(op, name, befores, **({} if op in ("add", "concat") else fields))
    sketch.add("flatten", name + ".flat")
    return sketch.add("dense", name + ".after", units=3)


def _before(sketch, name, shape, use_bias):
    if shape == "tokens":
        return INPUT
    if shape == "picture":
        return sketch.add("conv2d", name, [INPUT], filters=3, kernel=1, use_bias=use_bias)
    if shape == "row":
        sketch.add("flatten", name + ".flat", [INPUT])
        return sketch.add("dense", name, units=7, use_bias=use_bias)
    return sketch.add("dense", name, [INPUT], units=5, use_bias=use_bias)


def varied(model):
    """Initial weights moved by up to 0.7 (scales and variances kept positive), float32."""
    moved = {}
    for layer, arrays in initial_weights(model).items():
        random = random_state("varied", layer)
        moved[layer] = {name: (array + random.uniform(-0.7, 0.7, array.shape)).astype(np.float32)
                        for name, array in sorted(arrays.items())}
    return moved
