"""The commands over campaigns that are kept: history, show, tag, rm."""

import json

import pytest

from controller.cli import main
from controller.results import FAILED
from controller.store import Store
from tests.unit.controller import made_up
from tests.unit.controller.test_reports import several
from tests.unit.controller.test_store import named


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Two campaigns: the newer one has trials, one row of which failed."""
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("COLUMNS", raising=False)
    found = Store(tmp_path / "data" / "results.sqlite")
    whole, entries = several()
    found.add_campaign(named("2023-01-02-old", "2023-01-02T03:04:05Z"))
    found.add_campaign(whole)
    for number, entry in enumerate(entries):
        found.add_trial(made_up.replace(entry, id=str(number), position=number))
    return found


def run(capsys, *words, code=0):
    assert main.run(words) == code
    out, err = capsys.readouterr()
    return out if code == 0 else out + err


def test_history_as_a_table(store, capsys):
    store.tag("2023-01-02-old", "before")
    lines = run(capsys, "history").splitlines()
    assert lines[2].split() == [
        "20240102-030405-abc",
        "-",
        "2024-01-02",
        "03:04",
        "12/18",
        "6",
        "mlp-mnist,",
        "resnet152-random",
    ]
    assert lines[3].split()[:5] == ["2023-01-02-old", "before", "2023-01-02", "03:04", "0/3"]


def test_a_history_without_campaigns_says_how_one_begins(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path))
    assert run(capsys, "history") == "no campaign is kept yet: `controller compare` makes the first\n"


def test_history_as_json(store, capsys):
    document = json.loads(run(capsys, "history", "--json"))
    assert (document["format"], document["version"]) == ("trainyard-history", 1)
    first, second = document["campaigns"]
    assert (first["id"], second["id"]) == ("20240102-030405-abc", "2023-01-02-old")
    assert first["trials"] == {"planned": 18, "ended": {"succeeded": 12, FAILED: 3, "unsupported": 1}}
    assert first["command"] == "controller compare --device cpu"
    assert document == json.loads(run(capsys, "history", "--output", "json"))


def test_show_prints_the_last_campaign_and_its_soundness(store, capsys):
    text = run(capsys, "show", code=1)
    assert "fastest: tensorflow-2.6.0" in text and "stored: campaign 20240102-030405-abc" in text
    assert text == run(capsys, "show", "2024", code=1)
    assert "stored: campaign 2023-01-02-old" in run(capsys, "show", "2023", code=1)


def test_show_as_json_is_the_document_of_compare(store, capsys):
    document = json.loads(run(capsys, "show", "--json", code=1))
    assert (document["format"], len(document["rows"])) == ("trainyard-comparison", 6)


def test_tags_find_and_move(store, capsys):
    assert run(capsys, "tag", "2023", "before") == "before: campaign 2023-01-02-old\n"
    assert "campaign 2023-01-02-old" in run(capsys, "show", "before", code=1)
    assert run(capsys, "tag", "2024", "before") == "before: campaign 20240102-030405-abc (was 2023-01-02-old)\n"


def test_rm_removes_all_that_are_named_or_none(store, capsys, tmp_path):
    logs = tmp_path / "data" / "state" / "logs" / "2023-01-02-old"
    logs.mkdir(parents=True)
    assert "no campaign is called 'nothing'" in run(capsys, "rm", "2023", "nothing", code=2)
    assert len(store.history()) == 2
    assert run(capsys, "rm", "2023", "2023-01-02-old") == "removed: campaign 2023-01-02-old\n"
    assert [kept.campaign.id for kept in store.history()] == ["20240102-030405-abc"]
    assert not logs.exists()


def test_without_campaigns_the_next_step_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path / "data"))
    assert "controller compare makes one" in run(capsys, "show", code=2)
    assert json.loads(run(capsys, "history", "--json"))["campaigns"] == []
