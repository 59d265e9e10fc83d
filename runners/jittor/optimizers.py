"""Optimizers exactly as workload.proto says: Jittor's own where it is that, else the formula in Jittor's operations."""

import jittor as jt
from jittor import nn


def make(message, parameters):
    """A ``jittor.optim.Optimizer`` of an Optimizer message over a list of Vars."""
    kind = message.WhichOneof("kind")
    return _MAKERS[kind](getattr(message, kind), parameters, message)


def rate(message, step):
    """Learning rate of step ``step``, counted from 0."""
    return message.learning_rate / (1.0 + message.decay * step)


def _sgd(options, parameters, message):
    if options.momentum and message.decay:
        return Momentum(parameters, message.learning_rate, options.momentum, options.nesterov)
    return nn.SGD(parameters, message.learning_rate, momentum=options.momentum, nesterov=options.nesterov)


def _adam(options, parameters, message):
    # Its epsilon stands beside the root of the uncorrected second moment, as the specification's does.
    return nn.Adam(parameters, message.learning_rate, eps=options.epsilon, betas=(options.beta_1, options.beta_2))


def _rmsprop(options, parameters, message):
    if options.centered or options.momentum:
        return RmsProp(parameters, message.learning_rate, options)
    return nn.RMSprop(parameters, message.learning_rate, eps=options.epsilon, alpha=options.rho)


def _adadelta(options, parameters, message):
    return Adadelta(parameters, message.learning_rate, options)


_MAKERS = {"sgd": _sgd, "adam": _adam, "rmsprop": _rmsprop, "adadelta": _adadelta}
NAMES = tuple(_MAKERS)


class _Own(nn.Optimizer):
    """``formula(parameter, gradient, *state)`` returns the new parameter and states, in that order."""

    states = 0

    def __init__(self, params, lr):
        super(_Own, self).__init__(params, lr)
        group = self.param_groups[0]
        group["state"] = [[jt.zeros(p.shape, p.dtype).stop_grad() for _ in range(self.states)]
                          for p in group["params"]]

    def formula(self, p, g, *state):
        raise NotImplementedError

    def step(self, loss=None):
        if loss is not None:
            self.pre_step(loss)
        group = self.param_groups[0]
        for p, g, state in zip(group["params"], group["grads"], group["state"]):
            new = self.formula(p, g, *state)
            for var, value in zip([p] + state, new):
                if value is not var:
                    var.update(value)
        self.zero_grad()


class Momentum(_Own):
    """SGD whose velocity holds the rate of each step. Jittor's own scales all of it with the present rate."""

    states = 1

    def __init__(self, params, lr, momentum, nesterov):
        super(Momentum, self).__init__(params, lr)
        self._momentum = momentum
        self._nesterov = nesterov

    def formula(self, p, g, v):
        v = self._momentum * v - self.lr * g
        return (p + self._momentum * v - self.lr * g if self._nesterov else p + v), v


class RmsProp(_Own):
    """RMSProp, centered or with momentum or both."""

    states = 3

    def __init__(self, params, lr, options):
        super(RmsProp, self).__init__(params, lr)
        self._options = options

    def formula(self, p, g, v, a, b):
        o = self._options
        v = o.rho * v + (1 - o.rho) * g * g
        variance = v
        if o.centered:
            # Never below 0 but by rounding.
            a = o.rho * a + (1 - o.rho) * g
            variance = jt.maximum(v - a * a, 0.0)
        u = self.lr * g / (jt.sqrt(variance) + o.epsilon)
        if o.momentum:
            u = b = o.momentum * b + u
        return p - u, v, a, b


class Adadelta(_Own):
    """Adadelta, which Jittor does not have."""

    states = 2

    def __init__(self, params, lr, options):
        super(Adadelta, self).__init__(params, lr)
        self._options = options

    def formula(self, p, g, a, d):
        o = self._options
        a = o.rho * a + (1 - o.rho) * g * g
        u = g * jt.sqrt(d + o.epsilon) / jt.sqrt(a + o.epsilon)
        return p - self.lr * u, a, o.rho * d + (1 - o.rho) * u * u
