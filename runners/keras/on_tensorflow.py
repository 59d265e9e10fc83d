"""Keras on TensorFlow 1: settings, and the operations that Keras does otherwise than the specification says."""

import numpy as np
import tensorflow as tf
from keras import backend as K
from keras import layers

from runners.core.adapter import Device

tf.get_logger().setLevel("ERROR")

TITLE = "Keras on TensorFlow"
VERSIONS = {"tensorflow": tf.__version__}
LAYOUTS = ("default", "nhwc")
CHANNELS_FIRST = False
LSTM_IMPLEMENTATION = 2
LstmCell = layers.LSTMCell

_settings = {}


def start(execution):
    """Sets the threads of the sessions to come; the device is always the CPU."""
    if execution.device != "cpu":
        raise LookupError("this build of TensorFlow {} has no CUDA".format(tf.__version__))
    # Others may be overwritten in place while a gradient still reads them.
    tf.enable_resource_variables()
    _settings["config"] = tf.ConfigProto(
        intra_op_parallelism_threads=execution.threads, inter_op_parallelism_threads=execution.threads,
        device_count={"GPU": 0}, allow_soft_placement=False)


def reset(seed):
    """Called before a model is built."""
    K.clear_session()
    K.set_session(tf.Session(config=_settings["config"]))
    tf.set_random_seed(seed % 2 ** 31)
    np.random.seed(seed)


def device(variables):
    """The ``Device`` that the variables lie on: the session has no other kind."""
    kinds = set(found.device_type for found in K.get_session().list_devices())
    return Device("gpu" if "GPU" in kinds else "cpu")


def facts():
    """{name: value} as TensorFlow says it."""
    config = K.get_session()._config
    return {"threads": config.intra_op_parallelism_threads, "inter_op_threads": config.inter_op_parallelism_threads}


# --- losses -----------------------------------------------------------------------------------------------------

def sparse_categorical_crossentropy(labels, logits):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.cast(labels[:, 0], tf.int32), logits=logits)


def binary_crossentropy(labels, logits):
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels[:, 0], logits=logits[:, 0])


# --- operations -------------------------------------------------------------------------------------------------

relu = tf.nn.relu


def conv2d(x, kernel, strides, padding, channels_first):
    return K.conv2d(x, kernel, strides, _name(padding), _format(channels_first))


def max_pool2d(x, size, strides, padding, channels_first):
    return K.pool2d(x, size, strides, _name(padding), _format(channels_first), "max")


def avg_pool2d(x, size, strides, padding, channels_first):
    return K.pool2d(x, size, strides, _name(padding), _format(channels_first), "avg")


def _name(padding):
    """TensorFlow's "same" is the specification's rule; where nothing is added the two names mean the same."""
    return "same" if any(sum(pair) for pair in padding) else "valid"


def _format(channels_first):
    return "channels_first" if channels_first else "channels_last"


def batch_norm(layer, x, axis):
    """Training's output; has the layer's running values moved."""
    rank = K.ndim(x)
    if rank == 4:
        # The operation itself: its wrapper raises an epsilon below 1.001e-5 in silence.
        y, mean, variance = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=layer.gamma, offset=layer.beta, mean=[], variance=[], epsilon=layer.epsilon,
            data_format="NCHW" if axis == 1 else "NHWC", is_training=True)[:3]
        variance *= (layer.count - 1.0) / layer.count
    else:
        mean, variance = tf.nn.moments(x, list(range(rank - 1)))
        y = tf.nn.batch_normalization(x, mean, variance, layer.beta, layer.gamma, layer.epsilon)
    layer.move(mean, variance, x)
    return y


def _spread(vector, rank, axis):
    """A vector of one value a channel, for arithmetic with a tensor of ``rank`` axes."""
    shape = [1] * rank
    shape[axis] = -1
    return tf.reshape(vector, shape)


def normalise(layer, x, axis):
    """Evaluation's output."""
    mean, variance, scale, offset = (_spread(vector, K.ndim(x), axis) for vector in (
        layer.moving_mean, layer.moving_variance, layer.gamma, layer.beta))
    return (x - mean) / K.sqrt(variance + layer.epsilon) * scale + offset


def state_factor(count):
    """What the stored running variance is divided by to be the specification's."""
    return 1.0


def dense(gradient):
    """A gradient as a tensor: that of an embedding's table comes as rows and their numbers."""
    return tf.convert_to_tensor(gradient)


def evaluation(samples, output):
    """A function from samples (array) to ``output`` (array)."""
    function = K.function([samples], [output])
    return lambda x: function([x])[0]


# --- the certificate --------------------------------------------------------------------------------------------

def gradients(model, weights, batch):
    """Gradients of the loss for ``batch`` (what a training function takes), as arrays."""
    found = [dense(gradient) for gradient in K.gradients(model.total_loss, weights)]
    return K.function(model._feed_inputs + model._feed_targets + model._feed_sample_weights, found)(batch)
