"""Faults that are easily made in a layer or an optimizer: each must fail a check of the contract, by name."""

import numpy as np
import pytest

from runners.reference.adapter import LAYERS
from runners.reference.layers import BatchNorm, Dropout, Embedding, Relu
from runners.reference.optimizers import Adam, Sgd
from runners.reference.recurrent import BidirectionalLstm, Direction, HardSigmoid
from runners.reference.windows import AvgPool2d, Conv2d, MaxPool2d, Windows
from tests.contract import registry
from tests.unit.runners.mutants import result, with_layers, with_optimizers


class PaddedAtTheTop(Windows):
    """The odd pixel before instead of behind."""

    def __init__(self, node, size):
        super().__init__(node, size)
        self.padding = tuple((after, before) for before, after in self.padding)


class TopPaddedConv(Conv2d):
    def __init__(self, node, weights, random):
        super().__init__(node, weights, random)
        self.windows = PaddedAtTheTop(node, self.windows.size)


class FlippedConv(Conv2d):
    """A convolution in the mathematician's sense."""

    def _matrix(self):
        return self.weights["kernel"][::-1, ::-1].reshape(-1, self.fields.filters)


class ZeroPaddedMax(MaxPool2d):
    def forward(self, inputs, training):
        pad = self.windows.pad
        self.windows.pad = lambda x, value: pad(x, 0.0)
        y = super().forward(inputs, training)
        self.windows.pad = pad
        return y


class PaddingCounted(AvgPool2d):
    def forward(self, inputs, training):
        y = super().forward(inputs, training) * self.counts
        self.counts = np.full_like(self.counts, np.prod(self.windows.size))
        return y / self.counts


class LeakyRelu(Relu):
    """Right forward, wrong backward."""

    def backward(self, gradient):
        return [np.where(self.positive, gradient, 0.01 * gradient)]


class UnbiasedVariance(BatchNorm):
    """Bessel's correction in the running variance."""

    def _keep(self, name, batch):
        count = self.normal_count if name == "variance" else None
        super()._keep(name, batch * count / (count - 1) if count else batch)

    def forward(self, inputs, training):
        self.normal_count = inputs[0].size // inputs[0].shape[-1]
        return super().forward(inputs, training)


class OtherMomentum(BatchNorm):
    """The momentum of the new value instead of the old one."""

    def _keep(self, name, batch):
        momentum = 1 - self.fields.momentum
        self.weights[name] = momentum * self.weights[name] + (1 - momentum) * batch


class BatchStatisticsInEvaluation(BatchNorm):
    def forward(self, inputs, training):
        kept = dict(self.weights)
        y = super().forward(inputs, True)
        if not training:
            self.weights.update(kept)
        return y


class UnscaledDropout(Dropout):
    def forward(self, inputs, training):
        super().forward(inputs, training)
        self.factor = np.where(np.asarray(self.factor) > 0, 1.0, 0.0)
        return inputs[0] * self.factor


class DropoutInEvaluation(Dropout):
    def forward(self, inputs, training):
        return super().forward(inputs, True)


class NoDropout(Dropout):
    def forward(self, inputs, training):
        return super().forward(inputs, False)


class UnseededDropout(Dropout):
    def forward(self, inputs, training):
        self.random = np.random.RandomState()
        return super().forward(inputs, training)


class OtherHardSigmoid(HardSigmoid):
    """x / 6 + 1/2, as another library defines it."""

    @staticmethod
    def value(x):
        return np.clip(x / 6 + 0.5, 0.0, 1.0)


class OtherHardDirection(Direction):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.recurrent = OtherHardSigmoid if self.recurrent is HardSigmoid else self.recurrent


class OtherHardLstm(LAYERS["lstm"]):
    direction = OtherHardDirection


class BackwardsNotPutBack(BidirectionalLstm):
    """Outputs of the second direction in its own order of time."""

    def forward(self, inputs, training):
        y = super().forward(inputs, training)
        return np.concatenate([y[..., :4], y[:, ::-1, 4:]], axis=-1) if y.ndim == 3 else y


