"""Keras on CNTK: settings, and the operations that Keras does otherwise than the specification says."""

import math

import cntk as C
import numpy as np
from keras import layers

from runners.core.adapter import Device, Unsupported
from runners.keras import windows

TITLE = "Keras on CNTK"
VERSIONS = {"cntk": C.__version__}
LAYOUTS = ("default", "nchw", "nhwc")
CHANNELS_FIRST = True
LSTM_IMPLEMENTATION = 1


def start(execution):
    """Sets the threads of this process; the device is always the CPU."""
    if execution.device != "cpu":
        raise LookupError("CNTK {} was built without CUDA".format(C.__version__))
    C.cntk_py.set_max_num_cputhreads(execution.threads)


def reset(seed):
    """Called before a model is built."""
    np.random.seed(seed)
    C.cntk_py.set_fixed_random_seed(seed % 2 ** 31)


def device(variables):
    """The ``Device`` that the variables lie on."""
    kinds = [C.cntk_py.Parameter.value(variable).device().type() for variable in variables]
    return Device("gpu" if any(kinds) else "cpu")


def facts():
    """{name: value} as CNTK says it."""
    return {"threads": C.cntk_py.get_max_num_cputhreads(), "default_device": C.use_default_device()}


# --- losses: Keras's binary one limits probabilities to [1e-7, 1 - 1e-7] ----------------------------------------

def sparse_categorical_crossentropy(labels, logits):
    one_hot = C.reshape(C.one_hot(labels, logits.shape[-1]), logits.shape)
    return C.reshape(C.cross_entropy_with_softmax(logits, one_hot), ())


def binary_crossentropy(labels, logits):
    return C.reshape(C.softplus(logits) - logits * labels, ())


# --- operations -------------------------------------------------------------------------------------------------

relu = C.relu


def conv2d(x, kernel, strides, padding, channels_first):
    rows, columns = kernel.shape[:2]
    x, automatic = _padded(_to_first(x, channels_first), (rows, columns), strides, padding, 0.0)
    y = C.convolution(C.transpose(kernel, (3, 2, 0, 1)), x, strides, auto_padding=[False, automatic, automatic])
    return _from_first(y, channels_first)


def max_pool2d(x, size, strides, padding, channels_first):
    # The largest finite number: with infinity, 0 times infinity is no number in a gradient.
    x, automatic = _padded(_to_first(x, channels_first), size, strides, padding, -float(np.finfo(np.float32).max))
    return _from_first(C.pooling(x, C.MAX_POOLING, size, strides, [automatic]), channels_first)


def avg_pool2d(x, size, strides, padding, channels_first):
    x = _to_first(x, channels_first)
    lengths = x.shape[1:]
    x, automatic = _padded(x, size, strides, padding, 0.0)
    y = C.pooling(x, C.AVG_POOLING, size, strides, [automatic])
    if not automatic and padding != windows.NONE:
        y = y * C.constant(windows.correction(lengths, size, strides, padding))
    return _from_first(y, channels_first)


def _padded(x, size, strides, padding, value):
    """(x, whether CNTK pads by itself): it does as the specification says at stride 1 with an odd window, which must
    not be larger than the picture."""
    if padding == windows.NONE:
        return x, False
    if tuple(strides) == (1, 1) and all(k % 2 and k <= length for k, length in zip(size, x.shape[1:])):
        return x, True
    return C.pad(x, [(0, 0)] + [tuple(pair) for pair in padding], constant_value=value), False


def batch_norm(layer, x, axis):
    """Training's output, by CNTK's own operation, which moves the running values itself: Keras's would read them
    off a second forward pass, made after the update and without dropout."""
    return _native(layer, x, axis, layer.gamma, layer.beta, layer.epsilon)


def normalise(layer, x, axis):
    """Evaluation's output. By the same operation: CNTK doesn't know that it has moved the running values, and so
    would not compute anew what depends on them alone. ``state_factor`` is taken out of the root."""
    factor, channels = state_factor(layer.count), layer.gamma.shape[0]
    scale = C.constant(np.full(channels, math.sqrt(factor), np.float32))
    y = _native(layer, x, axis, scale, C.constant(np.zeros(channels, np.float32)), layer.epsilon * factor)
    shape = [1] * len(x.shape)
    shape[axis - 1] = channels
    return y * C.reshape(layer.gamma, shape) + C.reshape(layer.beta, shape)


def _native(layer, x, axis, scale, offset, epsilon):
    axes = tuple(range(len(x.shape)))
    last_to_first = axis == len(axes) > 1
    if last_to_first:
        x = C.transpose(x, axes[-1:] + axes[:-1])
    y = C.batch_normalization(
        x, scale, offset, layer.moving_mean, layer.moving_variance, spatial=len(axes) > 1,
        normalization_time_constant=_time_constant(layer.momentum, layer.batch_size), epsilon=epsilon,
        use_cudnn_engine=False, running_count=C.constant(1))
    return C.transpose(y, axes[1:] + axes[:1]) if last_to_first else y


class LstmCell(layers.LSTMCell):
    """Keras's cell with its two states exchanged. Keras 2.2.4 takes a loop's last state for its output: of an LSTM
    that is not the output h but the memory c."""

    def call(self, inputs, states, training=None):
        exchanged = [states[1], states[0]] + list(states[2:])
        output, (hidden, memory) = super(LstmCell, self).call(inputs, exchanged, training)
        return output, [memory, hidden]


def _time_constant(momentum, batch_size):
    """CNTK's momentum is exp(-batch_size / time constant)."""
    if momentum == 1:
        return math.inf
    return -batch_size / math.log(momentum) if momentum else 0.0


def state_factor(count):
    """What the stored running variance is divided by to be the specification's: CNTK averages the unbiased
    variance of ``count`` values, and an average can be scaled as a whole, its first value too."""
    if count < 2:
        raise Unsupported("layer batch_norm", "CNTK divides the variance by one less than the number of values, 1")
    return count / (count - 1.0)


def _to_first(x, channels_first):
    return x if channels_first else C.transpose(x, (2, 0, 1))


def _from_first(x, channels_first):
    return x if channels_first else C.transpose(x, (1, 2, 0))


def dense(gradient):
    """A gradient as a tensor, which it is."""
    return gradient


def evaluation(samples, output):
    """A function from samples (array) to ``output`` (array). Keras's own would run a forward pass of training."""
    return lambda x: output.eval({samples: np.asarray(x, np.float32)})


# --- the certificate --------------------------------------------------------------------------------------------

def gradients(model, weights, batch):
    """Gradients of the loss for ``batch`` (what a training function takes), as arrays."""
    inputs = model._feed_inputs + model._feed_targets + model._feed_sample_weights
    values = {tensor: np.asarray(value, np.float32) for tensor, value in zip(inputs, batch)
              if tensor in model.total_loss.arguments}
    found = model.total_loss.grad(values, wrt=weights)
    return [found[weight] for weight in weights] if len(weights) > 1 else [found]
