"""Keras on Theano: settings, and the operations that Keras does otherwise than the specification says."""

import ctypes
import os
import resource
import sys

import numpy as np
import theano
import theano.tensor as T
from keras import backend as K
from keras import layers
from theano.tensor.nnet import bn
from theano.tensor.signal import pool

from runners.core.adapter import Device
from runners.keras import windows

TITLE = "Keras on Theano"
VERSIONS = {"Theano": theano.__version__}
LAYOUTS = ("default", "nchw", "nhwc")
CHANNELS_FIRST = True
LSTM_IMPLEMENTATION = 2
LstmCell = layers.LSTMCell

# Theano follows a graph by recursion, some frames a layer: Python's usual limit of 1,000 ends within ResNet-152. The
# frames need a C stack to match, which the main thread's may grow to.
FRAMES = 50000
STACK_BYTES = 256 * 2 ** 20


def start(execution):
    """Sets the threads of this process; the device is always the CPU."""
    if execution.device != "cpu":
        raise LookupError("Theano {} has no GPU here: it would need libgpuarray, which its wheel does not hold".format(
            theano.__version__))
    _allow_deep_graphs()
    for library in _loaded("openblas"):
        library.openblas_set_num_threads(ctypes.c_int(execution.threads))
    for library in _loaded("libgomp"):
        library.omp_set_num_threads(ctypes.c_int(execution.threads))


