"""Initial weights: from (seed, layer, parameter) alone, the same numbers in every framework.

Only uniform draws of NumPy's frozen ``RandomState`` are used: their bits do not depend on NumPy's version.
"""

import hashlib

import numpy as np


def initial_weights(model):
    """{layer: {parameter: float32 array}} of a ``trainyard.graph.Model``: parameters, then state."""
    seed = model.workload.seed
    return {node.name: dict([(name, _draw(seed, node, name, shape)) for name, shape in node.parameters.items()]
                            + [(name, _state(name, shape)) for name, shape in node.state.items()])
            for node in model.nodes if node.parameters}


def weights_digest(model, weights):
    """SHA-256 over names, shapes and little-endian float32 bytes, in graph order."""
    total = hashlib.sha256()
    for node in model.nodes:
        for name, shape in list(node.parameters.items()) + list(node.state.items()):
            total.update("{}/{}{}".format(node.name, name, tuple(shape)).encode("utf-8"))
            total.update(np.ascontiguousarray(weights[node.name][name], dtype="<f4").tobytes())
    return total.hexdigest()


def random_state(*parts):
    """A ``RandomState`` seeded by the SHA-256 of ``parts``."""
    words = np.frombuffer(hashlib.sha256(repr(parts).encode("utf-8")).digest(), dtype="<u4")
    return np.random.RandomState([int(word) for word in words])


def _draw(seed, node, name, shape):
    kind = name.rsplit("_", 1)[-1]
    if kind == "scale":
        return np.ones(shape, np.float32)
    if kind == "offset":
        return np.zeros(shape, np.float32)
    if kind == "bias":
        return _bias(node, shape)
    limit = 0.05 if kind == "table" else _glorot_limit(shape)
    return random_state(int(seed), node.name, name).uniform(-limit, limit, shape).astype(np.float32)


def _bias(node, shape):
    bias = np.zeros(shape, np.float32)
    if node.op in ("lstm", "bidirectional_lstm"):
        units = node.fields.units
        bias[units:2 * units] = 1.0
    return bias


def _glorot_limit(shape):
    """sqrt(6 / (fan_in + fan_out)), Glorot and Bengio (2010); a convolution's fans include its window."""
    window = int(np.prod(shape[:-2])) if len(shape) > 2 else 1
    return np.sqrt(6.0 / (window * (shape[-2] + shape[-1])))


def _state(name, shape):
    return np.ones(shape, np.float32) if name == "variance" else np.zeros(shape, np.float32)
