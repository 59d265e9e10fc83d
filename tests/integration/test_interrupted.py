"""``compare`` is interrupted at ten random moments, by Ctrl-C and kill -9: nothing is lost, and nothing done twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from controller.store import Store
from tests import environments
from tests.environments import ROOT

pytestmark = [pytest.mark.framework, pytest.mark.timeout(600)]
MODEL = str(ROOT / "tests/integration/models/mlp.toml")
TRIALS = 4
OPTIONS = [
    "--device", "cpu", "--runner", "reference", "--variant", "pipeline=memory", "--variant", "workers=0",
    "--workload", MODEL, "--trials", str(TRIALS), "--threads", "1", "--order-seed", "5", "--pause", "0",
]  # fmt: skip
# As ``python -m controller``, but it says when Ctrl-C is its own: before that Python itself answers.
PROGRAM = """
import sys
from controller import interrupts
interrupts.install()
print("begun", file=sys.stderr, flush=True)
from controller.__main__ import main
main()
"""
# A campaign that goes on says four lines before its first trial ends, one or more for each that follows.
LINES = 9
# Whether a row has these depends on times alone.
BY_TIME = {"ratio_interval", "ties", "flags"}


class House:
    """Somebody who has a results file of their own, and the environments of all tests."""

    def __init__(self, folder):
        self.path = folder / "results.sqlite"
        self._variables = dict(os.environ, TRAINYARD_DATA=str(folder))
        self._variables["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "proto")])

    def start(self, *words):
        command = [sys.executable, "-c", PROGRAM, "compare", *words]
        running = subprocess.Popen(
            command, cwd=ROOT, env=self._variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert running.stderr.readline() == "begun\n"
        return running

    def document(self, *words):
        """The JSON of a comparison that nobody interrupts."""
        output, error = (running := self.start(*words, "--output", "json")).communicate()
        assert running.returncode == 0, error
        return json.loads(output)

    def campaigns(self):
        return [campaign.id for campaign in Store(self.path).campaigns()] if self.path.exists() else []

    def trials(self):
        return {trial.id: trial for name in self.campaigns() for trial in Store(self.path).trials(name)}


def plan(document):
    """What was run in which place."""
    found = [(trial["position"], trial["block"], label(trial["cell"]), trial["state"]) for trial in document["trials"]]
    return sorted(found)


def label(cell):
    return cell["runner"], cell["variant"]["pipeline"], cell["variant"]["workers"]


def table(document):
    """The shape of a table: its rows, and which of their columns are filled."""
    rows = [
        (row["label"], row["workload_digest"], row["trials"], row["certificate"]["state"],
         sorted(key for key, text in row["shown"].items() if text not in ("", "-") and key not in BY_TIME))
        for row in document["rows"]
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row[0])


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupted_at_ten_random_moments_none_is_lost_and_none_twice(tmp_path):
    environments.runner("reference")
    generator = random.Random(26)
    kinds = [signal.SIGINT, signal.SIGKILL] * 5
    generator.shuffle(kinds)
    house, seen = House(tmp_path / "interrupted"), {}
    for kind in kinds:
        running = house.start(*(["--resume"] if house.campaigns() else OPTIONS))
        # So a moment is anywhere in what it does, however fast the machine is.
        lines = [running.stderr.readline() for _ in range(generator.randint(0, LINES))]
        time.sleep(generator.uniform(0.0, 0.8))
        # A terminal sends Ctrl-C to all that was started from it.
        (os.killpg if kind == signal.SIGINT else os.kill)(running.pid, kind)
        error = "".join(lines) + running.communicate(timeout=60)[1]
        # 0: it had just ended.
        assert running.returncode in (0, 130 if kind == signal.SIGINT else -kind), error
        assert "Traceback" not in error
        found = house.trials()
        assert seen == {name: trial for name, trial in found.items() if name in seen}
        seen = found
    begun = house.campaigns()
    done = house.document(*(["--resume"] if begun else OPTIONS))
    assert len(house.campaigns()) == 1
    whole = house.document(*OPTIONS)
    assert {trial["id"] for trial in done["trials"]} >= set(seen)
    assert len(plan(whole)) == 2 * TRIALS and {state for *_, state in plan(whole)} == {"succeeded"}
    assert plan(done) == plan(whole)
    assert table(done) == table(whole)
