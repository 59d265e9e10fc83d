"""Whole outputs of the terminal and JSON reports. TRAINYARD_WRITE_GOLDENS=1 writes the expected texts anew."""

import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from controller.comparison import compare
from controller.report import columns, json_, terminal
from controller.results import FAIL, FAILED, UNSUPPORTED, Certificate
from tests.unit.controller.made_up import (
    IDENTITY,
    JIT,
    MLP,
    OTHER_WORK,
    PASSED,
    RANDOM,
    campaign,
    cell,
    certified,
    lost,
    measurement,
    trial,
    trials,
)

GOLDEN = Path(__file__).parent / "golden"
STORED_AT = "/home/somebody/.local/share/trainyard/results.sqlite"


def several():
    """Two workloads; a variant, a failure and a cell that is not supported."""
    tensorflow, pytorch = cell("tensorflow-2.6.0"), cell("pytorch-1.11.0", variant=JIT)
    jittor, keras = cell("jittor-1.3.1"), cell("keras-theano")
    big = [cell(name, RANDOM) for name in ("tensorflow-2.6.0", "pytorch-1.11.0")]
    memory = (("host_rss_peak", 2048), ("allocator_allocated_peak", 3277), ("device_peak", 7270))
    entries = [
        *trials(tensorflow, 31.2, 30.5, 30.1),
        *trials(pytorch, 47.9, 48.3, 48.0),
        *lost(jittor, FAILED, "PROCESS_DIED", "the runner ended with code -9 [killed]"),
        *lost(keras, UNSUPPORTED, "UNSUPPORTED_LAYER", "lstm", count=1),
        *trials(big[0], 223.6, 225.0, 221.0, memory=memory),
        *trials(big[1], 226.9, 224.0, 220.0, memory=memory),
    ]
    note = "MNIST is not here and cannot be downloaded: synthetic data is used"
    cells = (tensorflow, pytorch, jittor, keras, *big)
    return campaign(*cells, workloads=(MLP, RANDOM), notes=(note,)), entries


def text_of(comparison, width, against=None, **options):
    stream = io.StringIO()
    terminal.render(comparison, Console(file=stream, width=width, **options), STORED_AT, against)
    return stream.getvalue()


def stripped(text):
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


@pytest.mark.parametrize("width", [160, 100, 60])
def test_whole_output(width):
    found = stripped(text_of(compare(*several()), width))
    path = GOLDEN / f"compare-{width}.txt"
    if os.environ.get("TRAINYARD_WRITE_GOLDENS"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [160, 100, 60, 30])
def test_tables_fit_and_numbers_are_never_cut_or_wrapped(width):
    comparison = compare(*several())
    text = text_of(comparison, width)
    tables = [line for line in text.splitlines() if "─" in line]
    assert all(len(line) <= max(width, 45) for line in tables)
    assert re.search(r"^runner +variant ", text, re.MULTILINE)
    for row in comparison.rows:
        (line,) = [line for line in text.splitlines() if line.startswith(row.cell.runner) and f" {_time(row)} " in line]
        assert f"{row.ratio:.2f}" in line if row.ratio else True


def _time(row):
    return columns.shown(row)["seconds"]


def test_columns_are_lost_in_the_stated_order():
    rows = compare(*several()).groups[0].rows
    everything = columns.filled(rows)
    lost_at = []
    for width in range(columns.total_width(everything, rows, 2), 0, -1):
        gone = {column.key for column in everything} - {
            column.key for column in columns.fitting(everything, rows, width, 2)
        }
        lost_at.extend(gone - set(lost_at))
    present = {column.key for column in everything}
    assert lost_at == [key for key in columns.DROP_ORDER if key in present]
    assert {"runner", "variant", "seconds", "ratio"} <= {
        column.key for column in columns.fitting(everything, rows, 1, 2)
    }


def test_every_column_is_either_kept_or_in_the_drop_order():
    keys = [column.key for column in columns.COLUMNS]
    assert len(set(keys)) == len(keys)
    assert set(keys) - set(columns.DROP_ORDER) == {
        "runner", "variant", "host", "device", "seconds", "ratio", "ties", "flags"
    }  # fmt: skip
    assert set(columns.DROP_ORDER) <= set(keys)


