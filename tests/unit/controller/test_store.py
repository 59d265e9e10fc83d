"""The results file: older ones are brought up to date with all that is in them, newer ones are refused."""

import sqlite3
import threading
from dataclasses import replace

import pytest

from controller.errors import StoreError, UsageError
from controller.results import Failure
from controller.store import SCHEMA_VERSION, Store
from tests.unit.controller.made_up import OTHER_WORK, PASSED, campaign, cell, certified, trials
from tests.unit.controller.made_up_probes import probe

# What format 1 had, written out: a later change of the code must not change what is tested.
FORMAT_1 = """
CREATE TABLE campaigns (id TEXT PRIMARY KEY, created_at TEXT NOT NULL, content TEXT NOT NULL) STRICT;
CREATE TABLE trials (
    id TEXT PRIMARY KEY,
    campaign TEXT NOT NULL REFERENCES campaigns (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    state TEXT NOT NULL,
    content TEXT NOT NULL,
    step_seconds BLOB NOT NULL
) STRICT;
CREATE INDEX trials_by_campaign ON trials (campaign, position);
PRAGMA user_version = 1;
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.sqlite"


def version(path):
    with sqlite3.connect(path) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_a_file_of_format_1_keeps_its_campaigns_and_gains_probes_and_tags(path):
    known = campaign(cell("a-1"))
    new = Store(path.with_name("new.sqlite"))
    new.add_campaign(known)
    for entry in trials(known.cells[0], 1.0, 2.0):
        new.add_trial(entry)
    with sqlite3.connect(path) as old, sqlite3.connect(new.path) as source:
        old.executescript(FORMAT_1)
        for table, marks in (("campaigns", "?, ?, ?"), ("trials", "?, ?, ?, ?, ?, ?")):
            rows = source.execute(f"SELECT * FROM {table}").fetchall()
            # Format 1 knew no certificates.
            rows = [
                [str(x).replace(',"certificates":[]', "") if isinstance(x, str) else x for x in row] for row in rows
            ]
            old.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    store = Store(path)
    assert version(path) == SCHEMA_VERSION == 3
    assert store.campaign(known.id) == known
    assert store.trials(known.id) == new.trials(known.id)
    store.tag(known.id, "before")
    assert store.find("before") == known
    store.keep_probe("key", probe())
    assert Store(path).probe("key") == probe()


def test_a_file_of_a_newer_format_is_refused(path):
    Store(path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(StoreError, match="from a newer Trainyard"):
        Store(path)


def test_probes_are_given_back_as_they_were_kept(path):
    store = Store(path)
    unsupported = Failure("UNSUPPORTED layer lstm", "CNTK has no layer lstm", "log")
    assert store.probe("nothing") is None
    store.keep_probe("numbers", probe())
    store.keep_probe("words", unsupported)
    assert (store.probe("numbers"), store.probe("words")) == (probe(), unsupported)
    # The newest answer counts.
    store.keep_probe("numbers", replace(probe(), gradient_norm=2.0))
    assert store.probe("numbers").gradient_norm == 2.0


def test_certificates_stay_with_their_campaign(path):
    whole = certified(campaign(cell("a-1"), cell("b-1")), PASSED, OTHER_WORK)
    Store(path).add_campaign(whole)
    assert Store(path).campaign(whole.id) == whole


def named(name, created_at="2024-01-02T03:04:05Z"):
    return replace(campaign(cell("a-1")), id=name, created_at=created_at)


@pytest.fixture
def three(path):
    store = Store(path)
    for name, day in (("2024-01-02-aaaa", "2"), ("2024-01-02-abbb", "3"), ("2024-01-04-aaaa", "4")):
        store.add_campaign(named(name, f"2024-01-0{day}T00:00:00Z"))
    return store


@pytest.mark.parametrize(
    ("text", "found"),
    [(None, "2024-01-04-aaaa"), ("2024-01-04", "2024-01-04-aaaa"), ("2024-01-02-ab", "2024-01-02-abbb"),
     ("2024-01-02-aaaa", "2024-01-02-aaaa")],
)  # fmt: skip
def test_campaigns_are_found_by_the_beginning_of_their_name(three, text, found):
    assert three.find(text).id == found


@pytest.mark.parametrize(
    ("text", "message"),
    [("2024-01-02", "2 campaigns begin with '2024-01-02': 2024-01-02-abbb, 2024-01-02-aaaa"),
     ("2023", "no campaign is called '2023'"), ("", "no campaign is called ''"), ("%", "no campaign is called '%'")],
)  # fmt: skip
def test_what_is_not_one_campaign_is_said(three, text, message):
    with pytest.raises(UsageError, match=message):
        three.find(text)


def test_an_empty_store_says_how_to_begin(path):
    with pytest.raises(UsageError, match=r"no campaign in .* yet"):
        Store(path).find(None)


def test_a_name_that_is_whole_wins_over_longer_ones(path):
    store = Store(path)
    for name in ("2024-1", "2024-12"):
        store.add_campaign(named(name))
    assert store.find("2024-1").id == "2024-1"


def test_a_tag_belongs_to_one_campaign(three):
    assert three.tag("2024-01-02-aaaa", "before") == ""
    assert three.tag("2024-01-02-aaaa", "before") == ""
    assert three.tag("2024-01-04-aaaa", "before") == "2024-01-02-aaaa"
    assert three.find("before").id == "2024-01-04-aaaa"
    assert [kept.tags for kept in three.history()] == [("before",), (), ()]


@pytest.mark.parametrize("name", ["", "2024", "a b", "published:x", "-a", "a" * 65, "a/b"])
def test_a_tag_that_could_be_mistaken_is_refused(three, name):
    with pytest.raises(UsageError, match="is not a letter followed by"):
        three.tag("2024-01-02-aaaa", name)
    with pytest.raises(UsageError, match="means the published tables"):
        three.tag("2024-01-02-aaaa", "published")


def test_what_is_removed_takes_its_trials_and_tags_with_it(path):
    store = Store(path)
    whole = campaign(cell("a-1"))
    store.add_campaign(whole)
    for entry in trials(whole.cells[0], 1.0, 2.0):
        store.add_trial(entry)
    store.tag(whole.id, "before")
    assert [kept.states for kept in store.history()] == [{"succeeded": 2}]
    store.remove(whole.id)
    assert (store.history(), store.trials(whole.id)) == ([], [])
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM tags").fetchone() == (0,)
    with pytest.raises(StoreError, match="was removed while it ran"):
        store.add_trial(trials(whole.cells[0], 1.0)[0])


def test_two_controllers_open_an_old_file_and_tag_at_once(path):
    with sqlite3.connect(path) as old:
        old.executescript(FORMAT_1)
    errors = []
    gate = threading.Barrier(4)

    def work(number):
        try:
            gate.wait()
            store = Store(path)
            store.add_campaign(named(f"2024-{number}"))
            for turn in range(10):
                store.tag(f"2024-{number}", f"shared-{turn}")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    kept = Store(path).history()
    assert len(kept) == 4
    assert sum(len(entry.tags) for entry in kept) == 10


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("DROP TABLE trials", "cannot be used: no such table: trials"),
        ("UPDATE campaigns SET content = 'noise'", "a record of the results file is damaged"),
    ],
)
def test_a_file_that_is_damaged_inside_is_one_line(path, damage, words):
    store = Store(path)
    store.add_campaign(named("2024-1"))
    with sqlite3.connect(path) as connection:
        connection.executescript(damage)
    with pytest.raises(StoreError, match=words):
        store.history()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"the folder of results, .*file, cannot be used: ") as caught:
        Store(tmp_path / "file" / "results.sqlite")
    assert "TRAINYARD_DATA" in caught.value.hint


def test_a_file_that_another_program_holds_too_long_is_one_line(path, monkeypatch):
    monkeypatch.setattr("controller.store._BUSY_SECONDS", 0.0)
    store = Store(path)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="locked") as caught:
            store.add_campaign(named("2024-1"))
    assert caught.value.hint == "end the program that holds it"
