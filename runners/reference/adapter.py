"""The oracle: every layer, loss and optimizer of ``workload.proto`` in float64 NumPy, written to be read.

It is a runner like the others, slow and with nothing to install, and what the others are compared with.
Initial weights come in as float32 and are taken to float64; all arithmetic is float64.
"""

import os

import numpy as np
from trainyard.graph import INPUT

from runners.core.adapter import Adapter, Description, Device, Unsupported
from runners.reference import layers, recurrent, windows
from runners.reference.losses import LOSSES
from runners.reference.optimizers import OPTIMIZERS

VERSION = "1.0"
LAYERS = {
    "dense": layers.Dense, "conv2d": windows.Conv2d, "batch_norm": layers.BatchNorm, "relu": layers.Relu,
    "sigmoid": layers.Sigmoid, "tanh": layers.Tanh, "softmax": layers.Softmax, "flatten": layers.Flatten,
    "add": layers.Add, "concat": layers.Concat, "max_pool2d": windows.MaxPool2d, "avg_pool2d": windows.AvgPool2d,
    "global_avg_pool1d": layers.GlobalAvgPool, "global_avg_pool2d": layers.GlobalAvgPool, "dropout": layers.Dropout,
    "embedding": layers.Embedding, "lstm": recurrent.Lstm, "bidirectional_lstm": recurrent.BidirectionalLstm,
}
# "float32" is what a comparison asks of every runner; this one is more exact, and says so in its facts.
# `workers` and `prefetch` are free: both pipelines slice arrays in the training process, there is nothing to set.
VARIANTS = {
    "jit": ("false",), "layout": ("default", "nhwc"), "precision": ("float32",), "pipeline": ("native", "memory"),
}


class Loader(object):
    """Batches of the source, sliced one by one; for both pipelines."""

    def __init__(self, source):
        self.source = source

    def epoch(self, number):
        for indices in self.source.order(number):
            yield self.source.take(number, indices)

    def close(self):
        pass


class ReferenceAdapter(Adapter):

    layer_classes = LAYERS
    optimizer_classes = OPTIMIZERS

    def describe(self):
        return Description("Reference (NumPy, float64)", {"trainyard-reference": VERSION, "numpy": np.__version__},
                           LAYERS, LOSSES, OPTIMIZERS, VARIANTS)

    def open(self, execution):
        if execution.device != "cpu":
            raise LookupError("NumPy computes on the CPU only, not on {!r}".format(execution.device))
        asked = {"jit": str(execution.variant.jit).lower(), "layout": execution.variant.layout,
                 "precision": execution.variant.precision, "pipeline": execution.variant.pipeline}
        for option, value in sorted(asked.items()):
            if value not in VARIANTS[option]:
                raise Unsupported("variant {}={}".format(option, value), "NumPy has {}".format(
                    " or ".join(VARIANTS[option])))

    def build(self, model, initial):
        self.model = model
        self.values = {layer: {name: np.array(array, np.float64) for name, array in arrays.items()}
                       for layer, arrays in initial.items()}
        random = np.random.RandomState(model.workload.seed)
        self.layers = {node.name: self.layer_classes[node.op](node, self.values.get(node.name, {}), random)
                       for node in model.nodes}
        self.loss = LOSSES[model.workload.loss]
        self.optimizer = self.optimizer_classes[model.workload.optimizer.WhichOneof("kind")](model.workload.optimizer)

    def device(self):
        return Device("cpu")

    def loader(self, source):
        return Loader(source)

    def put(self, x, y):
        return x, y

    def step(self, batch):
        x, y = batch
        loss, gradient = self.loss(self.forward(x, training=True)[self.model.nodes[-1].name], y)
        self.backward(gradient)
        self.update()
        return loss

    def forward(self, x, training):
        """{node: output}, the input among them."""
        outputs = {INPUT: x if self.model.input_is_integer else x.astype(np.float64)}
        for node in self.model.nodes:
            outputs[node.name] = self.layers[node.name].forward([outputs[name] for name in node.inputs], training)
        return outputs

    def backward(self, gradient):
        """From the gradient by the model's output: sets every layer's ``gradients``; returns that by the input,
        which is None for tokens."""
        totals = {self.model.nodes[-1].name: gradient}
        for node in reversed(self.model.nodes):
            for name, part in zip(node.inputs, self.layers[node.name].backward(totals[node.name])):
                if part is not None:
                    totals[name] = totals[name] + part if name in totals else part
        return totals.get(INPUT)

    def update(self):
        self.optimizer.begin()
        for layer, gradients in self.gradients().items():
            values = self.values[layer]
            for name, gradient in gradients.items():
                values[name] = self.optimizer.move((layer, name), values[name], gradient)

    def gradients(self):
        """{layer: {parameter: array}} of the last backward pass."""
        return {name: dict(layer.gradients) for name, layer in self.layers.items() if layer.gradients}

    def wait(self):
        pass

    def read(self, loss):
        return float(loss)

    def predict(self, x):
        return self.forward(x, training=False)[self.model.nodes[-1].name]

    def inspect(self, x, y):
        outputs = self.forward(x, training=True)
        self.backward(self.loss(outputs[self.model.nodes[-1].name], y)[1])
        return {node.name: outputs[node.name] for node in self.model.nodes}, self.gradients()

    def weights(self):
        return {layer: {name: array.copy() for name, array in arrays.items()}
                for layer, arrays in self.values.items()}

    def memory(self):
        reason = "NumPy has no allocator of its own"
        return {"allocator_allocated_peak": (None, reason), "allocator_reserved_peak": (None, reason)}

    def facts(self):
        return {"arithmetic": "float64", "threads": os.environ.get("OMP_NUM_THREADS", "not set"),
                "loader_workers": "0"}


ADAPTER = ReferenceAdapter
