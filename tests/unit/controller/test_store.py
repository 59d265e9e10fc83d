"""The results file: older ones are brought up to date with all that is in them, newer ones are refused."""

import sqlite3
from dataclasses import replace

import pytest

from controller.errors import StoreError
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


def test_a_file_of_format_1_keeps_its_campaigns_and_gains_probes(path):
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
    assert version(path) == SCHEMA_VERSION == 2
    assert store.campaign(known.id) == known
    assert store.trials(known.id) == new.trials(known.id)
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
