"""Every framework does the work that the float64 reference does: the same losses from the same weights and batches."""

from functools import cache
from pathlib import Path

import pytest
from trainyard.v1 import runner_pb2, workload_pb2

from controller import paths
from controller.catalog import workloads
from controller.client import RunnerClient
from controller.datasets.prepare import prepare
from controller.runtimes.base import StartOptions
from tests import environments

STEPS = 5
# float32 against float64: observed below 1e-5 over five steps; the bound is the certificate's.
LOSS_TOLERANCE = 1e-4
MODELS = ("mlp", "cnn")
FOLDER = Path(__file__).parent / "models"


@cache
def probe(name: str, model: str):
    """The ProbeResponse of a runner for one of the models of this folder."""
    workload = workloads.find(str(FOLDER / f"{model}.toml"))
    data = prepare(workload, data_dir=None, cache=paths.cache_folder(), observer=lambda event: None)
    request = runner_pb2.ProbeRequest(
        workload=workloads.serialise(data.workload),
        arrays=[runner_pb2.Array(role=role, sha256=digest) for role, digest in data.arrays.items()],
        execution=runner_pb2.Execution(
            device="cpu",
            threads=2,
            variant=workload_pb2.Variant(
                layout="default", precision="float32", pipeline="native", workers=0, prefetch=2
            ),
        ),
        steps=STEPS,
        detail=True,
    )
    log = paths.state_folder() / "logs" / f"probe-{name}-{model}.log"
    options = StartOptions(threads=2, blobs=data.blobs, log=log)
    with environments.runner(name).start(options) as running, RunnerClient(running.target) as client:
        return client.probe(request, timeout_seconds=600)


@pytest.mark.framework
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", environments.FRAMEWORKS)
def test_the_first_steps_agree_with_the_reference(name, model):
    found, reference = probe(name, model), probe("reference", model)
    assert found.weights_digest == reference.weights_digest
    assert found.data_digest == reference.data_digest
    assert found.parameter_count == reference.parameter_count
    assert found.sample_count == reference.sample_count
    assert list(found.losses) == pytest.approx(list(reference.losses), rel=LOSS_TOLERANCE)
    assert found.gradient_norm == pytest.approx(reference.gradient_norm, rel=1e-3)
    # Training did move: five equal losses would agree as well.
    assert len(set(found.losses)) == STEPS
    # Small values (a bias that has hardly moved) are compared on the scale of what moved.
    for mine, right in zip(found.parameters, reference.parameters, strict=True):
        where = f"{right.layer}.{right.parameter}"
        assert (mine.layer, mine.parameter) == (right.layer, right.parameter)
        assert mine.final == pytest.approx(right.final, rel=1e-4, abs=1e-4), where
        assert mine.ramp == pytest.approx(right.ramp, rel=1e-3, abs=1e-3 * max(1.0, right.final)), where
