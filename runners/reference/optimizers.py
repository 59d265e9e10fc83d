"""The optimizers, in the letters of ``workload.proto``."""

import numpy as np


class Optimizer(object):
    """``begin`` starts a step; ``move`` then gives every parameter's new value."""

    slots = ()

    def __init__(self, message):
        self.options = getattr(message, message.WhichOneof("kind"))
        self.learning_rate = message.learning_rate
        self.decay = message.decay
        self.t = 0
        self.states = {}

    def begin(self):
        self.t += 1
        self.rate = self.learning_rate / (1 + self.decay * (self.t - 1))

    def move(self, key, p, g):
        """The new value of parameter ``key`` with value ``p`` and gradient ``g``."""
        state = self.states.setdefault(key, {name: np.zeros_like(p) for name in self.slots})
        return p + self.change(self.options, state, g)

    def change(self, o, s, g):
        """What is added to a parameter, for options ``o`` and state ``s``, which is replaced."""
        raise NotImplementedError


class Sgd(Optimizer):

    slots = ("v",)

    def change(self, o, s, g):
        s["v"] = o.momentum * s["v"] - self.rate * g
        return o.momentum * s["v"] - self.rate * g if o.nesterov else s["v"]


class Adam(Optimizer):

    slots = ("m", "v")

    def change(self, o, s, g):
        s["m"] = o.beta_1 * s["m"] + (1 - o.beta_1) * g
        s["v"] = o.beta_2 * s["v"] + (1 - o.beta_2) * g ** 2
        correction = np.sqrt(1 - o.beta_2 ** self.t) / (1 - o.beta_1 ** self.t)
        return -self.rate * correction * s["m"] / (np.sqrt(s["v"]) + o.epsilon)


class RmsProp(Optimizer):

    slots = ("v", "a", "b")

    def change(self, o, s, g):
        s["v"] = o.rho * s["v"] + (1 - o.rho) * g ** 2
        s["a"] = o.rho * s["a"] + (1 - o.rho) * g
        # A variance: never negative but for rounding.
        v = np.maximum(s["v"] - s["a"] ** 2, 0) if o.centered else s["v"]
        s["b"] = o.momentum * s["b"] + self.rate * g / self.root(v, o.epsilon)
        return -s["b"]

    def root(self, v, epsilon):
        return np.sqrt(v) + epsilon


class Adadelta(Optimizer):

    slots = ("a", "d")

    def change(self, o, s, g):
        s["a"] = o.rho * s["a"] + (1 - o.rho) * g ** 2
        u = g * np.sqrt(s["d"] + o.epsilon) / np.sqrt(s["a"] + o.epsilon)
        s["d"] = o.rho * s["d"] + (1 - o.rho) * u ** 2
        return -self.rate * u


OPTIMIZERS = {"sgd": Sgd, "adam": Adam, "rmsprop": RmsProp, "adadelta": Adadelta}
