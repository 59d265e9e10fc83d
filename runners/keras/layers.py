"""The layers of a workload as Keras's own, two of them with a call of their own, and the network they make.

Pictures are NHWC, or NCHW inside with ``channels_first``; every other tensor is in the logical layout.
"""

from keras import backend as K
from keras import layers
from trainyard import graph
from trainyard.v1 import workload_pb2

from runners.keras import backends, windows

OPS = backends.load()
_PICTURES = ("conv2d", "batch_norm", "max_pool2d", "avg_pool2d", "global_avg_pool2d")


class Network(object):
    """The tensors and Keras layers of a ``trainyard.graph.Model``, with the ``initial`` weights.

    input       the placeholder of samples
    training, evaluation   {layer: tensor}
    layers      {layer: Keras layer}, of those that have one
    """

    def __init__(self, model, initial, channels_first):
        self._nodes = model.nodes
        self._batch_size = int(model.workload.schedule.batch_size)
        picture = len(model.input_shape) == 3
        # A picture that is flattened at once stays as it is.
        self.channels_first = channels_first and any(
            len(node.input_shapes[0]) == 3 and node.op in _PICTURES for node in model.nodes)
        self.transposed = picture and self.channels_first
        shape = tuple(model.input_shape)
        self.input = layers.Input(shape[2:] + shape[:2] if self.transposed else shape,
                                  dtype="int32" if model.input_is_integer else "float32")
        self.layers = {node.name: layer for node in model.nodes for layer in [_CREATE[node.op](node, self)] if layer}
        self.training = self._connect(True)
        self.evaluation = self._connect(False)
        K.batch_set_value([pair for node in model.nodes if node.parameters
                           for pair in self._initial(node, initial[node.name])])

    def variables(self, node):
        """{parameter: Keras variable} of a node, state included."""
        return dict(zip(list(node.parameters) + list(node.state), self.layers[node.name].weights))

    def stored(self, node, name, array):
        """A parameter as Keras's variable holds it; see ``state_factor``."""
        return array * _factor(node, self._batch_size) if name == "variance" else array

    def logical_value(self, node, name, array):
        """The opposite of ``stored``."""
        return array / _factor(node, self._batch_size) if name == "variance" else array

    def logical(self, array):
        """An output (batch, ...) in the logical layout."""
        return array.transpose(0, 2, 3, 1) if self.channels_first and array.ndim == 4 else array

    def axis(self, shape):
        """The axis of channels of a tensor whose logical shape is ``shape``; the batch's axis is counted."""
        return 1 if self.channels_first and len(shape) == 3 else len(shape)

    @property
    def data_format(self):
        return "channels_first" if self.channels_first else "channels_last"

    @property
    def batch_size(self):
        return self._batch_size

    def _initial(self, node, arrays):
        return [(variable, self.stored(node, name, arrays[name])) for name, variable in self.variables(node).items()]

    def _connect(self, training):
        tensors = {graph.INPUT: self.input}
        for node in self._nodes:
            inputs = [tensors[name] for name in node.inputs]
            layer = self.layers.get(node.name)
            options = {"training": training} if node.op in ("batch_norm", "dropout") else {}
            tensors[node.name] = inputs[0] if layer is None else layer(
                inputs if len(inputs) > 1 else inputs[0], **options)
        del tensors[graph.INPUT]
        return tensors


def _factor(node, batch_size):
    return OPS.state_factor(values_per_channel(node, batch_size))


def values_per_channel(node, batch_size):
    """How many numbers of a batch a mean of batch-norm is taken over."""
    return batch_size * graph.size(node.shape[:-1])


# --- layers with a call of their own ----------------------------------------------------------------------------

class Convolution(layers.Conv2D):
    """Keras's layer, padded exactly as the specification says. ``pads``: ((top, bottom), (left, right))."""

    def __init__(self, pads, **options):
        super(Convolution, self).__init__(**options)
        self._pads = pads

    def call(self, inputs):
        first = self.data_format == "channels_first"
        outputs = OPS.conv2d(inputs, self.kernel, self.strides, self._pads, first)
        return K.bias_add(outputs, self.bias, self.data_format) if self.use_bias else outputs


class MaxPooling(layers.MaxPooling2D):
    """Keras's layer, padded exactly as the specification says."""

    def __init__(self, pads, **options):
        super(MaxPooling, self).__init__(**options)
        self._pads = pads

    def _pooling_function(self, inputs, pool_size, strides, padding, data_format):
        return OPS.max_pool2d(inputs, pool_size, strides, self._pads, data_format == "channels_first")


class AveragePooling(layers.AveragePooling2D):
    """Keras's layer, padded exactly as the specification says."""

    def __init__(self, pads, **options):
        super(AveragePooling, self).__init__(**options)
        self._pads = pads

    def _pooling_function(self, inputs, pool_size, strides, padding, data_format):
        return OPS.avg_pool2d(inputs, pool_size, strides, self._pads, data_format == "channels_first")


