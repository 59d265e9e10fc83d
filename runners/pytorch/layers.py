"""From the nodes of a workload to one ``torch.fx.GraphModule`` in PyTorch's layout, and its weights back.

Pictures are (batch, channels, height, width) inside, in either memory format. Everything stateless is a function
and everything with parameters a stock module, so that the generated ``forward`` is what one would write by hand.
"""

import functools
import operator

import numpy as np
import torch
import torch.fx
from torch import nn
from trainyard import graph

from runners.core import flattening
from runners.core.adapter import Unsupported
from runners.pytorch import recurrent, windows

# What may be overwritten by a relu that follows: their backward passes do not need their outputs.
_OVERWRITABLE = ("conv2d", "dense", "batch_norm", "add")


class Slot(object):
    """One parameter or state of a layer: the attribute of a module, and how to come from and to the logical array."""

    def __init__(self, layer, name, module, attribute, encode=np.asarray, decode=np.asarray):
        self.layer = layer
        self.name = name
        self.module = module
        self.attribute = attribute
        self.encode = encode
        self.decode = decode

    @property
    def tensor(self):
        """The tensor as it is now: moving a module to a device makes new buffers."""
        return getattr(self.module, self.attribute)


class Value(object):
    """A node's output: the ``fx`` node, and ``decode`` from what that computes to the logical array.

    ``pixels`` is (height, width, channels) where a flattened picture still has its channels first, else None."""

    def __init__(self, fx, decode=np.asarray, pixels=None):
        self.fx = fx
        self.decode = decode
        self.pixels = pixels


class Network(object):
    """``module`` (a GraphModule), ``values`` {layer: Value}, ``slots``, ``channels_first`` (whether the pictures that
    the module takes are so) and ``batch_norms``: pairs of a module and what its running variance is multiplied with
    to get the specification's."""

    def __init__(self, model, channels_last):
        self.model = model
        self.channels_last = channels_last
        self.slots = []
        self.batch_norms = []
        self._graph = torch.fx.Graph()
        self._modules = {}
        self.consumers = {name: [] for name in [graph.INPUT] + [node.name for node in model.nodes]}
        for node in model.nodes:
            for name in node.inputs:
                self.consumers[name].append(node)
        self._ops = {node.name: node.op for node in model.nodes}
        self.channels_first = len(model.input_shape) == 3 and any(
            node.op != "flatten" for node in self.consumers[graph.INPUT])
        self.values = {}
        known = {graph.INPUT: Value(self._graph.placeholder("x"))}
        for node in model.nodes:
            known[node.name] = _LAYERS[node.op](self, node, [known[name] for name in node.inputs])
            self.values[node.name] = known[node.name]
        self._graph.output(self.values[model.nodes[-1].name].fx)
        self.module = torch.fx.GraphModule(self._modules, self._graph)

    def load(self, weights):
        """Copies {layer: {parameter: array}} into the module."""
        with torch.no_grad():
            for slot in self.slots:
                array = np.ascontiguousarray(slot.encode(weights[slot.layer][slot.name]), dtype=np.float32)
                slot.tensor.copy_(torch.from_numpy(array.copy()))

    def weights(self):
        """All parameters and state as {layer: {parameter: float32 array}}."""
        return self._collect(lambda slot: slot.tensor)

    def gradients(self):
        """The same for the parameters' gradients."""
        return self._collect(lambda slot: slot.tensor.grad)

    def _collect(self, tensor_of):
        found = {}
        for slot in self.slots:
            tensor = tensor_of(slot)
            if tensor is not None:
                array = slot.decode(tensor.detach().cpu().numpy())
                found.setdefault(slot.layer, {})[slot.name] = np.array(array, dtype=np.float32, order="C")
        return found

    def call(self, function, *args):
        """Adds a function call and returns its fx node."""
        return self._graph.call_function(function, args)

    def method(self, name, *args):
        """Adds a method call on ``args[0]`` and returns its fx node."""
        return self._graph.call_method(name, args)

    def module_call(self, module, *args):
        """Adds ``module`` and a call of it; returns the fx node."""
        name = "m{}".format(len(self._modules))
        self._modules[name] = module
        return self._graph.call_module(name, args)

    def only_use(self, name):
        """The op that made ``name`` if one node alone takes it, else None."""
        return self._ops.get(name) if len(self.consumers[name]) == 1 else None


