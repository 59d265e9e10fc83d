"""The meaning of a workload message: what every layer's shapes and parameters are, and what is refused.

Written once and read on both sides of the wire: the controller refuses a bad workload before anything starts,
the runner refuses it from anybody else. Python 3.6 syntax; standard library and protobuf only.
The rules are those in the comments of ``v1/workload.proto``.
"""

import hashlib
import math
import re
from collections import OrderedDict

from trainyard.v1 import workload_pb2

INPUT = "input"
LOSSES = ("sparse_categorical_crossentropy", "binary_crossentropy")
LAYERS = tuple(f.name for f in workload_pb2.Layer.DESCRIPTOR.oneofs_by_name["op"].fields)
OPTIMIZERS = tuple(f.name for f in workload_pb2.Optimizer.DESCRIPTOR.oneofs_by_name["kind"].fields)
DATASETS = tuple(f.name for f in workload_pb2.Dataset.DESCRIPTOR.oneofs_by_name["kind"].fields)
NIETZSCHE_CHARACTERS = 57

# No real model comes near these; they keep a hostile or mistyped request from exhausting a host.
MAX_LAYERS = 5000
MAX_ELEMENTS = 2 ** 31 - 1
MAX_SEED = 2 ** 32 - 1
MAX_STEPS = 10 ** 8  # the time of every step is kept: 32 bytes while it runs, 4 in the result
MAX_INPUTS = 64

_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,200}\Z")
_PICTURE, _SEQUENCE = 3, 2


class WorkloadError(ValueError):
    """A workload that contradicts the specification. ``field`` is where, such as ``layer c1``."""

    def __init__(self, field, message):
        super(WorkloadError, self).__init__("{}: {}".format(field, message))
        self.field = field


class Node(object):
    """One layer, checked: ``name``, ``op``, ``fields`` (its own message), ``inputs`` (names),
    ``input_shapes`` and ``shape`` (tuples, without the batch axis), ``integer`` (True: int32 output),
    ``parameters`` (trained) and ``state`` (not trained): name -> shape, in the order of the specification."""

    def __init__(self, name, op, fields, inputs, input_shapes):
        self.name = name
        self.op = op
        self.fields = fields
        self.inputs = inputs
        self.input_shapes = input_shapes
        self.shape = None
        self.parameters = OrderedDict()
        self.state = OrderedDict()


class Model(object):
    """A checked workload: ``workload`` (the message), ``nodes`` in topological order, ``input_shape``,
    ``input_is_integer``, ``classes`` (1 for binary cross-entropy), ``parameter_count`` (trained values)."""

    def __init__(self, workload, nodes, input_shape, input_is_integer):
        self.workload = workload
        self.nodes = nodes
        self.input_shape = input_shape
        self.input_is_integer = input_is_integer
        self.classes = nodes[-1].shape[0]
        self.parameter_count = sum(size(shape) for node in nodes for shape in node.parameters.values())


def digest(serialized):
    """SHA-256, in hexadecimal, of a serialized Workload (bytes)."""
    return hashlib.sha256(serialized).hexdigest()


def size(shape):
    """Number of elements of ``shape``."""
    count = 1
    for length in shape:
        count *= length
    return count


def parse(workload):
    """Checks a Workload message and returns its ``Model``. Raises WorkloadError."""
    if not re.match(r"[a-z0-9][a-z0-9\-]{0,99}\Z", workload.name):
        raise WorkloadError("name", "{!r} is not made of lower case letters, digits and dashes".format(workload.name))
    if not 0 <= workload.seed <= MAX_SEED:
        raise WorkloadError("seed", "{} is not between 0 and {}".format(workload.seed, MAX_SEED))
    shape, is_integer = input_shape(workload.dataset)
    nodes = _nodes(workload.layers, shape, is_integer)
    _check_loss(workload.loss, nodes[-1])
    _check_optimizer(workload.optimizer)
    _check_schedule(workload.schedule)
    return Model(workload, nodes, shape, is_integer)


def input_shape(dataset):
    """Shape of one sample of a Dataset message and whether it is int32 tokens. Raises WorkloadError."""
    kind = dataset.WhichOneof("kind")
    if kind is None:
        raise WorkloadError("dataset", "is missing: one of {}".format(", ".join(DATASETS)))
    options = getattr(dataset, kind)
    if kind == "mnist":
        return (28, 28, 1), False
    if kind == "cifar10":
        if options.augment not in ("none", "shift-flip"):
            raise WorkloadError("dataset.augment", "{!r} is not 'none' or 'shift-flip'".format(options.augment))
        return (32, 32, 3), False
    if kind == "imdb":
        _within("dataset.vocabulary", options.vocabulary, 4, 10 ** 8)
        _within("dataset.maxlen", options.maxlen, 1, 100000)
        return (options.maxlen,), True
    if kind == "nietzsche":
        _within("dataset.maxlen", options.maxlen, 1, 100000)
        _within("dataset.step", options.step, 1, 100000)
        return (options.maxlen, NIETZSCHE_CHARACTERS), False
    return _synthetic_shape(options)


