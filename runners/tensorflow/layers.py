"""The layers of a workload in TensorFlow: their variables, and the forward pass.

Pictures are NHWC, or NCHW inside when ``channels_first``; every other tensor is in the logical layout.
"""

from collections import OrderedDict

import tensorflow as tf
from trainyard.v1 import workload_pb2

_NO_STATISTICS = ()
_TO_FIRST, _TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


class Network(object):
    """A model: ``variables`` {layer: {parameter: tf.Variable}}, ``trainable`` in graph order.

    Takes a ``trainyard.graph.Model``, the initial weights, and whether XLA compiles the training step; makes
    variables on the current ``tf.device``."""

    def __init__(self, model, initial, compiled, channels_first):
        self._nodes = model.nodes
        self._picture_input = len(model.input_shape) == 3
        self.channels_first = channels_first
        self._recurrent = {node.name: _RECURRENT[node.op](node, compiled)
                           for node in model.nodes if node.op in _RECURRENT}
        self.variables = {node.name: self._create(node, initial[node.name])
                          for node in model.nodes if node.parameters}
        self.trainable = [self.variables[node.name][name] for node in model.nodes for name in node.parameters]

    def outputs(self, x, training):
        """{layer: tensor} for a batch ``x`` in the logical layout. Call it while a function is traced."""
        values = {"input": tf.transpose(x, _TO_FIRST) if self.channels_first and self._picture_input else x}
        for node in self._nodes:
            inputs = [values[name] for name in node.inputs]
            values[node.name] = _FORWARD[node.op](self, node, inputs, training)
        del values["input"]
        return values

    def logits(self, x, training):
        """Output of the last layer."""
        return self.outputs(x, training)[self._nodes[-1].name]

    def logical(self, value):
        """A layer's output tensor in the logical layout."""
        return tf.transpose(value, _TO_LAST) if self.channels_first and value.shape.rank == 4 else value

    def recurrent(self, node):
        """The Keras layer of an LSTM node."""
        return self._recurrent[node.name]

    def data_format(self):
        """As TensorFlow's operations on pictures take it."""
        return "NCHW" if self.channels_first else "NHWC"

    def channel_axis(self, rank):
        """The axis of channels of a tensor of so many axes."""
        return 1 if self.channels_first and rank == 4 else -1

    def _create(self, node, values):
        names = list(node.parameters) + list(node.state)
        if node.op not in _RECURRENT:
            return OrderedDict((name, tf.Variable(values[name], trainable=name in node.parameters, dtype=tf.float32))
                               for name in names)
        layer = self._recurrent[node.name]
        layer.build((None,) + node.input_shapes[0])
        variables = OrderedDict(zip(names, layer.trainable_weights))
        for name, variable in variables.items():
            variable.assign(values[name])
        return variables


# --- recurrent layers: Keras's own -----------------------------------------------------------------------------

def _lstm_layer(node, compiled):
    """``keras.layers.LSTM`` takes cuDNN's kernel on a GPU where that computes the same. XLA would compile the
    step that holds it anew at every call (2.6.0, seen in the log of its compilation cache), and cannot use cuDNN's
    kernel anyway; a cell in ``keras.layers.RNN`` compiles once."""
    hard = node.fields.recurrent_activation == workload_pb2.RECURRENT_ACTIVATION_HARD_SIGMOID
    options = {"activation": "tanh", "recurrent_activation": "hard_sigmoid" if hard else "sigmoid", "use_bias": True,
               "kernel_initializer": "zeros", "recurrent_initializer": "zeros"}
    if compiled:
        cell = tf.keras.layers.LSTMCell(node.fields.units, **options)
        return tf.keras.layers.RNN(cell, return_sequences=node.fields.return_sequences)
    return tf.keras.layers.LSTM(node.fields.units, return_sequences=node.fields.return_sequences, **options)


def _bidirectional_layer(node, compiled):
    return tf.keras.layers.Bidirectional(_lstm_layer(node, compiled), merge_mode="concat")


_RECURRENT = {"lstm": _lstm_layer, "bidirectional_lstm": _bidirectional_layer}


# --- forward: each takes (network, node, inputs, training) and returns the output ------------------------------

def _dense(network, node, inputs, training):
    variables, x = network.variables[node.name], inputs[0]
    rows = tf.reshape(x, (-1, x.shape[-1])) if x.shape.rank > 2 else x
    y = tf.matmul(rows, variables["kernel"])
    if "bias" in variables:
        y = tf.nn.bias_add(y, variables["bias"])
    return tf.reshape(y, (-1,) + node.shape) if x.shape.rank > 2 else y


def _conv2d(network, node, inputs, training):
    fields, variables = node.fields, network.variables[node.name]
    y = tf.nn.conv2d(inputs[0], variables["kernel"], (fields.stride_height, fields.stride_width),
                     _padding(fields), network.data_format())
    if "bias" in variables:
        y = tf.nn.bias_add(y, variables["bias"], network.data_format())
    return y


