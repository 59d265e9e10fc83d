"""LSTM by hand: Jittor's own has two biases and no hard sigmoid. Unrolled over time, as its own is on a CPU."""

import jittor as jt
from jittor import nn
from trainyard.v1 import workload_pb2


class Lstm(object):
    """(batch, time, n) -> (batch, units) or (batch, time, units). ``fields`` is the layer's message; with
    ``reverse`` the sequence is read backwards and outputs are put back in time order.

    The input's share of all steps is one matrix product; each step adds its own.
    """

    def __init__(self, fields, reverse=False):
        self._units = fields.units
        self._sequences = fields.return_sequences
        self._reverse = reverse
        hard = fields.recurrent_activation == workload_pb2.RECURRENT_ACTIVATION_HARD_SIGMOID
        self._gate = _hard_sigmoid if hard else jt.sigmoid
        self.kernel = self.recurrent = self.bias = None

    def __call__(self, x):
        batch, time, features = x.shape
        first = nn.matmul(x.transpose((1, 0, 2)).reshape((-1, features)), self.kernel) + self.bias
        steps = Unstack.apply(first.reshape((time, batch, 4 * self._units)))
        outputs, hidden, cell = [], None, None
        for step in (reversed(steps) if self._reverse else steps):
            hidden, cell = self._step(step, hidden, cell)
            outputs.append(hidden)
        if not self._sequences:
            return hidden
        return Stack.apply(*(reversed(outputs) if self._reverse else outputs)).transpose((1, 0, 2))

    def _step(self, a, hidden, cell):
        if hidden is not None:
            a = a + nn.matmul(hidden, self.recurrent)
        n = self._units
        new = self._gate(a[:, :n]) * jt.tanh(a[:, 2 * n:3 * n])
        cell = new if cell is None else self._gate(a[:, n:2 * n]) * cell + new
        return self._gate(a[:, 3 * n:]) * jt.tanh(cell), cell


def _hard_sigmoid(x):
    return jt.minimum(jt.maximum(0.2 * x + 0.5, 0.0), 1.0)


def _parts(x):
    return [x[i] for i in range(x.shape[0])]


def _join(parts):
    return jt.concat([part.unsqueeze(0) for part in parts], 0)


class Unstack(jt.Function):
    """(time, ...) -> ``time`` Vars. Jittor's gradient of x[i] is as large as x; together these need it once."""

    def execute(self, x):
        return _parts(x)

    def grad(self, *gradients):
        return _join(gradients)


class Stack(jt.Function):
    """The other way round."""

    def execute(self, *parts):
        return _join(parts)

    def grad(self, gradient):
        return _parts(gradient)