class MaskedEmbedding(Embedding):
    """Token 0 stands for nothing."""

    def forward(self, inputs, training):
        return super().forward(inputs, training) * (inputs[0] != 0)[..., np.newaxis]


class EpsilonOnCorrectedRoot(Adam):
    """Epsilon beside the root of the corrected second moment."""

    def change(self, o, s, g):
        correction = np.sqrt(1 - o.beta_2**self.t)
        plain = super().change(o, s, g)
        return plain * (np.sqrt(s["v"]) + o.epsilon) / (np.sqrt(s["v"]) + o.epsilon * correction)


class LazySgd(Sgd):
    """Rows without a gradient stand still, as in sparse updates."""

    def change(self, o, s, g):
        return super().change(o, s, g) * (np.abs(g) > 0)


class DecayFromTheFirstStep(Sgd):
    def begin(self):
        super().begin()
        self.rate = self.learning_rate / (1 + self.decay * self.t)


CLASSES = {
    "conv padded at the top": (
        with_layers(conv2d=TopPaddedConv),
        "layer.conv2d-odd",
        "layer same-even (conv2d): output",
    ),
    "conv flipped": (with_layers(conv2d=FlippedConv), "layer.conv2d", "layer valid (conv2d): output"),
    "max pads with zero": (
        with_layers(max_pool2d=ZeroPaddedMax),
        "layer.max_pool2d",
        "layer same (max_pool2d): output",
    ),
    "average counts padding": (
        with_layers(avg_pool2d=PaddingCounted),
        "layer.avg_pool2d",
        "layer same (avg_pool2d): output",
    ),
    "relu leaks backwards": (with_layers(relu=LeakyRelu), "layer.relu", "layer picture.before (conv2d): gradient"),
    "unbiased running variance": (with_layers(batch_norm=UnbiasedVariance), "running-values", "output in evaluation"),
    "other momentum": (with_layers(batch_norm=OtherMomentum), "running-values", "output in evaluation, trained"),
    "batch statistics in evaluation": (
        with_layers(batch_norm=BatchStatisticsInEvaluation),
        "running-values",
        "output in evaluation, untrained",
    ),
    "dropout not scaled": (with_layers(dropout=UnscaledDropout), "dropout-scale", "layer drop (dropout): values"),
    "dropout in evaluation": (with_layers(dropout=DropoutInEvaluation), "evaluation", "output in evaluation"),
    "dropout does nothing": (with_layers(dropout=NoDropout), "evaluation", "layer dropout-3 (dropout)"),
    "dropout without seed": (with_layers(dropout=UnseededDropout), registry.TWICE, "loss of step 1"),
    "other hard sigmoid": (with_layers(lstm=OtherHardLstm), "layer.lstm", "layer hard (lstm): output"),
    "second direction not put back": (
        with_layers(bidirectional_lstm=BackwardsNotPutBack),
        "layer.bidirectional_lstm",
        "layer all (bidirectional_lstm): output",
    ),
    "token 0 masked": (with_layers(embedding=MaskedEmbedding), "layer.embedding", "layer tokens (embedding): output"),
    "epsilon on the corrected root": (
        with_optimizers(adam=EpsilonOnCorrectedRoot),
        "optimizer.adam-odd",
        "loss of step",
    ),
    "lazy rows": (with_optimizers(sgd=LazySgd), "optimizer-table.sgd-momentum", ""),
    "decay from the first step": (with_optimizers(sgd=DecayFromTheFirstStep), "optimizer.sgd-decay", "loss of step 2"),
}


@pytest.mark.parametrize("fault", sorted(CLASSES))
def test_fault_in_a_layer_or_optimizer_is_seen(fault):
    adapter, check, words = CLASSES[fault]
    found = result(check, adapter)
    assert (found["outcome"], found["message"][: len(words)]) == (registry.FAIL, words)
