"""The main job with real frameworks: tables from real environments, a custom model, and a runner that is killed."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time

import psutil
import pytest

from tests import environments
from tests.environments import ROOT

pytestmark = [pytest.mark.framework, pytest.mark.timeout(3600)]


def command(*options: str) -> list[str]:
    names = [part for name in environments.FRAMEWORKS for part in ("--runner", name)]
    return [sys.executable, "-m", "controller", "compare", "--device", "cpu", *names, *options]


@pytest.fixture(scope="module", autouse=True)
def built():
    for name in environments.FRAMEWORKS:
        environments.runner(name)


def compare(*options: str) -> dict:
    """The JSON document of a comparison of all frameworks."""
    done = subprocess.run(command("--output", "json", *options), capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_mlp_on_mnist_in_every_framework():
    options = ["--workload", "mlp-mnist", "--trials", "2", "--epochs", "1", "--warmup-steps", "200"]
    document = compare(*options, *environments.data_options())
    assert {row["runner"] for row in document["rows"]} == set(environments.FRAMEWORKS)
    for row in document["rows"]:
        assert row["trials"]["succeeded"] == 2
        assert row["accuracy"] > 0.94
    # The same start, the same data, the same request, in every trial of every framework.
    trials = document["trials"]
    assert len(trials) == 2 * len(environments.FRAMEWORKS)
    for key in ("workload_digest", "data_digest", "weights_digest", "service_digest", "parameter_count"):
        assert len({trial["identity"][key] for trial in trials}) == 1
    blocks = [{trial["cell"]["runner"] for trial in trials if trial["block"] == block} for block in range(2)]
    assert blocks == [set(environments.FRAMEWORKS)] * 2
    losses = [trial["measurement"]["test_loss"] for trial in trials]
    assert max(losses) / min(losses) < 1.3


def test_a_model_that_the_catalog_does_not_have():
    document = compare("--workload", str(ROOT / "tests/integration/models/cnn.toml"), "--trials", "1")
    assert [row["trials"]["succeeded"] for row in document["rows"]] == [1] * len(environments.FRAMEWORKS)
    counts = {trial["identity"]["parameter_count"] for trial in document["trials"]}
    assert len(counts) == 1


def test_variants_keep_the_mathematics():
    options = ["--workload", str(ROOT / "tests/integration/models/mlp.toml"), "--trials", "1"]
    document = compare(*options, "--variant", "pipeline=memory", "--variant", "workers=0")
    assert len(document["rows"]) == 2 * len(environments.FRAMEWORKS)
    assert all(row["trials"]["succeeded"] == 1 for row in document["rows"])


def test_a_killed_runner_is_a_failed_row_and_the_rest_is_there(tmp_path):
    victim = environments.FRAMEWORKS[0]
    options = ["--workload", "mlp-mnist", "--trials", "1", "--epochs", "2", "--output", "json"]
    running = subprocess.Popen(
        command(*options, *environments.data_options()),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env=dict(os.environ, NO_COLOR="1"),
    )  # fmt: skip
    killed: list[int] = []

    def kill_in_training() -> None:
        for line in running.stderr:
            if f"{victim}: starting" in line and not killed:
                killed.extend(_kill_trainer(running.pid))

    watcher = threading.Thread(target=kill_in_training)
    watcher.start()
    output = running.stdout.read()
    watcher.join()
    assert running.wait(60) == 1
    assert killed
    rows = {row["runner"]: row for row in json.loads(output)["rows"]}
    assert "PROCESS_DIED" in rows[victim]["text"] and "SIGKILL" in rows[victim]["text"]
    others = [rows[name] for name in environments.FRAMEWORKS[1:]]
    assert [row["trials"]["succeeded"] for row in others] == [1] * len(others)


def _kill_trainer(parent: int) -> list[int]:
    """Kills the training process below ``parent`` once it has worked for longer than an import takes; its number."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in psutil.Process(parent).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                words = process.cmdline()
                if "runners.core.trainer" in words and "-m" in words and process.cpu_times().user > 6:
                    process.kill()
                    return [process.pid]
        time.sleep(0.05)
    return []