def _allow_deep_graphs():
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    stack = STACK_BYTES if most == resource.RLIM_INFINITY else min(STACK_BYTES, most)
    resource.setrlimit(resource.RLIMIT_STACK, (stack, most))
    sys.setrecursionlimit(min(FRAMES, stack // 2048))


def reset(seed):
    """Called before a model is built."""
    np.random.seed(seed)


def device(variables):
    """The ``Device`` that the variables lie on: Theano keeps it in host memory unless it is of a GPU array's type."""
    on_cpu = all(isinstance(variable, T.sharedvar.TensorSharedVariable) for variable in variables)
    return Device("cpu" if on_cpu else "gpu")


def facts():
    """{name: value} as Theano says it."""
    found = {"openmp": theano.config.openmp, "floatx": theano.config.floatX, "blas": theano.config.blas.ldflags}
    for library in _loaded("openblas"):
        found["blas_threads"] = library.openblas_get_num_threads()
    return found


def _loaded(name):
    """Libraries of this process whose file name has ``name`` in it."""
    with open("/proc/self/maps") as file:
        paths = set(line.split(None, 5)[5].strip() for line in file if "/" in line)
    return [ctypes.CDLL(path) for path in sorted(paths) if name in os.path.basename(path)]


# --- losses: Keras's own limit probabilities to [1e-7, 1 - 1e-7] ------------------------------------------------

def sparse_categorical_crossentropy(labels, logits):
    return T.nnet.crossentropy_softmax_1hot(logits, T.cast(labels[:, 0], "int32"))[0]


def binary_crossentropy(labels, logits):
    return T.nnet.softplus(logits[:, 0]) - logits[:, 0] * labels[:, 0]


# --- operations -------------------------------------------------------------------------------------------------

def relu(x):
    """Keras's own, 0.5 (x + |x|), has the gradient 0.5 at 0, where all of MNIST's border lies at first."""
    return T.switch(x > 0, x, 0)


def conv2d(x, kernel, strides, padding, channels_first):
    """Cross-correlation with exactly the padding that is given; Keras flips the kernel, and pads otherwise."""
    _, channels, height, width = K.int_shape(x) if channels_first else _first_shape(K.int_shape(x))
    rows, columns, _, filters = K.int_shape(kernel)
    y = T.nnet.conv2d(_to_first(x, channels_first), kernel.dimshuffle(3, 2, 0, 1), border_mode=padding,
                      subsample=strides, filter_flip=False, input_shape=(None, channels, height, width),
                      filter_shape=(filters, channels, rows, columns))
    return _from_first(y, channels_first)


def max_pool2d(x, size, strides, padding, channels_first):
    x = _padded(_to_first(x, channels_first), padding, -np.inf)
    return _from_first(MaxPool(tuple(size), tuple(strides))(x, size, strides), channels_first)


class MaxPool(pool.Pool):
    """Theano's operation with another gradient: of several equal values in a window the first one has it, as in
    other frameworks, where Theano's own gives it to each of them: on a picture's plain ground, four times over."""

    __props__ = pool.Pool.__props__ + ("size", "strides")

    def __init__(self, size, strides):
        super(MaxPool, self).__init__(ignore_border=True, mode="max", ndim=2)
        self.size = size
        self.strides = strides

    def L_op(self, inputs, outputs, gradients):
        x, y, rest = inputs[0], outputs[0], gradients[0]
        found = T.zeros_like(x)
        for row in range(self.size[0]):
            for column in range(self.size[1]):
                place = (slice(None), slice(None), self._steps(0, row, y.shape[2]), self._steps(1, column, y.shape[3]))
                chosen = T.eq(x[place], y)
                found = T.inc_subtensor(found[place], T.switch(chosen, rest, 0))
                rest = T.switch(chosen, 0, rest)
        return [found] + [theano.gradient.DisconnectedType()() for _ in inputs[1:]]

    def _steps(self, axis, start, count):
        """The slice of a picture's axis where one place of all ``count`` windows lies."""
        return slice(start, start + self.strides[axis] * (count - 1) + 1, self.strides[axis])


def avg_pool2d(x, size, strides, padding, channels_first):
    x = _to_first(x, channels_first)
    y = pool.pool_2d(_padded(x, padding, 0), ws=size, stride=strides, ignore_border=True, mode="average_inc_pad")
    if padding != windows.NONE:
        y = y * T.constant(windows.correction(K.int_shape(x)[2:], size, strides, padding))
    return _from_first(y, channels_first)


def _padded(x, padding, value):
    """A copy with a border, or ``x`` itself where there is none."""
    if padding == windows.NONE:
        return x
    (top, bottom), (left, right) = padding
    batch, channels, height, width = x.shape
    border = T.alloc(np.float32(value), batch, channels, height + top + bottom, width + left + right)
    return T.set_subtensor(border[:, :, top:top + height, left:left + width], x)


def batch_norm(layer, x, axis):
    """Training's output; has the layer's running values moved."""
    axes = tuple(i for i in range(x.ndim) if i != axis)
    scale, offset = (_spread(vector, x.ndim, axis) for vector in (layer.gamma, layer.beta))
    # The operation itself: its wrapper refuses an epsilon below 1e-5.
    y = bn.AbstractBatchNormTrain(axes=axes)(x, scale, offset, epsilon=np.float32(layer.epsilon))[0]
    layer.move(x.mean(axes), x.var(axes), x)
    return y


def normalise(layer, x, axis):
    """Evaluation's output."""
    mean, variance, scale, offset = (_spread(vector, K.ndim(x), axis) for vector in (
        layer.moving_mean, layer.moving_variance, layer.gamma, layer.beta))
    return (x - mean) / K.sqrt(variance + layer.epsilon) * scale + offset


def _spread(vector, rank, axis):
    """A vector of one value a channel, for arithmetic with a tensor of ``rank`` axes."""
    pattern = ["x"] * rank
    pattern[axis] = 0
    return vector.dimshuffle(pattern)


def state_factor(count):
    """What the stored running variance is divided by to be the specification's."""
    return 1.0


def _to_first(x, channels_first):
    return x if channels_first else x.dimshuffle(0, 3, 1, 2)


def _from_first(x, channels_first):
    return x if channels_first else x.dimshuffle(0, 2, 3, 1)


def _first_shape(shape):
    return (shape[0], shape[3], shape[1], shape[2])


def dense(gradient):
    """A gradient as a tensor, which it is."""
    return gradient


def evaluation(samples, output):
    """A function from samples (array) to ``output`` (array)."""
    function = K.function([samples], [output])
    return lambda x: function([x])[0]


# --- the certificate --------------------------------------------------------------------------------------------

def gradients(model, weights, batch):
    """Gradients of the loss for ``batch`` (what a training function takes), as arrays."""
    return K.function(_inputs(model), K.gradients(model.total_loss, weights))(batch)


def _inputs(model):
    return model._feed_inputs + model._feed_targets + model._feed_sample_weights
