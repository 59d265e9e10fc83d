"""Layers of a workload in Jittor. Pictures are computed as NCHW, Jittor's own layout; all else as it is.

A layer is a module called with its inputs. ``Parameter`` ties a Var to a weight of the workload and to the order of
axes in which Jittor keeps it.
"""

import jittor as jt
import numpy as np
from jittor import nn
from trainyard.graph import INPUT, same_padding
from trainyard.v1 import workload_pb2

from runners.core import flattening
from runners.jittor import recurrent

# Jittor's axes, as positions of the logical ones.
DENSE = (1, 0)
CONV = (3, 2, 0, 1)
PICTURE = (0, 3, 1, 2)
LOWEST = float(np.finfo(np.float32).min)


class Parameter(object):
    """A weight: the object and attribute that hold its Var, and how it comes from and to the logical array: by its
    ``axes``, or by other functions."""

    def __init__(self, owner, attribute, axes=None):
        self.owner = owner
        self.attribute = attribute
        self.encode = self.decode = np.asarray
        if axes is not None:
            self.encode = lambda array: array.transpose(axes)
            self.decode = lambda array: array.transpose(np.argsort(axes))

    @property
    def var(self):
        return getattr(self.owner, self.attribute)

    def set(self, array):
        """Copies a logical array into a new Var."""
        array = np.ascontiguousarray(self.encode(np.array(array, dtype=np.float32)))
        setattr(self.owner, self.attribute, jt.array(array))

    def logical(self, var):
        """A NumPy copy of ``var``, this weight or its gradient, in the logical layout."""
        return self.decode(np.array(var.numpy()))


class Network(object):
    """A ``trainyard.graph.Model`` as Jittor modules, with the given weights.

    trained    [((layer, parameter), Parameter)] in graph order
    state      the same for batch-norm's running values
    names      of all nodes, in graph order
    arrange    takes a NumPy batch of the workload to the layout in which ``forward`` wants it
    """

    def __init__(self, model, weights):
        self.trained, self.state = [], []
        self._modal = []
        self._calls = []
        self._picture = len(model.input_shape) == 3 and any(
            INPUT in node.inputs and node.op != "flatten" for node in model.nodes)
        self._channels = model.input_shape[-1]
        self._consumers = {node.name: [other for other in model.nodes if node.name in other.inputs]
                           for node in model.nodes}
        # (height, width, channels) of the pictures that are flattened with their channels first, by node.
        self._pixels = {}
        for node in model.nodes:
            self._add(node, weights.get(node.name, {}))
        self.names = [node.name for node in model.nodes]

    def _add(self, node, weights):
        module, parameters, state = MAKERS[node.op](node)
        pixels = self._pixels.get(node.inputs[0])
        if node.op == "flatten" and (node.inputs[0] != INPUT or self._picture):
            module = self._flatten(node)
        elif node.op == "dense" and pixels:
            kernel = dict(parameters)["kernel"]
            kernel.encode, kernel.decode = flattening.kernel_codec(pixels)
        elif pixels:
            self._pixels[node.name] = pixels
        for target, found in ((self.trained, parameters), (self.state, state)):
            for name, parameter in found:
                parameter.set(weights[name])
                target.append(((node.name, name), parameter))
        for _, parameter in state:
            parameter.var.stop_grad()
        if hasattr(module, "is_train"):
            self._modal.append(module)
        self._calls.append((node.name, module, node.inputs))

    def _flatten(self, node):
        """Of a picture in NCHW: back to the logical order first, where what follows needs that."""
        shape = node.input_shapes[0]
        if len(shape) < 3 or shape[2] == 1 or shape[0] * shape[1] == 1:
            return _reshape
        if flattening.order_is_free(node, self._consumers):
            self._pixels[node.name] = shape
            return _reshape
        return lambda x: x.transpose((0, 2, 3, 1)).reshape((x.shape[0], -1))

    def arrange(self, x):
        """NumPy (batch, ...) in the logical layout -> C-contiguous, as ``forward`` takes it."""
        if not self._picture:
            return x
        if self._channels == 1:
            return x.reshape(x.shape[0], 1, x.shape[1], x.shape[2])
        return np.ascontiguousarray(x.transpose(PICTURE))

    def train(self, training):
        """Switches dropout and batch-norm between training and evaluation."""
        for module in self._modal:
            module.is_train = training

    def values(self, x):
        """Outputs of all nodes, {name: Var}, in Jittor's layout."""
        values = {INPUT: x}
        for name, module, inputs in self._calls:
            values[name] = module(*[values[i] for i in inputs])
        return values

    def logical(self, name, var):
        """A NumPy copy of a node's output in the logical layout."""
        array = np.array(var.numpy())
        if name in self._pixels:
            return flattening.decode_rows(array, self._pixels[name])
        return array.transpose(0, 2, 3, 1) if array.ndim == 4 else array

    def last(self, values):
        """The logits (batch, classes) among all outputs."""
        return values[self.names[-1]]

    def forward(self, x):
        """The logits (batch, classes)."""
        return self.last(self.values(x))


