"""Optimizers of a workload, as Keras optimizers, by the formulas of workload.proto.

Keras's own have the same formulas, but on TensorFlow they read the count of steps in no order with its increase (so
that Adam's second step may be taken for its first), and their RMSProp has no momentum and is never centered.
"""

from keras import backend as K
from keras import optimizers

from runners.keras import backends

OPS = backends.load()


class _Optimizer(optimizers.Optimizer):
    """Takes the workload's Optimizer message. Subclasses write ``_move``."""

    def __init__(self, message):
        super(_Optimizer, self).__init__()
        self._message = message
        self._options = getattr(message, message.WhichOneof("kind"))

    def get_updates(self, loss, params):
        """As Keras calls it: what a training function does after each batch."""
        gradients = [OPS.dense(gradient) for gradient in self.get_gradients(loss, params)]
        self.updates = []
        self._begin()
        for parameter, gradient in zip(params, gradients):
            self._update(parameter, parameter - self._change(parameter, gradient))
        return self.updates

    def _begin(self):
        """Sets ``_rate``, a number or a tensor, to rate_t."""
        self._rate = self._message.learning_rate
        if self._message.decay:
            self._rate = self._rate / (1.0 + self._message.decay * self._steps())

    def _steps(self):
        """Steps before this one, as one tensor: read once, and moved by what was read."""
        if not self.weights:
            counter = K.variable(0.0)
            self.weights = [counter]
            self._counted = K.identity(counter)
            self._update(counter, self._counted + 1.0)
        return self._counted

    def _change(self, parameter, gradient):
        """What is subtracted from ``parameter``."""
        raise NotImplementedError

    def _update(self, variable, value):
        self.updates.append(K.update(variable, value))
        return value

    def _average(self, parameter, value, rho):
        """The new value of a decaying average, which starts at zeros."""
        average = K.zeros(K.int_shape(parameter))
        return self._update(average, rho * average + (1.0 - rho) * value)


class Sgd(_Optimizer):

    def _change(self, parameter, gradient):
        momentum, step = self._options.momentum, self._rate * gradient
        if not momentum:
            return step
        velocity = K.zeros(K.int_shape(parameter))
        velocity = self._update(velocity, momentum * velocity + step)
        return momentum * velocity + step if self._options.nesterov else velocity


class Adam(_Optimizer):

    def _begin(self):
        super(Adam, self)._begin()
        t = self._steps() + 1.0
        self._rate = self._rate * K.sqrt(1.0 - self._power(self._options.beta_2, t)) / (
            1.0 - self._power(self._options.beta_1, t))

    @staticmethod
    def _power(base, exponent):
        return K.pow(K.constant(base), exponent) if base else 0.0

    def _change(self, parameter, gradient):
        first = self._average(parameter, gradient, self._options.beta_1)
        second = self._average(parameter, K.square(gradient), self._options.beta_2)
        return self._rate * first / (K.sqrt(second) + self._options.epsilon)


class RmsProp(_Optimizer):

    def _change(self, parameter, gradient):
        options = self._options
        second = self._average(parameter, K.square(gradient), options.rho)
        if options.centered:
            second = second - K.square(self._average(parameter, gradient, options.rho))
        change = self._rate * gradient / (K.sqrt(second) + options.epsilon)
        if options.momentum:
            buffer = K.zeros(K.int_shape(parameter))
            change = self._update(buffer, options.momentum * buffer + change)
        return change


class Adadelta(_Optimizer):

    def _change(self, parameter, gradient):
        rho, epsilon = self._options.rho, self._options.epsilon
        second = self._average(parameter, K.square(gradient), rho)
        past = K.zeros(K.int_shape(parameter))
        change = gradient * K.sqrt(past + epsilon) / K.sqrt(second + epsilon)
        self._update(past, rho * past + (1.0 - rho) * K.square(change))
        return self._rate * change


OPTIMIZERS = {"sgd": Sgd, "adam": Adam, "rmsprop": RmsProp, "adadelta": Adadelta}
