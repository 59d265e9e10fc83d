"""Losses and optimizers of a workload: Keras's own where they compute what the specification says."""

import tensorflow as tf


def _sparse_categorical_crossentropy(logits, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def _binary_crossentropy(logits, labels):
    targets = tf.cast(tf.reshape(labels, (-1, 1)), logits.dtype)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits))


LOSSES = {
    "sparse_categorical_crossentropy": _sparse_categorical_crossentropy,
    "binary_crossentropy": _binary_crossentropy,
}


class Optimizer(object):
    """Takes the workload's Optimizer message and the variables that it moves."""

    def __init__(self, message, variables):
        kind = message.WhichOneof("kind")
        self._keras = _KERAS[kind](getattr(message, kind), message)
        if kind == "rmsprop" and message.rmsprop.momentum:
            self._keras = _MomentumRmsProp(message, variables)
        # A row of a table that no token names has a gradient of zero, and yet its momentum and moments decay.
        # Plain SGD has neither, so that only there a table's gradient stays sparse.
        self._sparse = kind == "sgd" and not message.sgd.momentum

    def apply(self, gradients, variables):
        """Moves ``variables``. Call it while the step is traced."""
        if not self._sparse:
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        self._keras.apply_gradients(zip(gradients, variables))


def _sgd(options, message):
    return tf.keras.optimizers.SGD(message.learning_rate, momentum=options.momentum, nesterov=options.nesterov,
                                   decay=message.decay)


def _adam(options, message):
    return tf.keras.optimizers.Adam(message.learning_rate, beta_1=options.beta_1, beta_2=options.beta_2,
                                    epsilon=options.epsilon, decay=message.decay)


def _rmsprop(options, message):
    return tf.keras.optimizers.RMSprop(message.learning_rate, rho=options.rho, momentum=0.0,
                                       centered=options.centered, epsilon=options.epsilon, decay=message.decay)


def _adadelta(options, message):
    return tf.keras.optimizers.Adadelta(message.learning_rate, rho=options.rho, epsilon=options.epsilon,
                                        decay=message.decay)


_KERAS = {"sgd": _sgd, "adam": _adam, "rmsprop": _rmsprop, "adadelta": _adadelta}
OPTIMIZERS = tuple(_KERAS)


class _MomentumRmsProp(object):
    """RMSProp with momentum as the specification has it. Keras's own runs a kernel that puts epsilon inside
    the root, so this one is written in TensorFlow's operations; the formulas are those of workload.proto."""

    def __init__(self, message, variables):
        self._message = message
        self._step = tf.Variable(0, trainable=False, dtype=tf.int64)
        count = 3 if message.rmsprop.centered else 2
        self._slots = [[_zeros_like(variable) for _ in range(count)] for variable in variables]

    def apply_gradients(self, pairs):
        message, options = self._message, self._message.rmsprop
        rate = message.learning_rate / (1.0 + message.decay * tf.cast(self._step, tf.float32))
        for slots, (gradient, variable) in zip(self._slots, pairs):
            second = _averaged(slots[0], tf.square(gradient), options.rho)
            if options.centered:
                second = second - tf.square(_averaged(slots[2], gradient, options.rho))
            update = rate * gradient / (tf.sqrt(second) + options.epsilon)
            moved = options.momentum * slots[1] + update
            slots[1].assign(moved)
            variable.assign_sub(moved)
        self._step.assign_add(1)


def _zeros_like(variable):
    with tf.device(variable.device):
        return tf.Variable(tf.zeros(variable.shape), trainable=False)


def _averaged(average, value, rho):
    """The running average with ``value`` taken in, which is stored too."""
    taken = rho * average + (1.0 - rho) * value
    average.assign(taken)
    return taken
