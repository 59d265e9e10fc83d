"""Every framework does the work that the float64 reference does, and that every other framework does."""

import json
import subprocess
import sys
from functools import cache

import pytest

from tests import environments
from tests.environments import ROOT

MODELS = ROOT / "tests" / "integration" / "models"
# Name of the workload -> how it is given on the command line.
WORKLOADS = {
    "mlp-mnist": "mlp-mnist",
    "cnn-mnist": "cnn-mnist",
    "residual-tiny": str(MODELS / "residual.toml"),
    "bilstm-tiny": str(MODELS / "bilstm.toml"),
}


@cache
def verified():
    """{(runner, workload): cell} of one run of ``controller verify``."""
    for name in environments.FRAMEWORKS:
        environments.runner(name)
    command = [sys.executable, "-m", "controller", "verify", "--device", "cpu", "--output", "json"]
    command += [part for name in environments.FRAMEWORKS for part in ("--runner", name)]
    command += [part for given in WORKLOADS.values() for part in ("--workload", given)]
    # Small batches: the reference is slow.
    command += ["--batch-size", "16", *environments.data_options()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    cells = {(cell["runner"], cell["workload"]): cell for cell in document["cells"]}
    failed = [key for key, cell in cells.items() if cell["result"] not in ("pass", "unsupported")]
    assert done.returncode == (1 if failed else 0)
    return cells


@pytest.mark.framework
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("name", environments.FRAMEWORKS)
def test_a_framework_does_the_work_of_the_reference_and_of_the_others(name, workload):
    cell = verified()[name, workload]
    assert (cell["result"], cell["text"]) == ("pass", "")
    certificate = cell["certificate"]
    assert set(certificate["against"]) == {"the reference", *environments.FRAMEWORKS} - {name}
    assert certificate["compared"]["loss"] == 5 and certificate["unjudged"] == 0
    # Far inside of what is allowed: what is allowed is no excuse that anybody needs.
    worst = {each["kind"]: each["deviation"] / each["allowed"] for each in certificate["largest"]}
    assert max(worst[kind] for kind in ("output", "loss", "gradient")) < 0.5
