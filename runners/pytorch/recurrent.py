"""The two LSTMs: PyTorch's own, and one with the hard sigmoid as gate, which it does not have.

Both have PyTorch's gate order, which is the specification's: input, forget, cell, output.
"""

import torch
from torch import nn
from trainyard.v1 import workload_pb2

# TorchScript of 1.9.1 was seen to make wrong gradients, or to fail, where two written-out LSTMs read the same sequence;
# 1.11.0 was not. Nothing is known of the versions between.
_SCRIPT_IS_SOUND = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (1, 11)


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
        outputs = self.forwards(x, self.return_sequences)
        if self.backwards is not None:
            outputs = torch.cat([outputs, self.backwards(x, self.return_sequences)], -1)
        return outputs


class _Direction(nn.Module):
    """The parameters of one LSTM over (batch, time, n), in order or in reverse."""

    def __init__(self, features, units, in_reverse):
        super(_Direction, self).__init__()
        self.in_reverse = in_reverse
        self.kernel = nn.Parameter(torch.zeros(4 * units, features))
        self.recurrent = nn.Parameter(torch.zeros(4 * units, units))
        self.bias = nn.Parameter(torch.zeros(4 * units))

    def forward(self, x, return_sequences: bool):
        from_input = nn.functional.linear(x, self.kernel, self.bias)
        return _recur(from_input, self.recurrent, self.in_reverse, return_sequences)


def _recur(from_input: torch.Tensor, recurrent: torch.Tensor, in_reverse: bool, return_sequences: bool) -> torch.Tensor:
    """From x W + b of all time steps (batch, time, 4 units) to the outputs in order of time, or to the last made."""
    parts = list(from_input.unbind(1))
    if in_reverse:
        parts.reverse()
    hidden = torch.zeros([from_input.size(0), recurrent.size(1)], dtype=recurrent.dtype, device=recurrent.device)
    cell = hidden
    outputs = []
    for part in parts:
        i, f, g, o = (part + nn.functional.linear(hidden, recurrent)).chunk(4, 1)
        cell = hard_sigmoid(f) * cell + hard_sigmoid(i) * torch.tanh(g)
        hidden = hard_sigmoid(o) * torch.tanh(cell)
        outputs.append(hidden)
    if not return_sequences:
        return hidden
    if in_reverse:
        outputs.reverse()
    return torch.stack(outputs, 1)


def hard_sigmoid(x):
    """min(max(0.2 x + 0.5, 0), 1); PyTorch's function of this name has slope 1/6."""
    return torch.clamp(0.2 * x + 0.5, 0.0, 1.0)


if not _SCRIPT_IS_SOUND:
    _recur = torch.jit.ignore(_recur)  # a scripted model calls it as it is
