"""Layers that work element by element, by matrix product or by shape: forward and backward in float64."""

import numpy as np


class Layer(object):
    """One node of the graph, as ``workload.proto`` defines it.

    ``weights``    {parameter or state: float64 array}; the optimizer replaces the arrays, batch_norm its state
    ``gradients``  {parameter: array}, set by ``backward``

    Arrays carry the batch on the first axis. ``forward`` keeps what ``backward`` needs.
    """

    def __init__(self, node, weights, random):
        self.node = node
        self.fields = node.fields
        self.weights = weights
        self.random = random
        self.gradients = {}

    def forward(self, inputs, training):
        """The output for a list of ``inputs``."""
        raise NotImplementedError

    def backward(self, gradient):
        """From d loss / d output: sets ``gradients`` and returns the list of d loss / d input."""
        raise NotImplementedError


class Dense(Layer):

    def forward(self, inputs, training):
        self.x, = inputs
        y = self.x @ self.weights["kernel"]
        return y + self.weights["bias"] if self.fields.use_bias else y

    def backward(self, gradient):
        rows = self.x.reshape(-1, self.x.shape[-1])
        flat = gradient.reshape(-1, gradient.shape[-1])
        self.gradients["kernel"] = rows.T @ flat
        if self.fields.use_bias:
            self.gradients["bias"] = flat.sum(axis=0)
        return [gradient @ self.weights["kernel"].T]


class BatchNorm(Layer):

    def forward(self, inputs, training):
        x, = inputs
        self.axes = tuple(range(x.ndim - 1))
        if training:
            mean, variance = x.mean(axis=self.axes), x.var(axis=self.axes)
            self._keep("mean", mean)
            self._keep("variance", variance)
        else:
            mean, variance = self.weights["mean"], self.weights["variance"]
        self.deviation = np.sqrt(variance + self.epsilon())
        self.normal = (x - mean) / self.deviation
        return self.weights["scale"] * self.normal + self.weights["offset"]

    def epsilon(self):
        return self.fields.epsilon

    def _keep(self, name, batch):
        momentum = self.fields.momentum
        self.weights[name] = momentum * self.weights[name] + (1 - momentum) * batch

    def backward(self, gradient):
        """Mean and variance are functions of the batch too: Ioffe and Szegedy (2015), section 3."""
        self.gradients["scale"] = (gradient * self.normal).sum(axis=self.axes)
        self.gradients["offset"] = gradient.sum(axis=self.axes)
        scaled = gradient * self.weights["scale"]
        through_variance = self.normal * (scaled * self.normal).mean(axis=self.axes)
        return [(scaled - scaled.mean(axis=self.axes) - through_variance) / self.deviation]


class Relu(Layer):

    def forward(self, inputs, training):
        self.positive = inputs[0] > 0
        return np.maximum(inputs[0], 0.0)  # which keeps what is no number, so that the loss shows it

    def backward(self, gradient):
        return [np.where(self.positive, gradient, 0.0)]


class Sigmoid(Layer):

    def forward(self, inputs, training):
        self.y = sigmoid(inputs[0])
        return self.y

    def backward(self, gradient):
        return [gradient * self.y * (1 - self.y)]


class Tanh(Layer):

    def forward(self, inputs, training):
        self.y = np.tanh(inputs[0])
        return self.y

    def backward(self, gradient):
        return [gradient * (1 - self.y ** 2)]


class Softmax(Layer):

    def forward(self, inputs, training):
        self.y = softmax(inputs[0])
        return self.y

    def backward(self, gradient):
        return [self.y * (gradient - (gradient * self.y).sum(axis=-1, keepdims=True))]


class Flatten(Layer):

    def forward(self, inputs, training):
        self.shape = inputs[0].shape
        return inputs[0].reshape(len(inputs[0]), -1)

    def backward(self, gradient):
        return [gradient.reshape(self.shape)]


class Add(Layer):

    def forward(self, inputs, training):
        self.count = len(inputs)
        return sum(inputs)

    def backward(self, gradient):
        return [gradient] * self.count


class Concat(Layer):

    def forward(self, inputs, training):
        self.ends = np.cumsum([x.shape[-1] for x in inputs])[:-1]
        return np.concatenate(inputs, axis=-1)

    def backward(self, gradient):
        return np.split(gradient, self.ends, axis=-1)


class GlobalAvgPool(Layer):
    """Mean over all axes between batch and channels: of a sequence and of a picture."""

    def forward(self, inputs, training):
        self.shape = inputs[0].shape
        return inputs[0].mean(axis=tuple(range(1, len(self.shape) - 1)))

    def backward(self, gradient):
        places = self.shape[1:-1]
        spread = gradient.reshape((len(gradient),) + (1,) * len(places) + (-1,)) / np.prod(places)
        return [np.broadcast_to(spread, self.shape)]


class Dropout(Layer):

    def forward(self, inputs, training):
        rate = self.fields.rate
        if training and rate > 0:
            self.factor = (self.random.uniform(size=inputs[0].shape) >= rate) / (1 - rate)
        else:
            self.factor = 1.0
        return inputs[0] * self.factor

    def backward(self, gradient):
        return [gradient * self.factor]


class Embedding(Layer):

    def forward(self, inputs, training):
        self.tokens, = inputs
        return self.weights["table"][self.tokens]

    def backward(self, gradient):
        """Tokens have no gradient; a row's is the sum over all places where its token stands."""
        total = np.zeros_like(self.weights["table"])
        np.add.at(total, self.tokens, gradient)
        self.gradients["table"] = total
        return [None]


def sigmoid(x):
    """1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1 + small)


def softmax(x):
    """exp(x) / sum(exp(x)) over the last axis, without overflow."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
