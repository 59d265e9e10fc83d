"""Short ways to write the workloads and samples that the contract is checked with. Python 3.6 syntax."""

import numpy as np
from trainyard import graph
from trainyard.v1 import runner_pb2, workload_pb2

from runners.core.initial import random_state

PADDINGS = {"valid": workload_pb2.PADDING_VALID, "same": workload_pb2.PADDING_SAME}
RECURRENT = {"sigmoid": workload_pb2.RECURRENT_ACTIVATION_SIGMOID,
             "hard_sigmoid": workload_pb2.RECURRENT_ACTIVATION_HARD_SIGMOID}
OPTIMIZER_DEFAULTS = {
    "sgd": {"momentum": 0.0, "nesterov": False},
    "adam": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7},
    "rmsprop": {"rho": 0.9, "momentum": 0.0, "centered": False, "epsilon": 1e-7},
    "adadelta": {"rho": 0.95, "epsilon": 1e-7},
}


class Sketch(object):
    """A workload on synthetic samples, written layer by layer. Fields have the defaults of a workload file."""

    def __init__(self, shape, classes=3, vocabulary=0, batch_size=8, samples=64, seed=7):
        self.workload = workload_pb2.Workload(name="contract", seed=seed, loss="sparse_categorical_crossentropy")
        self.workload.dataset.synthetic.shape.extend(shape)
        self.workload.dataset.synthetic.classes = classes
        self.workload.dataset.synthetic.samples = samples
        self.workload.dataset.synthetic.test_samples = samples
        self.workload.dataset.synthetic.vocabulary = vocabulary
        self.workload.schedule.batch_size = batch_size
        self.workload.schedule.warmup_steps = 1
        self.workload.schedule.steps = 1
        self.last = graph.INPUT
        self.optimizer("sgd", 0.1)

    def optimizer(self, name, learning_rate, decay=0.0, **options):
        message = self.workload.optimizer
        message.Clear()
        message.learning_rate = learning_rate
        message.decay = decay
        chosen = getattr(message, name)
        chosen.SetInParent()
        for field, value in dict(OPTIMIZER_DEFAULTS[name], **options).items():
            setattr(chosen, field, value)
        return self

    def binary(self):
        """The loss of two classes and one logit."""
        self.workload.loss = "binary_crossentropy"
        return self

    def add(self, op, name=None, inputs=None, **fields):
        """Appends a layer (input: the one before) and returns its name."""
        layer = self.workload.layers.add()
        layer.name = name or "{}-{}".format(op, len(self.workload.layers))
        layer.inputs.extend([self.last] if inputs is None else inputs)
        message = getattr(layer, op)
        message.SetInParent()
        for field, value in _filled(op, fields).items():
            setattr(message, field, value)
        self.last = layer.name
        return layer.name

    def model(self):
        return graph.parse(self.workload)


def _filled(op, fields):
    if op == "dense":
        return dict({"use_bias": True}, **fields)
    if op == "conv2d":
        return _window("kernel", dict({"use_bias": True, "kernel": 3, "stride": 1}, **fields))
    if op in ("max_pool2d", "avg_pool2d"):
        return _window("size", dict({"size": 2}, **fields))
    if op == "batch_norm":
        return dict({"epsilon": 1e-3, "momentum": 0.99}, **fields)
    if op in ("lstm", "bidirectional_lstm"):
        fields = dict({"recurrent_activation": "sigmoid"}, **fields)
        fields["recurrent_activation"] = RECURRENT[fields["recurrent_activation"]]
    return fields


def _window(size, fields):
    """``kernel`` or ``size``, ``stride`` (a number or a pair) and ``padding`` as the message has them."""
    filled = {"padding": PADDINGS[fields.pop("padding", "valid")]}
    stride = fields.pop("stride", fields[size])
    for name, value in ((size, fields.pop(size)), ("stride", stride)):
        pair = value if isinstance(value, tuple) else (value, value)
        filled[name + "_height"], filled[name + "_width"] = pair
    return dict(fields, **filled)


def execution(device="cpu", threads=1, **variant):
    """An Execution message; ``variant`` over the defaults of a comparison."""
    message = runner_pb2.Execution(device=device, threads=threads, memory_growth=True)
    filled = {"jit": False, "layout": "default", "precision": "float32", "pipeline": "native", "workers": 0,
              "prefetch": 2}
    filled.update(variant)
    for field, value in filled.items():
        setattr(message.variant, field, value)
    return message


def samples(model, count=None):
    """(x, y) for a model on synthetic data: x uniform in [-1, 1) or tokens, y class numbers. Read-only."""
    options = model.workload.dataset.synthetic
    count = options.samples if count is None else count
    random = random_state("contract", model.workload.seed)
    shape = (count,) + tuple(model.input_shape)
    if model.input_is_integer:
        x = random.randint(0, options.vocabulary, shape).astype(np.int32)
    else:
        x = random.uniform(-1, 1, shape).astype(np.float32)
    y = random.randint(0, max(model.classes, 2), count).astype(np.int32)
    x.flags.writeable = y.flags.writeable = False
    return x, y