# --- one maker for each op: node -> (module, [(name, Parameter)] trained, the same for state) ---------------

def _dense(node):
    layer = nn.Linear(node.input_shapes[0][-1], node.fields.units, bias=node.fields.use_bias)
    return layer, _kernel_and_bias(node, layer, DENSE), []


def _conv2d(node):
    fields, channels = node.fields, node.input_shapes[0][2]
    (top, bottom), (left, right) = _padding(node, fields.kernel_height, fields.kernel_width)
    even = top == bottom and left == right
    layer = nn.Conv2d(channels, fields.filters, (fields.kernel_height, fields.kernel_width),
                      (fields.stride_height, fields.stride_width), (top, left) if even else 0, bias=fields.use_bias)
    parameters = _kernel_and_bias(node, layer, CONV)
    # oneDNN's convolution is used for even padding only; the odd row and column are added before it.
    return (layer if even else _after_padding(layer, (left, right, top, bottom), 0.0)), parameters, []


def _kernel_and_bias(node, layer, axes):
    parameters = [("kernel", Parameter(layer, "weight", axes))]
    return parameters + ([("bias", Parameter(layer, "bias"))] if "bias" in node.parameters else [])


def _padding(node, height, width):
    """((top, bottom), (left, right)) of a windowed layer."""
    if node.fields.padding != workload_pb2.PADDING_SAME:
        return (0, 0), (0, 0)
    shape = node.input_shapes[0]
    return (same_padding(shape[0], height, node.fields.stride_height),
            same_padding(shape[1], width, node.fields.stride_width))


def _after_padding(layer, amounts, value):
    amounts = list(amounts)
    return lambda x: layer(nn.pad(x, amounts, value=value))


def _batch_norm(node):
    layer = nn.BatchNorm(node.shape[-1], eps=node.fields.epsilon, momentum=1.0 - node.fields.momentum)
    module = _Flat(layer) if len(node.shape) == 2 else layer
    return (module, [("scale", Parameter(layer, "weight")), ("offset", Parameter(layer, "bias"))],
            [("mean", Parameter(layer, "running_mean")), ("variance", Parameter(layer, "running_var"))])


class _Flat(object):
    """Batch norm over the last axis of (batch, time, features): Jittor's own normalises axis 1."""

    def __init__(self, layer):
        self._layer = layer
        self.is_train = True

    def __call__(self, x):
        self._layer.is_train = self.is_train
        return self._layer(x.reshape((-1, x.shape[-1]))).reshape(x.shape)


def _reshape(x):
    return x.reshape((x.shape[0], -1))


def _channel_axis(node):
    return 1 if len(node.shape) == 3 else len(node.shape)


def _softmax(node):
    axis = _channel_axis(node)
    return (lambda x: nn.softmax(x, dim=axis)), [], []


def _concat(node):
    axis = _channel_axis(node)
    return (lambda *inputs: jt.concat(inputs, axis)), [], []


def _add(*inputs):
    total = inputs[0]
    for each in inputs[1:]:
        total = total + each
    return total


def _dropout(node):
    if node.fields.rate == 0:
        return (lambda x: x), [], []
    return nn.Dropout(node.fields.rate, is_train=True), [], []


