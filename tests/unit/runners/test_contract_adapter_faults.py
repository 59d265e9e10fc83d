"""Faults in loaders, weights, losses and manners: each must fail a check of the contract, by name."""

import numpy as np
import pytest

from runners.core.adapter import Unsupported
from runners.reference.adapter import Loader, ReferenceAdapter
from runners.reference.losses import LOSSES
from tests.contract import registry
from tests.unit.runners.mutants import result


class SameEveryEpoch(Loader):
    def epoch(self, number):
        return super().epoch(0)


class GoesOnWhereItStopped(Loader):
    """One endless stream; an abandoned epoch's rest comes first."""

    def __init__(self, source):
        super().__init__(source)
        self.stream = (batch for number in range(99) for batch in Loader.epoch(self, number))

    def epoch(self, number):
        return (next(self.stream) for _ in range(self.source.steps_per_epoch))


class KeepsTheRest(Loader):
    """Gives the samples left over as a further batch."""

    def epoch(self, number):
        yield from super().epoch(number)
        yield self.source.take(number, np.arange(3))


class SwapsWithinTheBatch(Loader):
    def epoch(self, number):
        return ((x[::-1], y[::-1]) for x, y in super().epoch(number))


class MixesLabels(Loader):
    def epoch(self, number):
        return ((x, np.roll(y, 1)) for x, y in super().epoch(number))


class ForgetsTheTransform(Loader):
    def __init__(self, source):
        super().__init__(source)
        source.transform, self.kept = None, source.transform

    def epoch(self, number):
        for indices in self.source.order(number):
            yield self.source.x[indices], self.source.y[indices]


def loading(loader):
    return type("Mutant", (ReferenceAdapter,), {"loader": lambda self, source: loader(source)})


class TrainsOnTheInitialArrays(ReferenceAdapter):
    def build(self, model, initial):
        super().build(model, initial)
        self.initial = initial

    def update(self):
        super().update()
        for layer, arrays in self.values.items():
            for name, array in arrays.items():
                self.initial[layer][name][...] = array


class LendsItsWeights(ReferenceAdapter):
    def weights(self):
        return self.values

    def update(self):
        before = {layer: dict(arrays) for layer, arrays in self.values.items()}
        super().update()
        for layer, arrays in self.values.items():
            for name, array in list(arrays.items()):
                before[layer][name][...] = array
                arrays[name] = before[layer][name]


class ReusesTheLoss(ReferenceAdapter):
    """Every step's loss lies in the same place."""

    def build(self, model, initial):
        super().build(model, initial)
        self.place = np.zeros(1)

    def step(self, batch):
        self.place[0] = super().step(batch)
        return self.place

    def read(self, loss):
        return float(loss[0])


class LossAfterTheUpdate(ReferenceAdapter):
    def step(self, batch):
        super().step(batch)
        return self.loss(self.predict(batch[0]), batch[1])[0]


class SummedLoss(ReferenceAdapter):
    def build(self, model, initial):
        super().build(model, initial)
        mean = LOSSES[model.workload.loss]
        self.loss = lambda logits, labels: tuple(part * len(labels) for part in mean(logits, labels))


class TakesAnything(ReferenceAdapter):
    def open(self, execution):
        pass


class RefusesWhatItLists(ReferenceAdapter):
    def build(self, model, initial):
        raise Unsupported("layer dense")


class TransposedWeights(ReferenceAdapter):
    def weights(self):
        return {layer: {name: array.T for name, array in arrays.items()} for layer, arrays in super().weights().items()}


class EvaluationMovesState(ReferenceAdapter):
    def predict(self, x):
        outputs = super().predict(x)
        self.forward(x, training=True)
        return outputs


class FixedBatch(ReferenceAdapter):
    """Evaluates only full batches."""

    def predict(self, x):
        return super().predict(np.resize(x, (16, *x.shape[1:])))


ADAPTERS = {
    "every epoch the same": (loading(SameEveryEpoch), "loader.native-0", "epoch 1 batch 0: the samples"),
    "rest of an abandoned epoch": (loading(GoesOnWhereItStopped), "loader.memory", "epoch 2 batch 0: the samples"),
    "a batch too many": (loading(KeepsTheRest), "loader.memory", "epoch 0 has more than 8 batches"),
    "order within a batch": (loading(SwapsWithinTheBatch), "loader.native-tokens", "epoch 0 batch 0: the samples"),
    "labels of other samples": (loading(MixesLabels), "loader.native-2", "epoch 0 batch 0: the labels"),
    "transform forgotten": (loading(ForgetsTheTransform), "loader.native-transform-2", ""),
    "initial arrays trained": (TrainsOnTheInitialArrays, "arrays-kept", ""),
    "weights lent": (LendsItsWeights, "arrays-kept", ""),
    "loss overwritten": (ReusesTheLoss, "losses-later", "loss of step 4"),
    "loss after the update": (LossAfterTheUpdate, "optimizer.sgd", "loss of step 1"),
    "loss summed": (SummedLoss, "model.fasttext", "loss of step 1"),
    "unknown layout taken": (TakesAnything, "refuses.layout", "layout=sideways is taken"),
    "unknown device taken": (TakesAnything, "refuses.device", "open() takes a GPU"),
    "refuses what it lists": (RefusesWhatItLists, "layer.dense", "build refuses what describe() lists"),
    "weights transposed": (TransposedWeights, "optimizer.sgd", "layer hidden (dense): kernel after training has shape"),
    "evaluation moves state": (EvaluationMovesState, "running-values", ""),
    "evaluation of full batches only": (FixedBatch, "evaluation", "output in evaluation of 5 samples has shape"),
}


@pytest.mark.parametrize("fault", sorted(ADAPTERS))
def test_fault_in_an_adapter_is_seen(fault):
    adapter, check, words = ADAPTERS[fault]
    found = result(check, adapter)
    assert (found["outcome"], found["message"][: len(words)]) == (registry.FAIL, words)
    assert "trace" not in found