def to_channels_last(array):
    """(batch, channels, height, width) -> (batch, height, width, channels)."""
    return array.transpose(0, 2, 3, 1)


def _output(node, fx, like=None):
    """The Value of ``fx``: a picture has its channels first, and ``like`` hands on its order of elements."""
    if like is not None:
        return Value(fx, like.decode, like.pixels)
    return Value(fx, to_channels_last if len(node.shape) == 3 else np.asarray)


def _dense(net, node, inputs):
    source = inputs[0]
    module = nn.Linear(node.input_shapes[0][-1], node.fields.units, bias=node.fields.use_bias)
    encode, decode = np.transpose, np.transpose
    if source.pixels is not None:
        encode, decode = flattening.kernel_codec(source.pixels)
    net.slots.append(Slot(node.name, "kernel", module, "weight", encode, decode))
    if node.fields.use_bias:
        net.slots.append(Slot(node.name, "bias", module, "bias"))
    return _output(node, net.module_call(module, source.fx))


def _conv2d(net, node, inputs):
    fields, source = node.fields, inputs[0].fx
    window = windows.of(node, fields.kernel_height, fields.kernel_width)
    if window.explicit is not None:
        source = net.module_call(nn.ConstantPad2d(window.explicit, 0.0), source)
    module = nn.Conv2d(node.input_shapes[0][2], fields.filters, window.size, window.stride, window.implicit,
                       bias=fields.use_bias)
    net.slots.append(Slot(node.name, "kernel", module, "weight", lambda kernel: kernel.transpose(3, 2, 0, 1),
                          lambda weight: weight.transpose(2, 3, 1, 0)))
    if fields.use_bias:
        net.slots.append(Slot(node.name, "bias", module, "bias"))
    return _output(node, net.module_call(module, source))


def _batch_norm(net, node, inputs):
    shape = node.input_shapes[0]
    count = net.model.workload.schedule.batch_size * graph.size(shape[:-1])
    if count < 2:
        raise Unsupported("layer batch_norm", "PyTorch trains it on at least two values of each channel")
    options = {"eps": node.fields.epsilon, "momentum": 1.0 - node.fields.momentum}
    module = (nn.BatchNorm2d if len(shape) == 3 else nn.BatchNorm1d)(shape[-1], **options)
    net.slots += [Slot(node.name, "scale", module, "weight"), Slot(node.name, "offset", module, "bias"),
                  Slot(node.name, "mean", module, "running_mean"), _running_variance(node, module, count)]
    # The module averages unbiased variances. Its average is linear in them, and every batch has the same size, so
    # it is the specification's average of biased ones times this constant, from a start times the same constant.
    net.batch_norms.append((module, (count - 1.0) / count))
    fx = inputs[0].fx
    if len(shape) != 2:
        return _output(node, net.module_call(module, fx))
    rows = net.module_call(module, net.call(torch.flatten, fx, 0, 1))
    return _output(node, net.method("view", rows, -1, shape[0], shape[1]))


def _running_variance(node, module, count):
    unbiased = count / (count - 1.0)
    return Slot(node.name, "variance", module, "running_var", lambda biased: biased * unbiased,
                lambda stored: stored / unbiased)


def _relu(net, node, inputs):
    in_place = net.only_use(node.inputs[0]) in _OVERWRITABLE
    return _output(node, net.call(torch.relu_ if in_place else torch.relu, inputs[0].fx), like=inputs[0])


def _sigmoid(net, node, inputs):
    return _output(node, net.call(torch.sigmoid, inputs[0].fx), like=inputs[0])


def _tanh(net, node, inputs):
    return _output(node, net.call(torch.tanh, inputs[0].fx), like=inputs[0])


def _dropout(net, node, inputs):
    if node.fields.rate == 0:
        return inputs[0]
    return _output(node, net.module_call(nn.Dropout(node.fields.rate), inputs[0].fx), like=inputs[0])


