"""A campaign that was interrupted goes on: what counts as done, what is run again and why, and that nothing is lost."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from controller import campaign, hosts
from controller.cli import main
from controller.cli.resume import as_stored, stored_options
from controller.comparison import compare
from controller.errors import UsageError
from controller.events import TrialProgress
from controller.preparation import CompareRequest
from controller.results import CANCELLED, FAILED, SUCCEEDED, UNSUPPORTED, Environment
from controller.resuming import ASKED, FAILED_ASKED, Now, Sorted, check_host, note, sort_out
from controller.running import held
from controller.store import Store
from tests.unit.controller import killed_campaign, made_up
from tests.unit.controller.made_up import IDENTITY, MACHINE, cell, trial, trials
from tests.unit.controller.test_campaign import ROOT, house

__all__ = ["house"]
A = cell("a-1")
VENV = Environment("venv", "c3" * 32, "/environments/x")
NOW = Now({("local", "a-1"): VENV}, {"local": ""}, IDENTITY.service_digest)


# --- what counts as done -----------------------------------------------------------------------------------


def test_a_trial_of_what_would_run_now_is_done():
    found = sort_out(trials(A, 1.0, 2.0), NOW)
    assert (len(found.done), found.outdated, found.reasons) == (2, {}, ())


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (
            replace(NOW, environments={("local", "a-1"): replace(VENV, digest="00" * 32)}),
            "its environment is another now",
        ),
        (
            replace(NOW, environments={("local", "a-1"): replace(VENV, runtime="docker")}),
            "its environment is another now",
        ),
        (replace(NOW, devices={"local": "GPU-1"}), "its device is another now"),
        (replace(NOW, service_digest="00" * 32), "its source of the runner service is another now"),
    ],
)
def test_a_trial_of_something_else_is_run_again(now, reason):
    found = sort_out(trials(A, 1.0), now)
    assert (found.done, list(found.outdated.values())) == ((), ["a-1-0"])
    assert found.reasons == (f"a-1, 1 of its trials: {reason}",)


def test_the_same_environment_elsewhere_is_the_same_but_another_interpreter_is_not():
    moved = replace(VENV, location="/moved")
    assert sort_out(trials(A, 1.0), replace(NOW, environments={("local", "a-1"): moved})).done
    own = [replace(entry, environment=Environment("interpreter", "", "/usr/bin/python3")) for entry in trials(A, 1.0)]
    here = Environment("interpreter", "", "/opt/python3")
    found = sort_out(own, replace(NOW, environments={("local", "a-1"): here}))
    assert found.reasons == ("a-1, 1 of its trials: its interpreter is another now",)


def test_what_was_cut_short_or_never_showed_itself_is_run_again():
    whole = trial(A, 0, CANCELLED, run=None)
    silent = made_up.lost(A, UNSUPPORTED, "UNSUPPORTED_LAYER", "lstm", count=1)
    assert sort_out([whole], NOW).reasons == ("a-1, 1 of its trials: it was cancelled",)
    assert sort_out(silent, NOW).reasons == ("a-1, 1 of its trials: it ended before it showed what it ran on",)
    # A failure that is known to be of what would run now is a result.
    failed = trial(A, 0, FAILED, failure=made_up.Failure("OUT_OF_MEMORY", "killed"))
    assert sort_out([failed], NOW).done == (failed,)
    good = trials(A, 1.0)[0]
    again = sort_out([good, failed], NOW, rerun_failed=True)
    assert again.done == (good,) and again.reasons == (f"a-1, 1 of its trials: {FAILED_ASKED}",)


def test_what_cannot_be_run_again_stays():
    gone = replace(NOW, environments={("local", "a-1"): None})
    failed = [replace(trial, state=FAILED) for trial in trials(A, 1.0, 2.0)]
    for options in ({}, {"rerun": True}, {"rerun_failed": True}):
        assert len(sort_out(failed, gone, **options).done) == 2


def test_all_are_run_again_where_that_is_asked():
    assert sort_out(trials(A, 1.0, 2.0), NOW, rerun=True).reasons == (f"a-1, 2 of its trials: {ASKED}",)


def test_another_host_is_refused():
    check_host(made_up.campaign(A), {"local": MACHINE})
    with pytest.raises(UsageError, match="begun with another processor: Example CPU"):
        check_host(made_up.campaign(A), {"local": replace(MACHINE, cpu="Other")})


def test_the_note_says_what_was_kept_how_old_it_is_and_why_others_ran_again():
    kept = sort_out(trials(A, 1.0, 2.0), NOW)
    assert note(kept, "2024-01-02T05:04:05+00:00") == (
        "continued at 2024-01-02T05:04:05+00:00: 2 trials from 2024-01-02T03:04:05Z on were kept, the oldest 2 h old"
    )
    assert note(replace(kept, reasons=("why",)), "2024-01-05T03:04:05Z").endswith("the oldest 3 d old; run again: why")
    assert note(Sorted(reasons=("why",)), "x") == "continued at x: no trial was kept; run again: why"


# --- campaigns of made-up frameworks -----------------------------------------------------------------------


def stop_at(number):
    def observe(event):
        if isinstance(event, TrialProgress) and event.number == number and event.phase == "started":
            raise KeyboardInterrupt

    return observe


def shape(store, name):
    return sorted((entry.block, entry.position, entry.cell.runner, entry.state) for entry in store.trials(name))


def test_an_interrupted_campaign_goes_on_in_its_order(house):
    with pytest.raises(campaign.CampaignInterrupted) as caught:
        house.compare("good", "no-relu", "unbuildable", trials=3, observe=stop_at(4))
    begun = caught.value.campaign
    before = house.store.trials(begun.id)
    assert 0 < len(before) < 5
    done, after = house.compare("good", "no-relu", "unbuildable", trials=3, resumed=begun)
    counts = {name: sum(entry.cell.runner == name for entry in after) for name in ("good", "no-relu", "unbuildable")}
    assert counts == {"good": 3, "no-relu": 1, "unbuildable": 1}
    good = [entry.id for entry in before if entry.state == SUCCEEDED]
    assert set(good) <= {entry.id for entry in after}
    assert done.id == begun.id and "were kept" in done.notes[-1]
    assert house.store.campaign(begun.id) == done


def test_a_whole_campaign_has_nothing_left_to_do(house):
    done, before = house.compare("good", trials=1)
    again, after = house.compare("good", trials=1, resumed=done)
    assert after == before
    again, anew = house.compare("good", trials=1, resumed=again, rerun=True)
    assert [entry.id for entry in anew] != [entry.id for entry in before] and len(anew) == 1
    assert again.notes[-1].endswith(f"no trial was kept; run again: good, 1 of its trials: {ASKED}")


def test_a_campaign_of_another_host_or_that_runs_is_not_touched(house, monkeypatch):
    done, before = house.compare("good", trials=1)
    with held(done.id), pytest.raises(UsageError, match="is running"):
        house.compare("good", trials=1, resumed=done)
    with monkeypatch.context() as patch:
        patch.setattr(hosts, "machine", lambda: MACHINE)
        with pytest.raises(UsageError, match="begun with another"):
            house.compare("good", trials=1, resumed=done)
    assert house.store.trials(done.id) == before


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed_at_random_moments_none_is_lost_and_none_twice(tmp_path):
    variables = {**os.environ, "TRAINYARD_DATA": str(tmp_path / "data"), "TRAINYARD_CACHE": str(tmp_path / "cache")}
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "proto")])
    command = [sys.executable, "-m", "tests.unit.controller.killed_campaign", str(tmp_path)]

    def start(*words):
        return subprocess.Popen([*command, *words], cwd=ROOT, env=variables, stderr=subprocess.PIPE, text=True)

    running = start()
    while not (tmp_path / "results.sqlite").exists() or not Store(tmp_path / "results.sqlite").campaigns():
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.05)
    store = Store(tmp_path / "results.sqlite")
    (begun,) = store.campaigns()
    seen = {}
    generator = random.Random(7)
    for _ in range(4):
        time.sleep(generator.uniform(0.0, 3.0))
        running.send_signal(signal.SIGKILL)
        running.communicate()
        found = {entry.id: entry for entry in store.trials(begun.id)}
        assert seen == {name: entry for name, entry in found.items() if name in seen}
        seen = found
        running = start(begun.id)
    _, error = running.communicate(timeout=300)
    assert running.returncode == 0, error
    whole = [
        (block, runner, SUCCEEDED) for block in range(killed_campaign.TRIALS) for runner in killed_campaign.RUNNERS
    ]
    after = shape(store, begun.id)
    assert sorted((block, runner, state) for block, _, runner, state in after) == sorted(whole)
    assert [position for _, position, _, _ in after] == list(range(len(whole)))
    rows = compare(store.campaign(begun.id), store.trials(begun.id)).rows
    assert [row.succeeded for row in rows] == [killed_campaign.TRIALS] * 2


# --- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A campaign in the store, and what ``compare`` asks for in place of running it."""
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path / "data"))
    from controller.catalog import workloads

    summary = workloads.summarise(workloads.load("mlp-mnist").workload)
    whole = made_up.campaign(cell("reference", summary), cell("reference", summary, variant=made_up.JIT),
                             workloads=(summary,), trials=4)  # fmt: skip
    command = "controller compare --runner reference --variant default --variant jit --no-verify --limit memory=1g"
    whole = replace(whole, command=command, order_seed=77, threads=1)
    store = Store(tmp_path / "data" / "results.sqlite")
    store.add_campaign(whole)
    asked = []

    def run(request, observe, store):
        asked.append(request)
        return whole

    monkeypatch.setattr(campaign, "run", run)
    return whole, asked