def _max_pool2d(node):
    fields = node.fields
    size, stride = (fields.size_height, fields.size_width), (fields.stride_height, fields.stride_width)
    (top, bottom), (left, right) = _padding(node, *size)
    for round_up in (False, True):
        if all(_pooled(n, before, k, s, round_up) == out for n, before, k, s, out in zip(
                node.input_shapes[0], (top, left), size, stride, node.shape)):
            # Jittor's windows are cut off at the border, so uneven padding needs no more than the right count.
            return nn.Pool(size, stride, (top, left), ceil_mode=round_up, op="maximum"), [], []
    pool = nn.Pool(size, stride, op="maximum")
    return _after_padding(pool, (left, right, top, bottom), LOWEST), [], []


def _pooled(length, before, window, stride, round_up):
    """Output length of jittor.nn.Pool."""
    return (length + 2 * before - window + (stride - 1 if round_up else 0)) // stride + 1


def _avg_pool2d(node):
    fields = node.fields
    size, stride = (fields.size_height, fields.size_width), (fields.stride_height, fields.stride_width)
    (top, bottom), (left, right) = _padding(node, *size)
    if top == bottom == left == right == 0:
        return nn.Pool(size, stride, op="mean"), [], []
    windows = ["i0", "i1", "i2*{}-{}+i4".format(stride[0], top), "i3*{}-{}+i5".format(stride[1], left)]
    shares = jt.array(_shares(node, size, stride, (top, left))).stop_grad()

    def average(x):
        parts = x.reindex([x.shape[0], x.shape[1], node.shape[0], node.shape[1], size[0], size[1]], windows)
        return parts.sum([4, 5]) * shares.broadcast([x.shape[0], x.shape[1], node.shape[0], node.shape[1]], [0, 1])
    return average, [], []


def _shares(node, size, stride, before):
    """1 / number of values inside the picture, for each window: float32 (height, width)."""
    counts = []
    for length, out, k, s, b in zip(node.input_shapes[0], node.shape, size, stride, before):
        first = np.arange(out) * s - b
        counts.append(np.minimum(first + k, length) - np.maximum(first, 0))
    return (1.0 / np.outer(*counts)).astype(np.float32)


def _embedding(node):
    layer = _Embedding(node.fields.dim)
    return layer, [("table", Parameter(layer, "table"))], []


class _Embedding(object):
    """Rows of a table that is trained (the table of Jittor's own layer is not)."""

    def __init__(self, dim):
        self._dim = dim
        self.table = None

    def __call__(self, tokens):
        return self.table[tokens.reshape((-1,))].reshape((tokens.shape[0], tokens.shape[1], self._dim))


def _lstm(node):
    layer = recurrent.Lstm(node.fields)
    return layer, _recurrent_weights(layer, ""), []


def _bidirectional_lstm(node):
    forward, backward = recurrent.Lstm(node.fields), recurrent.Lstm(node.fields, reverse=True)

    def both(x):
        forth, back = forward(x), backward(x)
        return jt.concat([forth, back], len(forth.shape) - 1)
    return both, _recurrent_weights(forward, "forward_") + _recurrent_weights(backward, "backward_"), []


def _recurrent_weights(layer, prefix):
    return [(prefix + name, Parameter(layer, name)) for name in ("kernel", "recurrent", "bias")]


def _plain(function):
    return lambda node: (function, [], [])


MAKERS = {
    "dense": _dense, "conv2d": _conv2d, "batch_norm": _batch_norm, "relu": _plain(nn.relu),
    "sigmoid": _plain(jt.sigmoid), "tanh": _plain(jt.tanh), "softmax": _softmax, "flatten": _plain(_reshape),
    "add": _plain(_add), "concat": _concat, "max_pool2d": _max_pool2d, "avg_pool2d": _avg_pool2d,
    "global_avg_pool1d": _plain(lambda x: x.mean(1)), "global_avg_pool2d": _plain(lambda x: x.mean([2, 3])),
    "dropout": _dropout, "embedding": _embedding, "lstm": _lstm, "bidirectional_lstm": _bidirectional_lstm,
}
