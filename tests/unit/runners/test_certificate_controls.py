"""Negative controls of the certificate: wrong adapters behind the real server, probed as a campaign probes them.

Each mutant is the reference with one fault and must fail, with the faulty layer or the optimizer by name. The
reference in float32 must pass: what it may do, every framework may.
"""

import hashlib
from functools import partial

import pytest
from trainyard import graph
from trainyard.v1 import runner_pb2

from controller.certificate import TOLERANCES, Noise, certify
from controller.client import RunnerClient
from controller.results import FAIL, PASS
from tests.contract import sketch
from tests.contract.train_checks import MODELS
from tests.unit.runners.service import Server, execution, store

FLOAT32 = TOLERANCES["float32"]
MUTANTS = "tests.unit.runners.mutants."
STEPS = 5

# Module -> model of the contract, and where the certificate must say that it parts.
CONTROLS = {
    "batch_norm_epsilon": ("cnn", "layer b1 (batch_norm): norm of its output"),
    "missing_bias": ("cnn", "layer c2 (conv2d): norm of its output"),
    "nchw_flatten": ("cnn", "layer flat (flatten): order of its output"),
    "gate_order": ("lstm", "layer all (lstm): norm of its output"),
    "rmsprop_epsilon": ("lstm", "optimizer rmsprop: loss of step 2 "),
    "skipped_step": ("mlp", "optimizer adam: loss of step 4 "),
}


class Bench:
    """Servers of adapters by module, and the answers of the reference, each started and asked once."""

    def __init__(self, folder):
        self.folder = folder
        self.servers = {}
        self.references = {}

    def probe(self, module, name, perturbation=0.0):
        """The Probe of an adapter for one of the contract's models."""
        if module not in self.servers:
            folder = self.folder / hashlib.sha256(module.encode()).hexdigest()[:8]
            folder.mkdir()
            self.servers[module] = Server(folder, adapter=module).wait_until_serving()
        server, model = self.servers[module], MODELS[name]()
        x, y = sketch.samples(model, STEPS * model.workload.schedule.batch_size)
        arrays = store(server.blobs, {"x_train": x, "y_train": y, "x_test": x[:8], "y_test": y[:8]})
        request = runner_pb2.ProbeRequest(
            workload=model.workload.SerializeToString(deterministic=True), arrays=arrays, execution=execution(),
            steps=STEPS, detail=True, perturbation=perturbation,
        )  # fmt: skip
        with RunnerClient(server.target) as client:
            return client.probe(request, 300)

    def reference(self, name):
        if name not in self.references:
            ask = partial(self.probe, "runners.reference.adapter", name)
            self.references[name] = Noise(ask(), ask(perturbation=FLOAT32.perturbation))
        return self.references[name]

    def certificate(self, module, name):
        noise, model = self.reference(name), graph.parse(MODELS[name]().workload)
        subject = self.probe(module, name)
        return certify(subject, noise.plain, model, FLOAT32, against="the reference", noise=noise)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    built = Bench(tmp_path_factory.mktemp("certificate"))
    yield built
    for server in built.servers.values():
        server.__exit__()


@pytest.mark.parametrize("module", sorted(CONTROLS))
def test_a_mutant_fails_by_name(bench, module):
    name, where = CONTROLS[module]
    found = bench.certificate(MUTANTS + module, name)
    assert found.state == FAIL
    assert found.text.startswith(f"parts from the reference at {where}")


@pytest.mark.parametrize("name", sorted(MODELS))
def test_float32_passes_with_room(bench, name):
    found = bench.certificate(MUTANTS + "single_precision", name)
    assert (found.state, found.text) == (PASS, "")
    assert (found.unjudged, found.compared["loss"]) == (0, STEPS)
    assert all(each.deviation < each.allowed / 3 for each in found.largest)