def _synthetic_shape(options):
    shape = tuple(options.shape)
    if not 1 <= len(shape) <= 3:
        raise WorkloadError("dataset.shape", "{} must have 1, 2 or 3 axes".format(list(shape)))
    for length in shape:
        _within("dataset.shape", length, 1, 10 ** 7)
    _within("dataset.shape", size(shape), 1, MAX_ELEMENTS)
    _within("dataset.classes", options.classes, 2, 10 ** 6)
    _within("dataset.samples", options.samples, 1, 10 ** 9)
    _within("dataset.test_samples", options.test_samples, 1, 10 ** 9)
    _within("dataset.vocabulary", options.vocabulary, 0, 10 ** 8)
    _within("dataset.shape x samples", size(shape) * options.samples, 1, 2 ** 36)
    _within("dataset.shape x test_samples", size(shape) * options.test_samples, 1, 2 ** 36)
    return shape, options.vocabulary > 0


def steps_per_epoch(sample_count, batch_size):
    """Full batches in ``sample_count`` samples. Raises WorkloadError if there is none."""
    if sample_count < batch_size:
        raise WorkloadError("schedule.batch_size", "{} is more than the {} training samples".format(
            batch_size, sample_count))
    return sample_count // batch_size


def step_counts(schedule, sample_count):
    """(warm-up steps, measured steps, number of the first measured epoch) for so many training samples. Raises
    WorkloadError for more steps than can be kept."""
    per_epoch = steps_per_epoch(sample_count, schedule.batch_size)
    if schedule.WhichOneof("warmup") == "warmup_steps":
        warmup = schedule.warmup_steps
    else:
        warmup = schedule.warmup_epochs * per_epoch
    measured = schedule.steps if schedule.WhichOneof("measured") == "steps" else schedule.epochs * per_epoch
    for part, count in (("warmup", warmup), ("measured", measured)):
        _within("schedule." + schedule.WhichOneof(part) + " in steps", count, 1, MAX_STEPS)
    return warmup, measured, -(-warmup // per_epoch)


def without_dropout(workload):
    """A copy of a Workload message whose dropout layers are the identity."""
    copy = workload_pb2.Workload()
    copy.CopyFrom(workload)
    for layer in copy.layers:
        if layer.WhichOneof("op") == "dropout":
            layer.dropout.rate = 0.0
    return copy


def same_padding(length, window, stride):
    """(before, after) padding of one axis under PADDING_SAME."""
    total = max((-(-length // stride) - 1) * stride + window - length, 0)
    return total // 2, total - total // 2


# --- the graph ---------------------------------------------------------------------------------------------

def _nodes(layers, first_shape, is_integer):
    if not layers:
        raise WorkloadError("layer", "a workload needs at least one layer")
    _within("layer count", len(layers), 1, MAX_LAYERS)
    shapes, nodes, used = {INPUT: first_shape}, [], set()
    for number, layer in enumerate(layers, 1):
        node = _node(layer, number, shapes)
        where = "layer " + node.name
        if is_integer and INPUT in node.inputs and node.op != "embedding":
            raise WorkloadError(where, "{} cannot take word numbers; start with an embedding".format(node.op))
        if node.op == "embedding" and not (is_integer and node.inputs == (INPUT,)):
            raise WorkloadError(where, "embedding takes the word numbers of the input, nothing else")
        node.shape = _SHAPES[node.op](node)
        _within(where + ": size of its output", size(node.shape), 1, MAX_ELEMENTS)
        for parameter, shape in node.parameters.items():
            _within("{}: size of {}".format(where, parameter), size(shape), 1, MAX_ELEMENTS)
        shapes[node.name] = node.shape
        used.update(node.inputs)
        nodes.append(node)
    unused = [node.name for node in nodes[:-1] if node.name not in used]
    if unused:
        raise WorkloadError("layer " + unused[0], "its output is used by no other layer")
    return nodes


def _node(layer, number, shapes):
    where = "layer {} (number {})".format(layer.name, number) if layer.name else "layer number {}".format(number)
    op = layer.WhichOneof("op")
    if op is None:
        raise WorkloadError(where, "has no op; known are {}".format(", ".join(LAYERS)))
    if not _NAME.match(layer.name):
        raise WorkloadError(where, "{!r} is not a name (letters, digits, '_', '-', '.')".format(layer.name))
    if layer.name in shapes:
        raise WorkloadError(where, "the name is taken already")
    inputs = tuple(layer.inputs)
    _check_arity(where, op, inputs)
    for name in inputs:
        if name not in shapes:
            raise WorkloadError(where, "its input {!r} is no earlier layer".format(name))
    return Node(layer.name, op, getattr(layer, op), inputs, tuple(shapes[name] for name in inputs))


def _check_arity(where, op, inputs):
    if op in ("add", "concat"):
        if not 2 <= len(inputs) <= MAX_INPUTS:
            raise WorkloadError(where, "{} needs 2 to {} inputs, not {}".format(op, MAX_INPUTS, len(inputs)))
    elif len(inputs) != 1:
        raise WorkloadError(where, "{} needs one input, not {}".format(op, len(inputs)))


def _within(field, value, low, high):
    if not low <= value <= high:
        raise WorkloadError(field, "{} is not between {} and {}".format(value, low, high))


def _finite(field, value, low, high=float("inf"), low_is_allowed=True):
    if not math.isfinite(value):
        raise WorkloadError(field, "{} is not a finite number".format(value))
    good = value <= high and (value >= low if low_is_allowed else value > low)
    if not good:
        raise WorkloadError(field, "{} is not {} {}".format(
            value, "at least" if low_is_allowed else "more than", low)
            + ("" if high == float("inf") else " and at most {}".format(high)))


def _axes(node, *allowed):
    shape = node.input_shapes[0]
    if len(shape) not in allowed:
        kinds = {1: "(features)", 2: "(time, features)", 3: "(height, width, channels)"}
        raise WorkloadError("layer " + node.name, "{} needs an input of shape {}, but {} gives {}".format(
            node.op, " or ".join(kinds[n] for n in allowed), node.inputs[0], shape))
    return shape


def _count(node, field):
    value = getattr(node.fields, field)
    _within("layer {}.{}".format(node.name, field), value, 1, MAX_ELEMENTS)
    return value


def _present(node, field):
    if not node.fields.HasField(field):
        raise WorkloadError("layer {}.{}".format(node.name, field), "is missing")
    return getattr(node.fields, field)


def _window(node, length, window, stride):
    if node.fields.padding == workload_pb2.PADDING_SAME:
        return -(-length // stride)
    if node.fields.padding != workload_pb2.PADDING_VALID:
        raise WorkloadError("layer {}.padding".format(node.name), "must be 'valid' or 'same'")
    if window > length:
        raise WorkloadError("layer " + node.name, "a window of {} does not fit an input of shape {}".format(
            window, node.input_shapes[0]))
    return (length - window) // stride + 1


def _plane(node, prefix):
    """Height and width of the output of a windowed layer."""
    height, width, _ = node.input_shapes[0]
    return (_window(node, height, _count(node, prefix + "_height"), _count(node, "stride_height")),
            _window(node, width, _count(node, prefix + "_width"), _count(node, "stride_width")))


def _dense(node):
    shape, units = _axes(node, 1, _SEQUENCE), _count(node, "units")
    node.parameters["kernel"] = (shape[-1], units)
    if _present(node, "use_bias"):
        node.parameters["bias"] = (units,)
    return shape[:-1] + (units,)


def _conv2d(node):
    channels, filters = _axes(node, _PICTURE)[2], _count(node, "filters")
    plane = _plane(node, "kernel")
    node.parameters["kernel"] = (node.fields.kernel_height, node.fields.kernel_width, channels, filters)
    if _present(node, "use_bias"):
        node.parameters["bias"] = (filters,)
    return plane + (filters,)


def _batch_norm(node):
    shape, where = _axes(node, 1, _SEQUENCE, _PICTURE), "layer " + node.name
    _finite(where + ".epsilon", node.fields.epsilon, 0, low_is_allowed=False)
    _finite(where + ".momentum", _present(node, "momentum"), 0, 1)
    node.parameters["scale"] = node.parameters["offset"] = (shape[-1],)
    node.state["mean"] = node.state["variance"] = (shape[-1],)
    return shape


def _unchanged(node):
    return node.input_shapes[0]


def _dropout(node):
    _finite("layer {}.rate".format(node.name), _present(node, "rate"), 0)
    if node.fields.rate >= 1:
        raise WorkloadError("layer {}.rate".format(node.name), "{} is not below 1".format(node.fields.rate))
    return node.input_shapes[0]


def _flatten(node):
    return (size(node.input_shapes[0]),)


def _add(node):
    for name, shape in zip(node.inputs, node.input_shapes):
        if shape != node.input_shapes[0]:
            raise WorkloadError("layer " + node.name, "adds {} of shape {} to {} of shape {}".format(
                node.inputs[0], node.input_shapes[0], name, shape))
    return node.input_shapes[0]


def _concat(node):
    for name, shape in zip(node.inputs, node.input_shapes):
        if shape[:-1] != node.input_shapes[0][:-1]:
            raise WorkloadError("layer " + node.name, "joins {} of shape {} to {} of shape {}".format(
                node.inputs[0], node.input_shapes[0], name, shape))
    return node.input_shapes[0][:-1] + (sum(shape[-1] for shape in node.input_shapes),)


def _pool(node):
    channels = _axes(node, _PICTURE)[2]
    return _plane(node, "size") + (channels,)


def _global_avg_pool1d(node):
    return _axes(node, _SEQUENCE)[1:]


def _global_avg_pool2d(node):
    return _axes(node, _PICTURE)[2:]


def _embedding(node):
    shape = _axes(node, 1)
    node.parameters["table"] = (_count(node, "vocabulary"), _count(node, "dim"))
    return (shape[0], node.fields.dim)


def _lstm(node, prefixes=("",)):
    time, features = _axes(node, _SEQUENCE)
    units = _count(node, "units")
    if node.fields.recurrent_activation == workload_pb2.RECURRENT_ACTIVATION_UNSPECIFIED or (
            node.fields.recurrent_activation not in workload_pb2.RecurrentActivation.values()):
        raise WorkloadError("layer {}.recurrent_activation".format(node.name), "must be 'sigmoid' or 'hard_sigmoid'")
    for prefix in prefixes:
        node.parameters[prefix + "kernel"] = (features, 4 * units)
        node.parameters[prefix + "recurrent"] = (units, 4 * units)
        node.parameters[prefix + "bias"] = (4 * units,)
    width = len(prefixes) * units
    return (time, width) if node.fields.return_sequences else (width,)


def _bidirectional_lstm(node):
    return _lstm(node, ("forward_", "backward_"))


_SHAPES = {
    "dense": _dense, "conv2d": _conv2d, "batch_norm": _batch_norm, "relu": _unchanged, "sigmoid": _unchanged,
    "tanh": _unchanged, "softmax": _unchanged, "flatten": _flatten, "add": _add, "concat": _concat,
    "max_pool2d": _pool, "avg_pool2d": _pool, "global_avg_pool1d": _global_avg_pool1d,
    "global_avg_pool2d": _global_avg_pool2d, "dropout": _dropout, "embedding": _embedding, "lstm": _lstm,
    "bidirectional_lstm": _bidirectional_lstm,
}


# --- loss, optimizer, schedule -----------------------------------------------------------------------------

def _check_loss(loss, last):
    if loss not in LOSSES:
        raise WorkloadError("loss", "{!r} is not one of {}".format(loss, ", ".join(LOSSES)))
    if last.op == "softmax":
        raise WorkloadError("layer " + last.name, "the loss takes logits; leave the last softmax out")
    if len(last.shape) != 1:
        raise WorkloadError("layer " + last.name, "the model's output must have one axis, not {}".format(last.shape))
    if loss == "binary_crossentropy" and last.shape != (1,):
        raise WorkloadError("layer " + last.name, "binary_crossentropy needs an output of shape (1,), not {}".format(
            last.shape))
    if loss != "binary_crossentropy" and last.shape[0] < 2:
        raise WorkloadError("layer " + last.name, "{} needs at least 2 outputs".format(loss))


def _check_optimizer(optimizer):
    kind = optimizer.WhichOneof("kind")
    if kind is None:
        raise WorkloadError("optimizer", "is missing: one of {}".format(", ".join(OPTIMIZERS)))
    _finite("optimizer.learning_rate", optimizer.learning_rate, 0, low_is_allowed=False)
    _finite("optimizer.decay", optimizer.decay, 0)
    options = getattr(optimizer, kind)
    for field in options.DESCRIPTOR.fields:
        where, value = "optimizer." + field.name, getattr(options, field.name)
        if field.name == "epsilon":
            _finite(where, value, 0, low_is_allowed=False)
        elif field.name in ("momentum", "rho", "beta_1", "beta_2"):
            _finite(where, value, 0, 1)
            if value == 1:
                raise WorkloadError(where, "must be below 1")


def _check_schedule(schedule):
    _within("schedule.batch_size", schedule.batch_size, 1, 10 ** 7)
    for group, fields in (("warmup", "warmup_steps, warmup_epochs"), ("measured", "steps, epochs")):
        which = schedule.WhichOneof(group)
        if which is None:
            raise WorkloadError("schedule", "one of {} is needed".format(fields))
        _within("schedule." + which, getattr(schedule, which), 1, MAX_STEPS)
