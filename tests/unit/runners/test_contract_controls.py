"""The contract's checks must fail for every fault, naming the layer, and pass for what float32 does.

A check that no fault can fail proves nothing. Each control is the reference with one thing wrong.
"""

import importlib

import pytest

from runners.core.adapter import Unsupported
from runners.reference.adapter import Loader, ReferenceAdapter
from tests.contract import registry
from tests.unit.runners.mutants import result

SLOW = ("model.mlp", "losses-later")


# The six of the certificate, each a module that a runner can serve.
# Module -> {check: words of its failure}.
MODULES = {
    "batch_norm_epsilon": {
        "layer.batch_norm": "layer picture (batch_norm): output",
        "layer.batch_norm-sequence": "layer sequence (batch_norm): output",
        "running-values": "output in evaluation",
    },
    "missing_bias": {"layer.conv2d": "layer valid.before (conv2d): output", "model.cnn": "loss of step 2"},
    "nchw_flatten": {"layer.flatten": "layer picture (flatten): output", "model.cnn": "loss of step 1"},
    "gate_order": {
        "layer.lstm": "layer last (lstm): output",
        "layer.bidirectional_lstm": "layer last (bidirectional_lstm): output",
        "model.lstm": "loss of step 1",
        "model.bilstm": "loss of step 1",
    },
    "skipped_step": {
        "optimizer.sgd": "loss of step 4",
        "optimizer.adam": "loss of step 4",
        "model.cnn": "loss of step 4",
    },
    "denormal_root": {"optimizer-silent.rmsprop": "loss of step"},
    "rmsprop_epsilon": {"optimizer.rmsprop-odd": "loss of step 2", "optimizer.rmsprop-momentum": "loss of step 2"},
}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_module_fails_by_name(module):
    adapter = importlib.import_module("tests.unit.runners.mutants." + module).ADAPTER
    for check, words in MODULES[module].items():
        found = result(check, adapter)
        assert (found["outcome"], found["message"][: len(words)]) == (registry.FAIL, words)
    assert result("layer.dense", adapter)["outcome"] == registry.PASS


@pytest.mark.parametrize("name", [name for name in registry.CHECKS if name not in SLOW])
def test_single_precision_passes(name):
    adapter = importlib.import_module("tests.unit.runners.mutants.single_precision").ADAPTER
    found = result(name, adapter)
    assert found["outcome"] == registry.PASS, found["message"]


def test_wrong_loader_is_seen_by_losses_where_batches_are_opaque():
    """A batch that nobody can look into still has a loss."""

    class Opaque(Loader):
        def epoch(self, number):
            return ({"batch": batch} for batch in super().epoch(max(number, 1)))

    class Hiding(ReferenceAdapter):
        def loader(self, source):
            return Opaque(source)

        def step(self, batch):
            return super().step(batch["batch"])

    found = result("loader.memory", Hiding)
    assert found["outcome"] == registry.FAIL
    assert found["message"].startswith("loss of epoch 0 batch 0 deviates")


def test_layer_that_is_not_listed_is_unsupported():
    class Small(ReferenceAdapter):
        def describe(self):
            known = super().describe()
            known.layers = ("dense",)
            return known

        def build(self, model, initial):
            for node in model.nodes:
                if node.op != "dense":
                    raise Unsupported("layer " + node.op)
            super().build(model, initial)

    assert result("layer.lstm", Small) == {"outcome": registry.UNSUPPORTED, "message": "layer lstm"}


def test_layer_that_is_taken_but_not_listed_fails():
    class Secretive(ReferenceAdapter):
        def describe(self):
            known = super().describe()
            known.layers = ("dense", "flatten")
            return known

    found = result("layer.lstm", Secretive)
    assert found["outcome"] == registry.FAIL
    assert found["message"] == "layer last: describe() does not list lstm, but build took it"


def test_crash_is_a_failure_with_its_trace():
    class Crashing(ReferenceAdapter):
        def step(self, batch):
            raise RuntimeError("no kernel\nfor this")

    found = result("optimizer.sgd", Crashing)
    assert (found["outcome"], found["message"]) == (registry.FAIL, "RuntimeError: no kernel for this")
    assert "Traceback" in found["trace"]
