"""Certificates before trials, over real server processes: right and wrong adapters, what is kept, what is missing."""

import io
import json
import os
import sys
from pathlib import Path

import pytest
import trainyard
from rich.console import Console
from trainyard.source import source_digest

from controller import campaign, paths, places, preparation
from controller.catalog import workloads
from controller.catalog.runners import Locks, RunnerSpec
from controller.cli import main
from controller.comparison import compare
from controller.errors import BuildError
from controller.events import Note, ProbeProgress, TrialProgress
from controller.preparation import CompareRequest
from controller.report import json_, matrix
from controller.results import FAIL, PASS, SUCCEEDED, UNSUPPORTED, Cell, Environment, Variant
from controller.runtimes.base import Availability
from controller.runtimes.process import Launch, LocalRunner
from controller.runtimes.service import Staged
from controller.store import Store
from tests.unit.controller.test_campaign import WORKLOAD

ROOT = Path(__file__).resolve().parents[3]
SERVICE = Path(os.pathsep.join(str(ROOT / part) for part in (".", "proto", "tests")))
ADAPTERS = {
    "reference": "runners.reference.adapter",
    "right": "tests.unit.runners.mutants.single_precision",
    "other-right": "tests.unit.runners.mutants.single_precision",
    "skipping": "tests.unit.runners.mutants.skipped_step",
}


class HouseRuntime:
    """Runners by the names of ``ADAPTERS``; any other name is a made-up framework that behaves so. ``asked`` are those
    that were prepared, ``broken`` those that cannot be."""

    name = "house"

    def __init__(self):
        self.asked = []
        self.broken = set()
        self.digest = "digest-of-{}"

    def availability(self, spec, device="cpu"):
        return Availability(True)

    def prepare(self, specs, device, observe):
        self.asked += [spec.name for spec in specs]
        return {spec.name: self._prepared(spec) for spec in specs}

    def _prepared(self, spec):
        if spec.name in self.broken:
            return BuildError(f"{spec.name}: no space left", "free some")
        launch = Launch(spec.name, Path(sys.executable), spec.adapter, SERVICE, {"FAKE_BEHAVIOUR": spec.name})
        return LocalRunner(spec, Environment("house", self.digest.format(spec.name)), launch)


def _spec(name):
    known = name in ADAPTERS
    return RunnerSpec(
        name=name, version="1.0", distribution="trainyard-reference" if known else "fake", python="3.11", default=True,
        locks=Locks(cpu="lock.txt"), framework="house", display_name="House", homepage="https://example.org",
        adapter=ADAPTERS.get(name, "fakes.adapter"), folder=ROOT,
    )  # fmt: skip


class House:
    def __init__(self, folder):
        self.runtime = HouseRuntime()
        self.store = Store(paths.data_folder() / "results.sqlite")
        self.file = folder / "tiny.toml"
        self.file.write_text(WORKLOAD)
        self.events = []

    def request(self, *runners, **options):
        workload = workloads.find(str(self.file))
        return CompareRequest(workloads=(workload,), runners=runners, trials=1, order_seed=3, **options)

    def verify(self, *runners, **options):
        """{runner: certificate}, and the probes that were asked for."""
        self.events.clear()
        found = campaign.verify(self.request(*runners, **options), self.events.append, self.store)
        return {entry.cell.runner: entry.certificate for entry in found.certificates}, self.probed()

    def probed(self):
        return [each.runner for each in self.events if isinstance(each, ProbeProgress) and each.state != "running"]


@pytest.fixture
def house(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path / "data"))
    built = House(tmp_path)
    packages = {"runners": str(ROOT / "runners"), "trainyard": str(Path(trainyard.__file__).parent)}
    monkeypatch.setattr(preparation, "stage", lambda: Staged(SERVICE, source_digest(packages)))
    monkeypatch.setattr(places, "VenvRuntime", lambda gpu: built.runtime)
    monkeypatch.setattr(places.runner_catalog, "select", lambda names: [_spec(name) for name in names])
    return built


def test_a_row_that_does_other_work_is_shown_and_never_ranked(house):
    done = campaign.run(house.request("right", "other-right", "skipping"), house.events.append, house.store)
    trials = house.store.trials(done.id)
    assert [trial.state for trial in trials] == [SUCCEEDED] * 3
    comparison = compare(done, trials)
    (group,) = comparison.groups
    assert [(row.cell.runner, row.is_unequal) for row in group.rows][-1] == ("skipping", True)
    assert [row.rank for row in group.rows] == [1, 2, None] and group.rows[-1].ratio is None
    assert group.problems == () and not comparison.is_sound
    assert group.rows[-1].certificate.text.startswith("parts from the reference at optimizer sgd: loss of step 4 ")
    # What stands in the store is what was certified, and nothing was timed before all probes were done.
    assert house.store.campaign(done.id) == done
    kinds = [type(each) for each in house.events if isinstance(each, ProbeProgress | TrialProgress)]
    assert kinds == sorted(kinds, key=[ProbeProgress, TrialProgress].index)
    document = json_.document(comparison, trials)
    assert {row["runner"]: row["certificate"]["state"] for row in document["rows"]} == {
        "right": PASS, "other-right": PASS, "skipping": FAIL
    }  # fmt: skip


def test_rows_are_compared_with_the_reference_and_with_each_other(house):
    found, probed = house.verify("right", "other-right")
    assert {name: each.state for name, each in found.items()} == {"right": PASS, "other-right": PASS}
    assert found["right"].against == ("the reference", "other-right")
    assert probed == ["reference", "reference", "right", "other-right"]
    assert house.runtime.asked == ["right", "other-right", "reference"]


