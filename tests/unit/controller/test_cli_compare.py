"""``controller compare`` around a campaign that only pretends: what it asks for, prints and returns."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from controller import campaign
from controller.cli import main
from controller.errors import DatasetError
from controller.events import BuildProgress, Note, TrialDone
from controller.results import FAILED, Variant
from controller.store import Store
from tests.unit.controller import made_up

A, B = made_up.cell("tensorflow-2.6.0"), made_up.cell("pytorch-1.11.0")


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    """Puts ``entries`` in the store instead of training; ``asked`` receives the request."""
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("COLUMNS", raising=False)

    class Pretend:
        entries = (*made_up.trials(A, 30.0, 31.0), *made_up.trials(B, 20.0, 21.0))
        asked = None
        error = None

        def run(self, request, observe, store):
            self.asked = request
            done = replace(made_up.campaign(A, B, trials=2, notes=("synthetic data",)), command=request.command)
            store.add_campaign(done)
            observe(BuildProgress("pytorch-1.11.0", "done"))
            observe(Note("synthetic data"))
            for number, entry in enumerate(self.entries, 1):
                store.add_trial(replace(entry, position=number))
                observe(TrialDone(number, 4, entry))
            if self.error is not None:
                raise self.error(done) if self.error is campaign.CampaignInterrupted else self.error
            return done

    fake = Pretend()
    monkeypatch.setattr(campaign, "run", fake.run)
    return fake


def test_table_on_standard_output_and_progress_on_standard_error(pretend, capsys):
    assert main.run(["compare", "--quick"]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"^pytorch-1\.11\.0 +2/2 .* 20\.50 .*1\.00", out, re.MULTILINE)
    assert "fastest: pytorch-1.11.0" in out
    assert "note: synthetic data" in out
    assert "results.sqlite" in out
    assert "\x1b" not in out + err
    assert "pytorch-1.11.0: ready\n" in err
    assert "trial 4/4 pytorch-1.11.0: 21.00 s, accuracy 0.9754\n" in err


def test_json_alone_on_standard_output(pretend, capsys, tmp_path):
    assert main.run(["compare", "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["runner"] for row in document["rows"]] == ["pytorch-1.11.0", "tensorflow-2.6.0"]
    assert document["stored_at"] == str(tmp_path / "data" / "results.sqlite")


def test_a_failed_row_is_exit_code_1(pretend, capsys):
    pretend.entries = (*made_up.trials(A, 30.0, 31.0), *made_up.lost(B, FAILED, "PROCESS_DIED", "code -9", count=2))
    assert main.run(["compare"]) == 1
    assert "pytorch-1.11.0: failed: PROCESS_DIED code -9" in capsys.readouterr().out


def test_defaults_of_the_request(pretend):
    main.run(["compare"])
    asked = pretend.asked
    assert (asked.device, asked.gpu_index, asked.trials, asked.runners) == ("cpu", None, 5, ())
    assert asked.variants == (Variant(),)
    (workload,) = asked.workloads
    assert (workload.name, workload.schedule.epochs, workload.schedule.batch_size) == ("mlp-mnist", 20, 32)
    assert asked.threads >= 1


def test_options_reach_the_request(pretend, tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text("")
    words = [
        "compare", "--runner", "reference", "--runner", "reference",
        "--workload", "mlp-mnist", "--workload", "cnn-mnist", "--variant", "default", "--variant", "jit",
        "--trials", "7", "--seed", "11", "--order-seed", "12", "--threads", "3", "--steps", "40", "--batch-size", "16",
        "--warmup-steps", "4", "--data-dir", str(tmp_path), "--interpreter", f"reference={python}",
    ]  # fmt: skip
    monkeypatch.setattr("sys.argv", ["controller", *words])
    main.run(words)
    asked = pretend.asked
    assert asked.runners == ("reference",)
    assert [workload.name for workload in asked.workloads] == ["mlp-mnist", "cnn-mnist"]
    for workload in asked.workloads:
        schedule = workload.schedule
        assert (schedule.steps, schedule.warmup_steps, schedule.batch_size, workload.seed) == (40, 4, 16, 11)
    assert asked.variants == (Variant(), Variant(jit=True))
    assert (asked.trials, asked.order_seed, asked.threads, asked.data_dir) == (7, 12, 3, tmp_path)
    assert asked.interpreters == (("reference", python),)
    assert asked.command.startswith("controller compare --runner reference ")
    assert asked.command.count("--order-seed") == 1


def test_each_seed_is_a_workload_of_its_own(pretend):
    main.run(["compare", "--seed", "3", "--seed", "4", "--seed", "3", "--quick"])
    assert [workload.seed for workload in pretend.asked.workloads] == [3, 4]


def test_a_drawn_order_can_be_repeated_from_the_printed_command(pretend, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["controller", "compare", "--quick"])
    main.run(["compare", "--quick"])
    assert pretend.asked.trials == 3
    command = f"controller compare --quick --order-seed {pretend.asked.order_seed}"
    assert pretend.asked.command == command
    assert f"repeat: {command}\n" in capsys.readouterr().out


def test_an_interrupt_prints_what_there_is_and_returns_130(pretend, capsys):
    pretend.entries = made_up.trials(A, 30.0)
    pretend.error = campaign.CampaignInterrupted
    assert main.run(["compare"]) == 130
    out, err = capsys.readouterr()
    assert re.search(r"^tensorflow-2\.6\.0 +1/2 ", out, re.MULTILINE)
    assert re.search(r"^pytorch-1\.11\.0 +0/2 .* not run ", out, re.MULTILINE)
    assert err.endswith("to go on: controller compare --resume 20240102-030405-abc\nerror: interrupted\n")


def test_a_known_error_is_one_line_and_trials_stay_stored(pretend, capsys, tmp_path):
    pretend.error = DatasetError("mnist.npz is damaged", "delete it")
    assert main.run(["compare"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[-1]) == ("", "error: mnist.npz is damaged; delete it")
    assert len(Store(tmp_path / "data" / "results.sqlite").trials("20240102-030405-abc")) == 4


def test_a_bug_is_one_line_with_the_file_that_holds_the_traceback(pretend, capsys):
    pretend.error = RuntimeError("boom")
    assert main.run(["compare"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    match = re.fullmatch(
        r"error: unexpected RuntimeError, a bug of this tool; please report it with the file (.+)", last
    )
    assert "RuntimeError: boom" in Path(match.group(1)).read_text(encoding="utf-8")
