"""Trains small models of every kind on Theano, which compiles what most workloads need: for ``prepare_theano`` only.

    python -m runners.keras.warm

Theano compiles a piece of C++ for each operation and each group of them that it joins, whatever the numbers of units,
the batch or the optimizer's options are. Printed is one line for each model."""

import sys

import numpy as np
from google.protobuf import text_format
from trainyard import graph
from trainyard.v1 import runner_pb2, workload_pb2

from runners.core.initial import initial_weights

BATCH = 4
PICTURES = "synthetic { shape: [32, 32, 3] classes: 4 samples: 4 test_samples: 4 }"
TOKENS = "synthetic { shape: 6 classes: 2 samples: 4 test_samples: 4 vocabulary: 9 }"
SEQUENCES = "synthetic { shape: [6, 5] classes: 4 samples: 4 test_samples: 4 }"

SGD = "sgd { momentum: 0 }"
ADAM = "adam { beta_1: 0.9 beta_2: 0.999 epsilon: 1e-7 }"
RMSPROP = "rmsprop { rho: 0.9 epsilon: 1e-7 }"
ADADELTA = "adadelta { rho: 0.95 epsilon: 1e-7 }"

LOGITS = "dense { units: 4 use_bias: true }"
LOGIT = "dense { units: 1 use_bias: true }"
RELU = "relu {}"
DROPOUT = "dropout { rate: 0.5 }"
FLATTEN = "flatten {}"
EMBEDDING = "embedding { vocabulary: 9 dim: 3 }"


def _conv(kernel, stride, padding, bias=True):
    return ("conv2d {{ filters: 4 kernel_height: {0} kernel_width: {0} stride_height: {1} stride_width: {1} "
            "padding: PADDING_{2} use_bias: {3} }}").format(kernel, stride, padding, str(bias).lower())


def _pool(kind, size, stride, padding):
    return ("{0}_pool2d {{ size_height: {1} size_width: {1} stride_height: {2} stride_width: {2} "
            "padding: PADDING_{3} }}").format(kind, size, stride, padding)


def _lstm(kind, gate):
    return "{} {{ units: 3 recurrent_activation: RECURRENT_ACTIVATION_{} }}".format(kind, gate)


PERCEPTRON = (FLATTEN, LOGITS, RELU, LOGITS)
DROPPED = (FLATTEN, LOGITS, RELU, DROPOUT, LOGITS, RELU, DROPOUT, LOGITS)
SMALL = (_conv(3, 1, "VALID"), RELU, _conv(3, 1, "VALID"), RELU, _pool("max", 2, 2, "VALID"), DROPOUT, FLATTEN,
         LOGITS, RELU, DROPOUT, LOGITS)
DEEP = (_conv(3, 1, "SAME"), RELU, _conv(3, 1, "VALID"), RELU, _pool("max", 2, 2, "VALID"), DROPOUT) * 2 + (
    FLATTEN, LOGITS, RELU, DROPOUT, LOGITS)
NORM = "batch_norm { epsilon: 1e-3 momentum: 0.99 }"
# A layer with other inputs than the layer before names them, by number from 1.
RESIDUAL = (_conv(7, 2, "SAME", False), NORM, RELU, _pool("max", 3, 2, "SAME"),
            _conv(1, 1, "SAME", False), NORM, RELU, _conv(3, 1, "SAME", False), NORM, RELU,
            _conv(1, 1, "SAME", False), NORM, (_conv(1, 1, "SAME", False), 4), NORM, ("add {}", 12, 14), RELU,
            _conv(3, 2, "SAME", False), NORM, (_conv(1, 2, "SAME", False), 16), NORM, ("add {}", 18, 20), RELU,
            "global_avg_pool2d {}", LOGITS)

MODELS = (
    (PICTURES, PERCEPTRON, ADAM), (PICTURES, PERCEPTRON, SGD), (PICTURES, DROPPED, RMSPROP),
    (PICTURES, SMALL, ADADELTA), (PICTURES, DEEP, RMSPROP + " decay: 1e-6"), (PICTURES, RESIDUAL, RMSPROP),
    (TOKENS, (EMBEDDING, "global_avg_pool1d {}", LOGIT), ADAM),
    (TOKENS, (EMBEDDING, _lstm("bidirectional_lstm", "HARD_SIGMOID"), DROPOUT, LOGIT), ADAM),
    (SEQUENCES, (_lstm("lstm", "HARD_SIGMOID"), LOGITS), RMSPROP),
)


def main():
    for number, (dataset, layers, optimizer) in enumerate(MODELS):
        sys.stdout.write("progress {:.3f} compiling for Theano\n".format(number / float(len(MODELS))))
        sys.stdout.flush()
        _train(graph.parse(_workload(dataset, layers, optimizer)))


def _train(model):
    # Named here, for the backend's module is imported by its name in a variable.
    from runners.keras import on_theano  # noqa: F401
    from runners.keras.adapter import ADAPTER
    adapter = ADAPTER()
    adapter.open(runner_pb2.Execution(device="cpu", threads=1, variant=workload_pb2.Variant(
        layout="default", precision="float32", pipeline="memory", workers=0, prefetch=1)))
    adapter.build(model, initial_weights(model))
    shape = (BATCH,) + tuple(model.input_shape)
    x, y = np.zeros(shape, np.int32 if model.input_is_integer else np.float32), np.zeros(BATCH, np.int32)
    adapter.step(adapter.put(x, y))
    adapter.predict(x)


def _workload(dataset, layers, optimizer):
    lines = ["name: 'warm' seed: 1 dataset {{ {} }}".format(dataset),
             "loss: '{}_crossentropy'".format("binary" if layers[-1] is LOGIT else "sparse_categorical"),
             "optimizer {{ learning_rate: 0.01 {} }}".format(optimizer),
             "schedule {{ batch_size: {} warmup_steps: 1 steps: 1 }}".format(BATCH)]
    for number, layer in enumerate(layers, 1):
        op, inputs = (layer[0], layer[1:]) if isinstance(layer, tuple) else (layer, (number - 1,))
        names = " ".join("inputs: '{}'".format("l{}".format(i) if i else graph.INPUT) for i in inputs)
        lines.append("layers {{ name: 'l{}' {} {} }}".format(number, names, op))
    return text_format.Parse("\n".join(lines), workload_pb2.Workload())


if __name__ == "__main__":
    main()
