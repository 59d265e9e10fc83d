"""Two hosts in network namespaces at the end of long cables: mutual TLS, two frameworks on both, and cuts.

Needs Linux, root, and ``ip`` and ``tc`` (Debian: apt-get install iproute2); with TRAINYARD_REQUIRE_FRAMEWORKS=1 (CI)
their absence is a failure. The cables delay and lose packets: tests/namespaces.py.
"""

import contextlib
import json
import os
import re
import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller import campaign
from controller.addresses import parse
from controller.catalog import workloads
from controller.events import TrialProgress
from controller.preparation import CompareRequest
from controller.results import FAILED, SUCCEEDED
from controller.store import Store
from tests import environments, namespaces, served
from tests.environments import ROOT

pytestmark = [pytest.mark.framework, pytest.mark.timeout(600)]

HOSTS = {"east": ("10.213.8.1", "10.213.8.2"), "west": ("10.213.9.1", "10.213.9.2")}
FRAMEWORKS = environments.FRAMEWORKS[:2]
# Long enough that a cut in the middle of the measured section is one.
STEPS = 20_000
SHORT_CUT_SECONDS = 2.0
WORKLOAD = """
name = "far"
dataset = { name = "synthetic", shape = [8, 8, 1], classes = 10, samples = 512, test_samples = 64 }
loss = "sparse_categorical_crossentropy"
seed = 5
optimizer = { name = "sgd", learning_rate = 0.1 }
schedule = { batch_size = 16, warmup_steps = 2, steps = 40 }
[[layer]]
op = "flatten"
[[layer]]
op = "dense"
units = 10
"""


@dataclass
class World:
    """Two hosts, how they are reached, and this machine, whose results are in ``data``."""

    folder: Path
    addresses: dict[str, str]
    cables: dict[str, namespaces.Cable]
    data: Path

    @property
    def identity(self) -> Path:
        return self.folder / "certificates" / served.CLIENT

    @property
    def workload(self) -> Path:
        return self.folder / "far.toml"

    def words(self, *hosts: str) -> list[str]:
        """The options of ``compare`` for these hosts."""
        found = ["--certificate", str(self.identity), "--workload", str(self.workload), "--device", "cpu"]
        for name in hosts:
            found += ["--host", f"{name}={self.addresses[name]}"]
        return [*found, "--no-verify"]

    def controller(self, *words: str) -> "subprocess.CompletedProcess[str]":
        variables = dict(os.environ, TRAINYARD_DATA=str(self.data), COLUMNS="250")
        command = [*served.CONTROLLER, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=variables)

    def watched(self, observe, trials, *hosts: str):
        """Compares the reference on these hosts in this process, so that ``observe`` sees each event as it happens.
        Returns the campaign and its trials."""
        words = ["--runner", "reference", "--trials", str(trials), "--steps", str(STEPS), "--pause", "0"]
        request = CompareRequest(
            workloads=(workloads.override(workloads.find(str(self.workload)), steps=STEPS),),
            runners=("reference",),
            trials=trials,
            command=shlex.join(["controller", "compare", *self.words(*hosts), *words]),
            hosts=tuple(parse(f"{name}={self.addresses[name]}") for name in hosts),
            certificate=self.identity,
            verify=False,
        )
        store = Store(self.data / "results.sqlite")
        done = campaign.run(request, observe, store)
        return done, store.trials(done.id)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    obstacle = namespaces.obstacle()
    if obstacle:
        (pytest.fail if environments.REQUIRED else pytest.skip)(obstacle)
    for name in (*FRAMEWORKS, "reference"):
        environments.runner(name)
    folder = tmp_path_factory.mktemp("world")
    (folder / "far.toml").write_text(WORKLOAD)
    (folder / "certificates").mkdir()
    served.issue(folder / "certificates", {name: there for name, (_, there) in HOSTS.items()})
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINYARD_DATA", str(folder / "near"))
        made = World(folder, {}, {}, folder / "near")
        for name, (here, there) in HOSTS.items():
            cable = made.cables[name] = stack.enter_context(namespaces.far_network(f"ty{name}", here, there))
            certificate = str(folder / "certificates" / f"{name}.pem")
            options = ("--runtime", "venv", "--certificate", certificate)
            cache = served.cache_of_another_machine(folder / name / "cache")
            _, made.addresses[name] = stack.enter_context(
                served.host(folder / name, *options, listen=f"{there}:0", prefix=cable.prefix, cache=cache)
            )
        yield made