def test_a_second_run_starts_nothing_and_says_the_same(house):
    first, _ = house.verify("right", "skipping")
    house.runtime.asked.clear()
    assert house.verify("right", "skipping") == (first, [])
    assert house.runtime.asked == ["right", "skipping"]  # no reference is built for what is known
    # Another length of the same workload is the same work.
    house.file.write_text(WORKLOAD.replace("epochs = 2", "epochs = 7"))
    assert house.verify("right", "skipping")[1] == []
    assert house.verify("right", fresh=True)[1] == ["reference", "reference", "right"]


def test_whatever_the_answer_depends_on_asks_again(house):
    house.verify("right")
    house.runtime.digest = "other-{}"
    assert house.verify("right")[1] == ["right"]
    assert house.verify("right", variants=(Variant(pipeline="memory"),))[1] == ["right"]
    assert house.verify("right", variants=(Variant(layout="nhwc"),))[1] == ["right"]
    house.file.write_text(WORKLOAD.replace("seed = 7", "seed = 8"))
    assert house.verify("right")[1] == ["reference", "reference", "right"]


def test_an_environment_that_nobody_can_name_is_asked_every_time(house):
    house.runtime.digest = ""
    assert house.verify("right")[1] == ["reference", "reference", "right"]
    assert house.verify("right")[1] == ["right"]


def test_what_a_framework_cannot_do_is_an_answer_that_is_kept(house):
    found, _ = house.verify("right", "no-relu")
    assert (found["no-relu"].state, found["right"].state) == (UNSUPPORTED, PASS)
    assert "Fake has no layer relu" in found["no-relu"].text
    assert house.verify("right", "no-relu") == (found, [])


def test_a_variant_that_this_machine_lacks_something_for_is_asked_again(house):
    jit = (Variant(jit=True),)
    found, asked = house.verify("right", variants=jit)
    assert found["right"].state == UNSUPPORTED and asked == ["reference", "reference", "right"]
    assert house.verify("right", variants=jit)[1] == ["right"]


def test_a_probe_that_crashes_is_a_failure_and_the_rest_is_there(house):
    found, _ = house.verify("good", "right")
    assert (found["good"].state, found["right"].state) == (FAIL, PASS)
    assert found["good"].text.startswith("its probe failed: ") and found["good"].against == ()
    assert house.verify("good", "right")[1] == ["good"]


def test_without_a_reference_rows_are_compared_with_each_other(house):
    house.runtime.broken.add("reference")
    found, _ = house.verify("right", "other-right")
    assert {name: each.state for name, each in found.items()} == {"right": PASS, "other-right": PASS}
    assert found["right"].against == ("other-right",)
    found, _ = house.verify("right", "skipping")
    assert {name: each.state for name, each in found.items()} == {"right": FAIL, "skipping": FAIL}
    assert found["right"].text.startswith("parts from skipping at optimizer sgd: loss of step 4 ")


def test_alone_and_without_a_reference_nothing_is_certified(house):
    house.runtime.broken.add("reference")
    assert house.verify("right")[0] == {}
    notes = [each.text for each in house.events if isinstance(each, Note)]
    assert notes == [
        "right on tiny: no reference (reference: no space left; free some), and nothing else to compare with"
    ]


def test_a_runner_that_cannot_be_built_has_no_certificate(house):
    house.runtime.broken.add("right")
    found = campaign.verify(house.request("right", "other-right"), house.events.append, house.store)
    assert not found.is_sound
    entries = matrix.entries(found.cells, found.certificates, found.absent)
    assert [(each.cell.runner, each.result) for each in entries] == [("right", "absent"), ("other-right", PASS)]
    assert entries[0].words() == "no runner: right: no space left; free some"


def test_the_command_prints_the_matrix_and_where_two_part(house, capsys):
    words = ["verify", "--workload", str(house.file)]
    for name in ("right", "skipping", "no-relu"):
        words += ["--runner", name]
    assert main.run(words) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["runner", "tiny"]
    assert {line.split()[0]: " ".join(line.split()[1:]) for line in out[2:5]} == {
        "right": "pass", "skipping": "FAIL", "no-relu": "not supported"
    }  # fmt: skip
    assert out[5].startswith("skipping on tiny: FAIL: parts from the reference at optimizer sgd: loss of step 4 ")
    assert out[6] == "no-relu on tiny: not supported: Fake has no layer relu"
    assert main.run([*words[:3], "--runner", "right", "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["format"], document["version"]) == ("trainyard-verification", 1)
    (cell,) = document["cells"]
    assert (cell["runner"], cell["result"], cell["certificate"]["compared"]["loss"]) == ("right", PASS, 5)


def test_a_matrix_that_does_not_fit_is_a_list():
    cells = [Cell(name, f"workload-{number}", "a1" * 32) for number in range(9) for name in ("right", "wrong")]
    entries = matrix.entries(cells, (), {})
    stream = io.StringIO()
    matrix.render(entries, (), Console(file=stream, width=80))
    lines = stream.getvalue().splitlines()
    assert lines[0].split() == ["runner", "workload", "result"]
    assert [line.split() for line in lines[2:20]] == [[cell.runner, cell.workload, "unknown"] for cell in cells]
    assert lines[20] == "right on workload-0: unknown: there is nothing to compare it with"