def test_no_colour_where_it_is_not_wanted(monkeypatch):
    comparison = compare(*several())
    assert "\x1b" not in text_of(comparison, 160)
    assert "\x1b[" in text_of(comparison, 160, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    coloured = text_of(comparison, 160, force_terminal=True)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", coloured)


def test_text_of_others_is_never_taken_as_markup():
    assert "code -9 [killed]" in text_of(compare(*several()), 160)


def test_problems_stand_under_the_table():
    a, b = cell("a-1"), cell("b-1")
    odd = [replace(entry, identity=replace(IDENTITY, data_digest="00" * 32)) for entry in trials(b, 1.0, 2.0)]
    text = text_of(compare(campaign(a, b), [*trials(a, 3.0, 4.0), *odd]), 160)
    assert "not ranked: the rows did not do the same work" in text
    assert "problem: data differs: 000000000000 in b-1; d1d1d1d1d1d1 in a-1" in text
    assert "fastest" not in text


def unequal(*certificates):
    a, b = cell("a-1"), cell("b-1")
    entries = [*trials(a, 3.0, 4.0), *trials(b, 1.0, 2.0)]
    return compare(certified(campaign(a, b, trials=2), *certificates), entries), entries


@pytest.mark.parametrize("width", [160, 44])
def test_a_row_that_does_other_work_says_so_in_place_of_a_ratio(width):
    text = text_of(unequal(PASSED, OTHER_WORK)[0], width)
    (line,) = [line for line in text.splitlines() if line.startswith("b-1 ")]
    assert "1.50" in line and "UNEQUAL" in line
    assert (
        "b-1: UNEQUAL: parts from the reference at layer norm (batch_norm): norm of its output: 12.3 instead of 12.1"
    ) in text.splitlines()
    assert "same work: 1 of 2 rows trained a few steps as the reference; losses within 3e-07" in text.splitlines()
    assert "fastest" not in text


def test_a_row_whose_probe_broke_is_not_called_unequal():
    broken = Certificate(FAIL, "its probe failed: OUT_OF_MEMORY killed by the kernel")
    text = text_of(unequal(PASSED, broken)[0], 160)
    assert "UNPROVEN" in text and "UNEQUAL" not in text
    assert "b-1: UNPROVEN: its probe failed: OUT_OF_MEMORY killed by the kernel" in text.splitlines()


def test_rows_that_were_verified_say_with_what_and_the_others_nothing():
    text = text_of(unequal(PASSED, replace(PASSED, cut="widths / 2"))[0], 160)
    line = "same work: 2 of 2 rows trained a few steps as the reference; losses within 3e-07 (probed with widths / 2)"
    assert line in text.splitlines() and "UNEQUAL" not in text
    assert "same work" not in text_of(unequal()[0], 160)


def test_json_holds_the_certificates():
    document = json_.document(*unequal(PASSED, OTHER_WORK))
    first, second = (row["certificate"] for row in document["rows"])
    assert (first["state"], first["largest"][0]["deviation"]) == ("pass", 2.7e-7)
    assert (second["state"], second["text"]) == ("fail", OTHER_WORK.text)
    assert document["rows"][1]["shown"]["ratio"] == "UNEQUAL"
    assert document["workloads"][0]["same_work"].startswith("same work: 1 of 2 rows")
    assert [row["certificate"] for row in json_.document(*unequal())["rows"]] == [None, None]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0.00"), (0.00123456, "0.00123"), (1.5, "1.50"), (99.99, "99.99"), (251.04, "251.0"),
     (39344.26, "39,344"), (1e7, "10,000,000")],
)  # fmt: skip
def test_numbers(value, text):
    assert columns.number(value) == text


def test_json_holds_every_number_that_the_terminal_shows():
    campaign_, entries = several()
    comparison = compare(campaign_, entries)
    document = json_.render(comparison, entries, STORED_AT)
    shown = set(re.findall(r"\d[\d,.]*\d|\d", text_of(comparison, 250)))
    assert len(shown) > 40
    assert [number for number in shown if number not in document] == []


def test_shown_texts_are_those_of_the_numbers():
    document = json_.document(compare(*several()), [], STORED_AT)
    for row in document["rows"]:
        if row["seconds"]:
            assert float(row["shown"]["seconds"]) == pytest.approx(row["seconds"]["median"], rel=0.01)
            assert float(row["shown"]["step_milliseconds"].replace(",", "")) == pytest.approx(
                row["step_seconds"] * 1000, rel=0.01
            )
            assert float(row["shown"]["accuracy"]) == pytest.approx(row["accuracy"])


def test_json_has_versions_epochs_phases_and_no_omitted_row():
    campaign_, entries = several()
    document = json.loads(json_.render(compare(campaign_, entries), entries, STORED_AT))
    assert (document["format"], document["version"]) == ("trainyard-comparison", 1)
    assert len(document["rows"]) == len(campaign_.cells)
    assert len(document["trials"]) == len(entries)
    first = document["rows"][0]
    assert first["versions"] == {"torch": "1.11.0", "python": "3.9.18", "numpy": "1.21.6"}
    assert (first["python"], first["environment"]["digest"]) == ("3.9.18", "c3" * 32)
    run = document["trials"][0]["measurement"]
    assert run["epoch_seconds"] == [31.2 / 20] * 20
    assert run["phases"] == {"import": 2.5, "measure": 31.2}
    assert run["step_seconds"] == {"count": 3, "min": 0.156, "q1": 0.156, "median": 0.156, "q3": 0.156, "max": 0.156}
    assert document["workloads"][0]["fastest"] == "tensorflow-2.6.0"
    failed = next(row for row in document["rows"] if row["runner"] == "jittor-1.3.1")
    assert (failed["seconds"], failed["text"]) == (None, "failed: PROCESS_DIED the runner ended with code -9 [killed]")


def test_json_is_valid_when_a_number_is_not_finite():
    where = cell("a-1")
    run = replace(measurement(1.0), test_loss=float("nan"), losses=(float("inf"),), step_seconds=(0.5,))
    entries = [trial(where, 0, run=run)]
    text = json_.render(compare(campaign(where, trials=1), entries), entries)
    document = json.loads(text, parse_constant=pytest.fail)
    assert document["rows"][0]["test_loss"] is None
    assert document["trials"][0]["measurement"]["losses"] == [None]