class Lstm(layers.LSTM):
    """Keras's layer, with the cell that its backend needs."""

    def __init__(self, units, **options):
        super(Lstm, self).__init__(units, **options)
        self.cell = OPS.LstmCell.from_config(self.cell.get_config())


class BatchNorm(layers.BatchNormalization):
    """Keras's layer, whose running variance is of the biased variance. ``batch_size``: of training;
    ``count``: values that a mean is taken over."""

    def __init__(self, batch_size, count, **options):
        super(BatchNorm, self).__init__(**options)
        self.batch_size = batch_size
        self.count = count

    def call(self, inputs, training=None):
        return (OPS.batch_norm if training else OPS.normalise)(self, inputs, self.axis)

    def move(self, mean, variance, inputs):
        """Has the running values moved, in each training step, towards those of the batch ``inputs``."""
        kept, new = self.momentum, 1 - self.momentum
        self.add_update([K.update(self.moving_mean, self.moving_mean * kept + mean * new),
                         K.update(self.moving_variance, self.moving_variance * kept + variance * new)], inputs)


# --- one function an op: (node, network) -> Keras layer, or None for one that changes nothing -------------------

def _dense(node, network):
    return layers.Dense(node.fields.units, use_bias=node.fields.use_bias, kernel_initializer="zeros")


def _conv2d(node, network):
    fields = node.fields
    size = (fields.kernel_height, fields.kernel_width)
    return Convolution(
        windows.padding(node, size), filters=fields.filters, kernel_size=size, strides=windows.strides(fields),
        padding=windows.padding_name(fields), data_format=network.data_format, use_bias=fields.use_bias,
        kernel_initializer="zeros")


def _max_pool2d(node, network):
    return _pool(MaxPooling, node, network)


def _avg_pool2d(node, network):
    return _pool(AveragePooling, node, network)


def _pool(kind, node, network):
    size = (node.fields.size_height, node.fields.size_width)
    return kind(windows.padding(node, size), pool_size=size, strides=windows.strides(node.fields),
                padding=windows.padding_name(node.fields), data_format=network.data_format)


def _batch_norm(node, network):
    return BatchNorm(network.batch_size, values_per_channel(node, network.batch_size), axis=network.axis(node.shape),
                     momentum=node.fields.momentum, epsilon=node.fields.epsilon)


def _relu(node, network):
    return layers.Activation(OPS.relu)


def _sigmoid(node, network):
    return layers.Activation("sigmoid")


def _tanh(node, network):
    return layers.Activation("tanh")


def _softmax(node, network):
    axis = network.axis(node.shape)
    return layers.Softmax(-1 if axis == len(node.shape) else axis)


def _flatten(node, network):
    if len(node.input_shapes[0]) == 1:
        return None
    return layers.Flatten(network.data_format if len(node.input_shapes[0]) == 3 else "channels_last")


def _add(node, network):
    return layers.Add()


def _concat(node, network):
    return layers.Concatenate(network.axis(node.shape))


def _global_avg_pool1d(node, network):
    return layers.GlobalAveragePooling1D()


def _global_avg_pool2d(node, network):
    return layers.GlobalAveragePooling2D(network.data_format)


def _dropout(node, network):
    return layers.Dropout(node.fields.rate) if node.fields.rate else None


def _embedding(node, network):
    return layers.Embedding(node.fields.vocabulary, node.fields.dim, embeddings_initializer="zeros",
                            input_length=node.input_shapes[0][0])


def _lstm(node, network):
    hard = node.fields.recurrent_activation == workload_pb2.RECURRENT_ACTIVATION_HARD_SIGMOID
    return Lstm(
        node.fields.units, activation="tanh", recurrent_activation="hard_sigmoid" if hard else "sigmoid",
        return_sequences=node.fields.return_sequences, implementation=OPS.LSTM_IMPLEMENTATION, unit_forget_bias=False,
        kernel_initializer="zeros", recurrent_initializer="zeros")


def _bidirectional_lstm(node, network):
    return layers.Bidirectional(_lstm(node, network), merge_mode="concat")


_CREATE = {
    "dense": _dense, "conv2d": _conv2d, "batch_norm": _batch_norm, "relu": _relu, "sigmoid": _sigmoid,
    "tanh": _tanh, "softmax": _softmax, "flatten": _flatten, "add": _add, "concat": _concat,
    "max_pool2d": _max_pool2d, "avg_pool2d": _avg_pool2d, "global_avg_pool1d": _global_avg_pool1d,
    "global_avg_pool2d": _global_avg_pool2d, "dropout": _dropout, "embedding": _embedding, "lstm": _lstm,
    "bidirectional_lstm": _bidirectional_lstm,
}
LAYERS = tuple(_CREATE)
