"""Containers on a real GPU: the framework computes on the one that was asked for, and cannot see another."""

import json
import os
import subprocess
import sys

import pytest

from controller import hosts, preflight
from controller.catalog.runners import load
from controller.errors import UsageError
from controller.runtimes import engine as engines
from controller.runtimes.base import StartOptions
from controller.runtimes.docker import DockerRuntime
from controller.runtimes.health import facts
from controller.runtimes.limits import limits

pytestmark = [pytest.mark.gpu, pytest.mark.docker, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def gpu():
    found = hosts.find_gpus()
    if not found.gpus:
        pytest.skip(f"no GPU: looked for {'; '.join(found.looked_at)}")
    return found.gpus[0]


@pytest.fixture(scope="module")
def engine():
    found = engines.find()
    if found is None or found.has_nvidia_runtime() is False:
        pytest.skip("no Docker engine with NVIDIA's runtime")
    return found


@pytest.fixture(scope="module")
def names(gpu):
    chosen = [name for name in os.environ.get("TRAINYARD_GPU_RUNNERS", "").split(",") if name]
    return chosen or [name for name, spec in load().items() if _fits(spec, gpu)]


def _fits(spec, gpu):
    try:
        spec.lock("gpu")
    except UsageError:
        return False
    return all(check.state != preflight.FAILED for check in preflight.gpu_checks(spec, gpu))


def test_every_trial_computes_on_the_gpu_that_was_asked_for(engine, gpu, names):
    command = [sys.executable, "-m", "controller", "compare", "--gpu", str(gpu.index), "--runtime", "docker"]
    command += ["--quick", "--trials", "2", "--output", "json"]
    command += [word for name in names for word in ("--runner", name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    trials = json.loads(done.stdout)["trials"]
    assert [trial["state"] for trial in trials] == ["succeeded"] * 2 * len(names), done.stderr
    assert {trial["identity"]["device"]["uuid"] for trial in trials} == {gpu.uuid}


def test_a_container_for_the_cpu_sees_no_gpu(engine, gpu, names, tmp_path):
    spec = load()[names[0]]
    prepared = DockerRuntime(engine, limits(engine, {})).prepare([spec], "cpu", print)[spec.name]
    options = StartOptions(threads=1, blobs=tmp_path / "blobs", log=tmp_path / "log")
    with prepared.start(options) as running:
        assert facts(running.target)["network"] == ""
        found = engine.client.containers.get(running.identifier).exec_run(["ls", "/dev"])
        assert b"nvidia" not in found.output