def test_resume_asks_for_what_the_campaign_was(kept, tmp_path, capsys):
    whole, asked = kept
    again = ["--rerun", "--rerun-failed"]
    assert main.run(["compare", "--resume", whole.id[:6], *again, "--data-dir", str(tmp_path)]) == 1
    (request,) = asked
    assert isinstance(request, CompareRequest)
    assert (request.resumed, request.rerun, request.rerun_failed, request.data_dir) == (whole, True, True, tmp_path)
    assert (request.trials, request.order_seed, request.threads, request.verify) == (4, 77, 1, False)
    assert request.runners == ("reference",) and len(request.variants) == 2
    assert request.limits == {"memory": "1g"}
    assert request.workloads[0].SerializeToString(deterministic=True).hex() == whole.workloads[0].message
    assert request.command == whole.command


def test_resume_continues_the_last_campaign(kept):
    main.run(["compare", "--resume"])
    assert kept[1][0].resumed == kept[0]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--resume", "--trials", "3"], "--trials and --resume contradict each other"),
        (["--resume", "nothing"], "no campaign is called 'nothing'"),
        (["--rerun"], "--rerun is only for --resume"),
        (["--rerun-failed"], "--rerun-failed is only for --resume"),
        (["surplus"], "unexpected argument 'surplus'"),
    ],
)
def test_mistakes_are_one_line(kept, capsys, words, part):
    assert main.run(["compare", *words]) == 2
    err = capsys.readouterr().err
    assert part in err and err.count("\n") == 1 and kept[1] == []


def test_a_campaign_that_no_command_began_is_refused(kept):
    with pytest.raises(UsageError, match="was not begun by controller compare"):
        stored_options(replace(kept[0], command="something else"))
    assert as_stored(kept[0])["max_trials"] == 0


def test_a_running_campaign_is_not_removed(kept, capsys):
    with held(kept[0].id):
        assert main.run(["rm", kept[0].id]) == 2
    assert "is running" in capsys.readouterr().err
    assert main.run(["rm", kept[0].id]) == 0
