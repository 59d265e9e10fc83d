"""The reference runner for real: its environment built from its lock, its server started, asked, and killed."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import grpc
import psutil
import pytest
from trainyard.v1 import runner_pb2, runner_pb2_grpc

from controller.catalog.runners import load
from controller.runtimes.base import StartOptions
from controller.runtimes.health import CHANNEL_OPTIONS
from controller.runtimes.interpreter import InterpreterRuntime
from controller.runtimes.packages import clean_environment, uv_program
from controller.runtimes.service import stage
from controller.runtimes.venv import VenvRuntime
from tests.unit.controller.fake_runners import gone

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def prepared(cache):
    return VenvRuntime(cache).prepare([load()["reference"]], "cpu", print)["reference"]


def options(cache, name):
    return StartOptions(threads=1, blobs=cache / "blobs", log=cache / "logs" / f"{name}.log")


def describe(running):
    with grpc.insecure_channel(running.target, options=CHANNEL_OPTIONS) as channel:
        return runner_pb2_grpc.RunnerStub(channel).Describe(runner_pb2.DescribeRequest(), timeout=60)


def test_the_real_server_serves_the_staged_code_and_stops(cache, prepared):
    with prepared.start(options(cache, "serves")) as running:
        family = [running.pid, *(child.pid for child in psutil.Process(running.pid).children(recursive=True))]
        answer = describe(running)
    assert answer.service_digest == stage(cache).digest
    assert "dense" in answer.layers
    assert len(family) > 1
    assert all(gone(pid) for pid in family)


def test_every_trial_finds_the_environment_as_the_one_before(cache, prepared):
    def content():
        folders = (Path(prepared.environment.location), stage(cache).folder)
        return {path: path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*") if path.is_file()}

    before = content()
    with prepared.start(options(cache, "again")) as running:
        describe(running)
    assert content() == before


def test_a_killed_server_takes_its_training_process_with_it(cache, prepared):
    with prepared.start(options(cache, "killed")) as running:
        children = [child.pid for child in psutil.Process(running.pid).children(recursive=True)]
        psutil.Process(running.pid).kill()
        failure = running.exit_reason()
    assert failure.reason == "PROCESS_DIED"
    assert all(gone(pid) for pid in children)


@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_controller_that_is_interrupted_or_killed_leaves_no_runner(cache, prepared, name):
    script = f"""
        import sys, time
        from pathlib import Path
        from controller.catalog.runners import load
        from controller.runtimes.base import StartOptions
        from controller.runtimes.venv import VenvRuntime
        cache = Path({str(cache)!r})
        runner = VenvRuntime(cache).prepare([load()["reference"]], "cpu", lambda event: None)["reference"]
        options = StartOptions(threads=1, blobs=cache / "blobs", log=cache / "logs" / "left.log")
        with runner.start(options) as running:
            print(running.pid, flush=True)
            time.sleep(600)
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "proto")])}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as controller:
        pid = int(controller.stdout.readline())
        family = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
        controller.send_signal(getattr(signal, name))
    assert len(family) > 1
    assert all(gone(pid) for pid in family)


def test_an_interpreter_with_nothing_in_it_serves_through_an_overlay(cache):
    folder = cache / "own"
    command = [uv_program(), "venv", "-q", "--no-project", "--python", sys.executable, str(folder)]
    subprocess.run(command, check=True, env=clean_environment())
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    runtime = InterpreterRuntime({"reference": python}, cache)
    prepared = runtime.prepare([load()["reference"]], "cpu", print)["reference"]
    with prepared.start(options(cache, "own")) as running:
        assert describe(running).framework