def test_two_frameworks_on_two_hosts_are_one_table(world):
    chosen = [word for name in FRAMEWORKS for word in ("--runner", name)]
    short = ("--quick", "--steps", "40", "--warmup-steps", "2", "--trials", "2", "--pause", "1")
    done = world.controller("compare", *world.words("east", "west"), *chosen, *short, "--output", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    rows = {(row["runner"], row["host"]): row for row in document["rows"]}
    assert set(rows) == {(runner, host) for runner in FRAMEWORKS for host in HOSTS}
    assert all(row["trials"] == {"succeeded": 2, "asked": 2} for row in rows.values())
    assert len({trial["id"] for trial in document["trials"]}) == len(document["trials"]) == 4 * len(FRAMEWORKS)
    # Everybody trained the same: what was sent over the cables arrived.
    assert len({trial["identity"]["data_digest"] for trial in document["trials"]}) == 1
    arrays = [{file.name for file in (world.folder / host / "cache" / "blobs").glob("*.npy")} for host in HOSTS]
    assert arrays[0] == arrays[1] and len(arrays[0]) == 4
    between = document["workloads"][0]["between_hosts"]
    assert [(found["host"], found["base"]) for found in between] == [("west", "east")] * len(FRAMEWORKS)
    assert all(found["ratio"] > 0 and found["ratio_interval"] for found in between)
    calibrations = {found["host"]: found["values"] for found in document["campaign"]["calibrations"]}
    assert set(calibrations) == set(HOSTS)
    assert all(values["python_loop_s"] > 0 and values["matrix_product_flops"] > 0 for values in calibrations.values())
    text = world.controller("show", document["campaign"]["id"]).stdout
    for runner, host in rows:
        assert re.search(rf"^{re.escape(runner)}\b.*\b{host}\b.* 2/2 ", text, re.MULTILINE), text
    for runner in FRAMEWORKS:
        assert re.search(rf"{re.escape(runner)}.*: west takes [\d.]+ times as long as east", text), text
    calibrated = r"without a framework, loop of Python.*: east [\d.]+ ms, west [\d.]+ ms \([\d.]+ times as long"
    assert re.search(calibrated, text), text


def test_a_cut_fails_the_trial_that_runs_and_no_other(world):
    cut = []

    def observe(event):
        # In the second block, so that west has a trial before. It stays cut: the campaign has to end by itself.
        is_running = isinstance(event, TrialProgress) and event.phase == "measure" and event.cell.host == "west"
        if is_running and event.number > 2 and not cut:
            world.cables["west"].cut()
            cut.append(event.number - 1)

    try:
        done, trials = world.watched(observe, 2, "east", "west")
    finally:
        world.cables["west"].mend()
    places = [(trial.block, trial.cell.host) for trial in trials]
    assert sorted(places) == [(block, host) for block in range(2) for host in ("east", "west")]
    (failed,) = [trial for trial in trials if trial.state != SUCCEEDED]
    assert (failed.state, failed.position, failed.cell.host) == (FAILED, cut[0], "west")
    assert failed.failure.reason == "RUNNER_LOST" and "host west (grpcs://10.213.9.2:" in failed.failure.message
    assert "does not answer" in failed.failure.message and failed.measurement is None
    shown = world.controller("show", done.id, "--output", "json")
    assert shown.returncode == 1  # something failed
    counts = {row["host"]: row["trials"] for row in json.loads(shown.stdout)["rows"]}
    assert counts == {"east": {"succeeded": 2, "asked": 2}, "west": {"succeeded": 1, "asked": 2}}
    # It alone is run again, in its place.
    again = world.controller("compare", "--resume", done.id, "--output", "json")
    assert again.returncode == 0, again.stderr
    after = json.loads(again.stdout)
    assert all(row["trials"] == {"succeeded": 2, "asked": 2} for row in after["rows"])
    kept = {trial.id for trial in trials if trial is not failed}
    ids = [trial["id"] for trial in after["trials"]]
    assert len(ids) == len(set(ids)) == 4 and kept < set(ids) and failed.id not in ids


def test_a_cable_that_is_mended_soon_costs_no_trial(world):
    cut = []

    def observe(event):
        if not cut and isinstance(event, TrialProgress) and event.phase == "measure":
            cut.append(event.number)
            world.cables["east"].cut()
            time.sleep(SHORT_CUT_SECONDS)
            world.cables["east"].mend()

    _, trials = world.watched(observe, 1, "east")
    assert cut == [1]
    (trial,) = trials
    assert trial.state == SUCCEEDED, trial.failure
    assert len(trial.measurement.step_seconds) == STEPS