def _batch_norm(network, node, inputs, training):
    x, variables = inputs[0], network.variables[node.name]
    fused = x.shape.rank == 4
    if not training:
        return _normalise(network, node, x, fused)
    if fused:
        y, mean, variance = _fused(network, node, x, _NO_STATISTICS, _NO_STATISTICS, True)
        # The kernel hands out the unbiased variance; the specification's running variance is of the biased one.
        count = tf.cast(tf.size(x) // node.shape[-1], tf.float32)
        variance = variance * ((count - 1.0) / count)
    else:
        mean, variance = tf.nn.moments(x, list(range(x.shape.rank - 1)))
        y = tf.nn.batch_normalization(x, mean, variance, variables["offset"], variables["scale"],
                                      node.fields.epsilon)
    _move(variables["mean"], mean, node.fields.momentum)
    _move(variables["variance"], variance, node.fields.momentum)
    return y


def _normalise(network, node, x, fused):
    variables = network.variables[node.name]
    if fused:
        return _fused(network, node, x, variables["mean"], variables["variance"], False)[0]
    return tf.nn.batch_normalization(x, variables["mean"], variables["variance"], variables["offset"],
                                     variables["scale"], node.fields.epsilon)


def _fused(network, node, x, mean, variance, training):
    """The kernel itself: ``tf.nn``'s wrapper raises an epsilon below 1.001e-5 in silence."""
    variables = network.variables[node.name]
    return tf.raw_ops.FusedBatchNormV3(
        x=x, scale=variables["scale"], offset=variables["offset"],
        mean=tf.convert_to_tensor(mean, tf.float32), variance=tf.convert_to_tensor(variance, tf.float32),
        epsilon=node.fields.epsilon, exponential_avg_factor=1.0, data_format=network.data_format(),
        is_training=training)[:3]


def _move(running, batch, momentum):
    running.assign_sub((running - batch) * (1.0 - momentum))


def _max_pool2d(network, node, inputs, training):
    return tf.nn.max_pool2d(inputs[0], *_window(network, node))


def _avg_pool2d(network, node, inputs, training):
    return tf.nn.avg_pool2d(inputs[0], *_window(network, node))


def _window(network, node):
    fields = node.fields
    return ((fields.size_height, fields.size_width), (fields.stride_height, fields.stride_width),
            _padding(fields), network.data_format())


def _padding(fields):
    """TensorFlow's SAME is the specification's rule: the odd pixel goes to the bottom and right."""
    return "SAME" if fields.padding == workload_pb2.PADDING_SAME else "VALID"


def _global_avg_pool1d(network, node, inputs, training):
    return tf.reduce_mean(inputs[0], 1)


def _global_avg_pool2d(network, node, inputs, training):
    return tf.reduce_mean(inputs[0], (2, 3) if network.channels_first else (1, 2))


def _flatten(network, node, inputs, training):
    return tf.reshape(network.logical(inputs[0]), (-1,) + node.shape)


def _add(network, node, inputs, training):
    return inputs[0] + inputs[1] if len(inputs) == 2 else tf.add_n(inputs)


def _concat(network, node, inputs, training):
    return tf.concat(inputs, network.channel_axis(inputs[0].shape.rank))


def _relu(network, node, inputs, training):
    return tf.nn.relu(inputs[0])


def _sigmoid(network, node, inputs, training):
    return tf.sigmoid(inputs[0])


def _tanh(network, node, inputs, training):
    return tf.tanh(inputs[0])


def _softmax(network, node, inputs, training):
    return tf.nn.softmax(inputs[0], network.channel_axis(inputs[0].shape.rank))


def _dropout(network, node, inputs, training):
    rate = node.fields.rate
    return tf.nn.dropout(inputs[0], rate) if training and rate > 0 else inputs[0]


def _embedding(network, node, inputs, training):
    return tf.nn.embedding_lookup(network.variables[node.name]["table"], inputs[0])


def _recurrent(network, node, inputs, training):
    return network.recurrent(node)(inputs[0], training=training)


_FORWARD = {
    "dense": _dense, "conv2d": _conv2d, "batch_norm": _batch_norm, "relu": _relu, "sigmoid": _sigmoid,
    "tanh": _tanh, "softmax": _softmax, "flatten": _flatten, "add": _add, "concat": _concat,
    "max_pool2d": _max_pool2d, "avg_pool2d": _avg_pool2d, "global_avg_pool1d": _global_avg_pool1d,
    "global_avg_pool2d": _global_avg_pool2d, "dropout": _dropout, "embedding": _embedding, "lstm": _recurrent,
    "bidirectional_lstm": _recurrent,
}
LAYERS = tuple(_FORWARD)
