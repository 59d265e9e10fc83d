"""A campaign over real server processes of made-up frameworks: order, identity, failures, what is stored when."""

import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import trainyard
from trainyard.source import source_digest

from controller import campaign, places, preparation
from controller.catalog import workloads
from controller.catalog.runners import Locks, RunnerSpec
from controller.comparison import compare
from controller.errors import BuildError, HostError, StoreBusyError
from controller.events import Note, TrialDone, TrialProgress
from controller.preparation import CompareRequest
from controller.results import FAILED, SUCCEEDED, UNSUPPORTED, Environment
from controller.runtimes.base import Availability
from controller.runtimes.process import Launch, LocalRunner
from controller.runtimes.service import Staged
from controller.store import Store

ROOT = Path(__file__).resolve().parents[3]
WORKLOAD = """
name = "tiny"
loss = "sparse_categorical_crossentropy"
seed = 7
[dataset]
name = "synthetic"
shape = [4]
classes = 3
samples = 64
test_samples = 16
[optimizer]
name = "sgd"
learning_rate = 0.1
[schedule]
batch_size = 8
warmup_steps = 2
epochs = 2
[[layer]]
op = "dense"
units = 3
[[layer]]
op = "relu"
[[layer]]
op = "dense"
units = 3
"""


class FakeRuntime:
    """Runners whose names say how they behave; ``absent`` ones cannot be had, ``unbuildable`` ones not built."""

    name = "fake"

    def __init__(self, folder):
        self.folder = folder

    def availability(self, spec, device="cpu"):
        return Availability(spec.name != "absent", "needs Python 2.2", "install it")

    def prepare(self, specs, device, observe):
        return {spec.name: self._prepared(spec) for spec in specs}

    def _prepared(self, spec):
        if spec.name == "unbuildable":
            return BuildError("unbuildable: no matching distribution", "see the log", "pip said no")
        variables = {"FAKE_BEHAVIOUR": spec.name, "FAKE_CHILD_FILE": str(self.folder / "child")}
        launch = Launch(spec.name, Path(sys.executable), spec.adapter, self.folder / "service", variables)
        return LocalRunner(spec, Environment("fake", "digest-of-" + spec.name), launch)


