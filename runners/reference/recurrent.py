"""LSTM in one and in both directions. Sequences are (batch, time, features)."""

import numpy as np
from trainyard.v1 import workload_pb2

from runners.reference.layers import Layer, sigmoid

GATES = ("input", "forget", "cell", "output")


class HardSigmoid(object):

    @staticmethod
    def value(x):
        return np.clip(0.2 * x + 0.5, 0.0, 1.0)

    @staticmethod
    def slope(y):
        """The derivative, from the value."""
        return np.where((y > 0) & (y < 1), 0.2, 0.0)


class SmoothSigmoid(object):
    value = staticmethod(sigmoid)

    @staticmethod
    def slope(y):
        return y * (1 - y)


class Direction(object):
    """One LSTM over a sequence. ``weights`` and ``gradients`` are those of its layer, named with ``prefix``."""

    gates = GATES

    def __init__(self, fields, weights, gradients, prefix):
        self.units = fields.units
        self.weights = weights
        self.gradients = gradients
        self.prefix = prefix
        hard = fields.recurrent_activation == workload_pb2.RECURRENT_ACTIVATION_HARD_SIGMOID
        self.recurrent = HardSigmoid if hard else SmoothSigmoid

    def forward(self, x):
        """(batch, time, n) -> (batch, time, units)."""
        kernel, matrix, bias = (self.weights[self.prefix + name] for name in ("kernel", "recurrent", "bias"))
        self.x, self.steps = x, []
        h = c = np.zeros((len(x), self.units), x.dtype)
        outputs = []
        for time in range(x.shape[1]):
            step = {"h": h, "c": c}
            step.update(self._gates(x[:, time] @ kernel + h @ matrix + bias))
            c = step["forget"] * c + step["input"] * step["cell"]
            step["squashed"] = np.tanh(c)
            h = step["output"] * step["squashed"]
            self.steps.append(step)
            outputs.append(h)
        return np.stack(outputs, axis=1)

    def _gates(self, a):
        blocks = dict(zip(self.gates, np.split(a, 4, axis=1)))
        return {name: np.tanh(block) if name == "cell" else self.recurrent.value(block)
                for name, block in blocks.items()}

    def backward(self, gradient):
        """Gradient by the outputs (batch, time, units) -> by x; sets the parameters' gradients."""
        kernel, matrix = self.weights[self.prefix + "kernel"], self.weights[self.prefix + "recurrent"]
        d_kernel, d_matrix, d_bias = np.zeros_like(kernel), np.zeros_like(matrix), np.zeros(4 * self.units)
        d_x = np.zeros_like(self.x)
        d_h = d_c = np.zeros((len(self.x), self.units))
        for time in reversed(range(self.x.shape[1])):
            step = self.steps[time]
            d_a, d_c = self._step_backward(step, gradient[:, time] + d_h, d_c)
            d_kernel += self.x[:, time].T @ d_a
            d_matrix += step["h"].T @ d_a
            d_bias += d_a.sum(axis=0)
            d_x[:, time] = d_a @ kernel.T
            d_h = d_a @ matrix.T
        for name, value in (("kernel", d_kernel), ("recurrent", d_matrix), ("bias", d_bias)):
            self.gradients[self.prefix + name] = value
        return d_x

    def _step_backward(self, step, d_h, d_c):
        """(gradient by the four blocks, gradient by the cell before)."""
        d_c = d_c + d_h * step["output"] * (1 - step["squashed"] ** 2)
        by_gate = {"input": d_c * step["cell"], "forget": d_c * step["c"], "cell": d_c * step["input"],
                   "output": d_h * step["squashed"]}
        slopes = {name: self.recurrent.slope(step[name]) for name in by_gate}
        slopes["cell"] = 1 - step["cell"] ** 2
        blocks = [by_gate[name] * slopes[name] for name in self.gates]
        return np.concatenate(blocks, axis=1), d_c * step["forget"]


class Lstm(Layer):

    direction = Direction

    def __init__(self, node, weights, random):
        super(Lstm, self).__init__(node, weights, random)
        self.cell = self.direction(self.fields, weights, self.gradients, "")

    def forward(self, inputs, training):
        outputs = self.cell.forward(inputs[0])
        self.shape = outputs.shape
        return outputs if self.fields.return_sequences else outputs[:, -1]

    def backward(self, gradient):
        if not self.fields.return_sequences:
            last, gradient = gradient, np.zeros(self.shape)
            gradient[:, -1] = last
        return [self.cell.backward(gradient)]


class BidirectionalLstm(Layer):

    direction = Direction

    def __init__(self, node, weights, random):
        super(BidirectionalLstm, self).__init__(node, weights, random)
        self.forwards = self.direction(self.fields, weights, self.gradients, "forward_")
        self.backwards = self.direction(self.fields, weights, self.gradients, "backward_")

    def forward(self, inputs, training):
        x, = inputs
        first, second = self.forwards.forward(x), self.backwards.forward(x[:, ::-1])
        self.shape = first.shape
        if self.fields.return_sequences:
            return np.concatenate([first, second[:, ::-1]], axis=-1)
        return np.concatenate([first[:, -1], second[:, -1]], axis=-1)

    def backward(self, gradient):
        first, second = np.split(gradient, 2, axis=-1)
        if self.fields.return_sequences:
            second = second[:, ::-1]
        else:
            first, second = self._at_the_end(first), self._at_the_end(second)
        return [self.forwards.backward(first) + self.backwards.backward(second)[:, ::-1]]

    def _at_the_end(self, gradient):
        whole = np.zeros(self.shape)
        whole[:, -1] = gradient
        return whole