def _softmax(net, node, inputs):
    return _output(node, net.call(torch.softmax, inputs[0].fx, _last_axis(node.shape)))


def _last_axis(shape):
    """The axis, inside, of the last logical one."""
    return 1 if len(shape) == 3 else len(shape)


def _flatten(net, node, inputs):
    shape, fx = node.input_shapes[0], inputs[0].fx
    if len(shape) == 1:
        return inputs[0]
    if len(shape) == 2 or (node.inputs[0] == graph.INPUT and not net.channels_first):
        return Value(net.call(torch.flatten, fx, 1))
    if not net.channels_last and flattening.order_is_free(node, net.consumers):
        decode = functools.partial(flattening.decode_rows, pixels=shape)
        return Value(net.call(torch.flatten, fx, 1), decode, shape)
    return Value(net.call(torch.flatten, net.method("permute", fx, 0, 2, 3, 1), 1))


def _add(net, node, inputs):
    total = inputs[0].fx
    for value in inputs[1:]:
        total = net.call(operator.add, total, value.fx)
    return _output(node, total)


def _concat(net, node, inputs):
    return _output(node, net.call(torch.cat, [value.fx for value in inputs], _last_axis(node.shape)))


def _max_pool2d(net, node, inputs):
    fx, window = inputs[0].fx, windows.of(node, node.fields.size_height, node.fields.size_width, may_overhang=True)
    if window.explicit is not None:
        fx = net.module_call(nn.ConstantPad2d(window.explicit, -float("inf")), fx)
    module = nn.MaxPool2d(window.size, window.stride, window.implicit, ceil_mode=window.overhangs)
    return _output(node, net.module_call(module, fx))


def _avg_pool2d(net, node, inputs):
    fx, window = inputs[0].fx, windows.of(node, node.fields.size_height, node.fields.size_width, may_overhang=True)
    if window.explicit is not None:
        return _output(node, net.module_call(windows.PaddedAverage(window, node), fx))
    module = nn.AvgPool2d(window.size, window.stride, window.implicit, ceil_mode=window.overhangs,
                          count_include_pad=False)
    return _output(node, net.module_call(module, fx))


def _global_avg_pool1d(net, node, inputs):
    return _output(node, net.method("mean", inputs[0].fx, 1))


def _global_avg_pool2d(net, node, inputs):
    return _output(node, net.method("mean", inputs[0].fx, (2, 3)))


def _embedding(net, node, inputs):
    module = nn.Embedding(node.fields.vocabulary, node.fields.dim)
    net.slots.append(Slot(node.name, "table", module, "weight"))
    return _output(node, net.module_call(module, inputs[0].fx))


def _lstm(net, node, inputs, prefixes=("",)):
    fields = node.fields
    kind = recurrent.HardSigmoidLstm if recurrent.is_written_out(node) else recurrent.Lstm
    module = kind(node.input_shapes[0][1], fields.units, len(prefixes) == 2, fields.return_sequences)
    for prefix, (way, kernel, recurrent_kernel, bias) in zip(prefixes, module.weights()):
        net.slots += [Slot(node.name, prefix + "kernel", way, kernel, np.transpose, np.transpose),
                      Slot(node.name, prefix + "recurrent", way, recurrent_kernel, np.transpose, np.transpose),
                      Slot(node.name, prefix + "bias", way, bias)]
    return _output(node, net.module_call(module, inputs[0].fx))


def _bidirectional_lstm(net, node, inputs):
    return _lstm(net, node, inputs, ("forward_", "backward_"))


_LAYERS = {
    "dense": _dense, "conv2d": _conv2d, "batch_norm": _batch_norm, "relu": _relu, "sigmoid": _sigmoid,
    "tanh": _tanh, "softmax": _softmax, "flatten": _flatten, "add": _add, "concat": _concat,
    "max_pool2d": _max_pool2d, "avg_pool2d": _avg_pool2d, "global_avg_pool1d": _global_avg_pool1d,
    "global_avg_pool2d": _global_avg_pool2d, "dropout": _dropout, "embedding": _embedding, "lstm": _lstm,
    "bidirectional_lstm": _bidirectional_lstm,
}
LAYERS = tuple(_LAYERS)