def spec(name):
    return RunnerSpec(
        name=name, version="1.0" if name != "other-version" else "2.0", distribution="fake", python="3.11",
        default=True, locks=Locks(cpu="lock.txt"), framework="fake", display_name="Fake", adapter="fakes.adapter",
        homepage="https://example.org", folder=ROOT,
    )  # fmt: skip


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A machine with fake runners and an empty store."""
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path / "data"))
    service = tmp_path / "service"
    for source in (ROOT / "runners", Path(trainyard.__file__).parent, ROOT / "tests" / "fakes"):
        shutil.copytree(source, service / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    digest = source_digest({name: str(service / name) for name in ("runners", "trainyard")})
    monkeypatch.setattr(preparation, "stage", lambda: Staged(service, digest))
    monkeypatch.setattr(places, "VenvRuntime", lambda gpu: FakeRuntime(tmp_path))
    monkeypatch.setattr(places.runner_catalog, "select", lambda names: [spec(name) for name in names or DEFAULT])
    file = tmp_path / "tiny.toml"
    file.write_text(WORKLOAD)
    return House(Store(tmp_path / "results.sqlite"), workloads.find(str(file)))


DEFAULT = ["good", "absent"]


class House:
    def __init__(self, store, workload):
        self.store = store
        self.workload = workload
        self.events = []

    def compare(self, *runners, trials=2, observe=None, **more):
        request = CompareRequest(
            workloads=(self.workload,), runners=runners, trials=trials, order_seed=3, verify=False, **more
        )
        done = campaign.run(request, observe or self.events.append, self.store)
        return done, self.store.trials(done.id)


def test_trials_are_interleaved_fresh_and_identified(house):
    done, trials = house.compare("good", "child-free", trials=3)
    assert [trial.state for trial in trials] == [SUCCEEDED] * 6
    assert [trial.position for trial in trials] == list(range(6))
    for block in range(3):
        assert {trial.cell.runner for trial in trials if trial.block == block} == {"good", "child-free"}
    assert len({trial.identity.weights_digest for trial in trials}) == 1
    assert trials[0].identity.workload_digest == done.workloads[0].digest == done.cells[0].workload_digest
    assert trials[0].environment.digest == f"digest-of-{trials[0].cell.runner}"
    assert len(trials[0].measurement.step_seconds) == 16


def test_a_trial_that_cannot_be_stored_at_once_is_not_lost(house, monkeypatch):
    monkeypatch.setattr(campaign, "_KEEP_PAUSE_SECONDS", 0.01)
    keep, refusals = house.store.add_trial, iter([StoreBusyError("it is locked"), StoreBusyError("it is locked")])

    def add_trial(trial, outdated=""):
        if error := next(refusals, None):
            raise error
        keep(trial, outdated)

    monkeypatch.setattr(house.store, "add_trial", add_trial)
    _, trials = house.compare("good", trials=1)
    assert [trial.state for trial in trials] == [SUCCEEDED]
    notes = [each.text for each in house.events if isinstance(each, Note)]
    assert notes == ["the trial that has just ended cannot be stored yet: it is locked; trying again"] * 2


def test_whole_blocks_are_added_until_times_are_precise_enough(house):
    done, trials = house.compare("good", "child-free", until_precision=1e-9, max_trials=4)
    assert [trial.block for trial in trials] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [row.asked for row in compare(done, trials).rows] == [4, 4]
    _, trials = house.compare("good", "child-free", until_precision=1e300, max_trials=4)
    assert len(trials) == 4


def test_a_trial_is_stored_before_it_is_reported(house):
    seen = []

    def observe(event):
        if isinstance(event, TrialDone):
            seen.append(event.trial in house.store.trials(event.trial.campaign))

    house.compare("good", observe=observe)
    assert seen == [True, True]


@pytest.mark.parametrize(
    ("runner", "state", "reason"),
    [
        ("killed", FAILED, "PROCESS_DIED"),
        ("out-of-memory", FAILED, "OUT_OF_MEMORY"),
        ("nan", FAILED, "NON_FINITE_LOSS"),
        ("no-device", FAILED, "DEVICE_MISSING"),
        ("other-device", FAILED, "FALLBACK"),
        ("other-version", FAILED, "WRONG_VERSION"),
        ("broken-import", FAILED, "PROCESS_DIED"),
        ("unbuildable", FAILED, "NO_ENVIRONMENT"),
        ("no-relu", UNSUPPORTED, "UNSUPPORTED layer relu"),
    ],
)
def test_one_failing_runner_is_a_row_and_the_rest_is_there(house, runner, state, reason):
    _, trials = house.compare("good", runner)
    failed = [trial for trial in trials if trial.cell.runner == runner]
    assert [(trial.state, trial.failure.reason) for trial in failed][:1] == [(state, reason)]
    assert [trial.state for trial in trials if trial.cell.runner == "good"] == [SUCCEEDED] * 2


def test_what_will_never_work_is_tried_once(house):
    _, trials = house.compare("good", "no-relu", "unbuildable", trials=3)
    counts = {name: sum(trial.cell.runner == name for trial in trials) for name in ("good", "no-relu", "unbuildable")}
    assert counts == {"good": 3, "no-relu": 1, "unbuildable": 1}


def test_a_server_that_is_killed_is_named_with_its_signal(house):
    killed = []

    def observe(event):
        if isinstance(event, TrialProgress) and event.cell.runner == "slow" and event.phase == "started":
            for process in psutil.Process().children(recursive=True):
                if "runners.core.server" in process.cmdline():
                    process.kill()
                    killed.append(process.pid)

    _, trials = house.compare("slow", "good", trials=1, observe=observe)
    failure = next(trial.failure for trial in trials if trial.cell.runner == "slow")
    assert killed and failure.reason == "PROCESS_DIED" and "SIGKILL" in failure.message
    assert [trial.state for trial in trials if trial.cell.runner == "good"] == [SUCCEEDED]


def test_default_runners_that_cannot_be_had_are_noted(house):
    done, trials = house.compare()
    assert {trial.cell.runner for trial in trials} == {"good"}
    assert done.notes == ("absent is left out: needs Python 2.2 (install it)", campaign.UNVERIFIED)


def test_nothing_to_compare_is_an_error(house, monkeypatch):
    monkeypatch.setattr(places.runner_catalog, "select", lambda names: [spec("absent")])
    with pytest.raises(HostError, match="needs Python"):
        house.compare()


def test_the_only_runner_that_cannot_be_built_is_the_error(house):
    with pytest.raises(BuildError, match="no matching distribution"):
        house.compare("unbuildable")


def test_an_interrupt_keeps_what_has_finished_and_stops_the_runner(house):
    def observe(event):
        if isinstance(event, TrialProgress) and event.number == 2 and event.phase == "started":
            raise KeyboardInterrupt

    with pytest.raises(campaign.CampaignInterrupted) as caught:
        house.compare("good", trials=3, observe=observe)
    trials = house.store.trials(caught.value.campaign.id)
    assert [trial.state for trial in trials] == [SUCCEEDED]
    assert not [p for p in psutil.Process().children(recursive=True) if "runners.core" in " ".join(p.cmdline())]


def test_the_store_gives_back_what_it_was_given(house):
    done, trials = house.compare("good", trials=1)
    again = Store(house.store.path)
    assert again.campaign(done.id) == done
    assert again.campaigns() == [done]
    assert again.trials(done.id) == trials


def test_two_controllers_may_make_the_store_at_once(tmp_path):
    code = "import sys, pathlib; from controller.store import Store; Store(pathlib.Path(sys.argv[1])).campaigns()"
    path = tmp_path / "results.sqlite"
    runs = [subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=ROOT) for _ in range(4)]
    assert [run.wait(60) for run in runs] == [0] * 4
