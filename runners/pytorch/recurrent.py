"""The two LSTMs: PyTorch's own, and one with the hard sigmoid as gate, which it does not have.

Both have PyTorch's gate order, which is the specification's: input, forget, cell, output.
"""

import torch
from torch import nn
from trainyard.v1 import workload_pb2


def is_written_out(node):
    """Whether a node is an LSTM that PyTorch does not have."""
    return node.op in ("lstm", "bidirectional_lstm") and (
        node.fields.recurrent_activation == workload_pb2.RECURRENT_ACTIVATION_HARD_SIGMOID)


class Lstm(nn.Module):
    """``nn.LSTM`` over (batch, time, n). Its second bias is zero and not trained: the specification has one bias."""

    def __init__(self, features, units, bidirectional, return_sequences):
        super(Lstm, self).__init__()
        self.return_sequences = return_sequences
        self.lstm = nn.LSTM(features, units, batch_first=True, bidirectional=bidirectional)
        for suffix in ("", "_reverse")[:2 if bidirectional else 1]:
            second = getattr(self.lstm, "bias_hh_l0" + suffix)
            second.requires_grad_(False)
            nn.init.zeros_(second)

    def weights(self):
        """Of each direction: a module, and the names there of its kernel, recurrent kernel and bias."""
        return [(self.lstm, "weight_ih_l0" + suffix, "weight_hh_l0" + suffix, "bias_ih_l0" + suffix)
                for suffix in ("", "_reverse")[:2 if self.lstm.bidirectional else 1]]

    def forward(self, x):
        outputs, state = self.lstm(x)
        if self.return_sequences:
            return outputs
        last = state[0]
        return torch.cat([last[0], last[1]], 1) if self.lstm.bidirectional else last[0]


class HardSigmoidLstm(nn.Module):
    """The recurrence written out, a step of Python for each time step."""

    def __init__(self, features, units, bidirectional, return_sequences):
        super(HardSigmoidLstm, self).__init__()
        self.return_sequences = return_sequences
        self.forwards = _Direction(features, units, False)
        self.backwards = _Direction(features, units, True) if bidirectional else None

    def weights(self):
        """As of ``Lstm``."""
        ways = (self.forwards,) if self.backwards is None else (self.forwards, self.backwards)
        return [(way, "kernel", "recurrent", "bias") for way in ways]

    def forward(self, x):
        outputs = self.forwards(x)
        last = outputs[-1]
        if self.backwards is None:
            return torch.stack(outputs, 1) if self.return_sequences else last
        reverse = self.backwards(x)
        if not self.return_sequences:
            return torch.cat([last, reverse[-1]], 1)
        reverse.reverse()
        return torch.cat([torch.stack(outputs, 1), torch.stack(reverse, 1)], 2)


class _Direction(nn.Module):
    """One LSTM over (batch, time, n), in order or in reverse; returns its outputs (batch, units) as it makes them."""

    def __init__(self, features, units, in_reverse):
        super(_Direction, self).__init__()
        self.units = units
        self.in_reverse = in_reverse
        self.kernel = nn.Parameter(torch.zeros(4 * units, features))
        self.recurrent = nn.Parameter(torch.zeros(4 * units, units))
        self.bias = nn.Parameter(torch.zeros(4 * units))

    def forward(self, x):
        parts = list(nn.functional.linear(x, self.kernel, self.bias).unbind(1))
        if self.in_reverse:
            parts.reverse()
        hidden = torch.zeros([x.size(0), self.units], dtype=x.dtype, device=x.device)
        cell = hidden
        outputs = []
        for part in parts:
            i, f, g, o = (part + nn.functional.linear(hidden, self.recurrent)).chunk(4, 1)
            cell = hard_sigmoid(f) * cell + hard_sigmoid(i) * torch.tanh(g)
            hidden = hard_sigmoid(o) * torch.tanh(cell)
            outputs.append(hidden)
        return outputs


def hard_sigmoid(x):
    """min(max(0.2 x + 0.5, 0), 1); PyTorch's function of this name has slope 1/6."""
    return torch.clamp(0.2 * x + 0.5, 0.0, 1.0)
