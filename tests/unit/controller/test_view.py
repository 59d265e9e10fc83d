"""Tables as asked for: columns, order of rows, and what one table is of."""

import io
import re

import pytest
from rich.console import Console

from controller.cli import main
from controller.comparison import compare
from controller.errors import UnknownNameError, UsageError
from controller.report import terminal
from controller.report.columns import COLUMNS
from controller.report.view import arranged, view_of
from controller.store import Store
from tests.unit.controller import made_up
from tests.unit.controller.test_against import beside_several
from tests.unit.controller.test_reports import several


def rows():
    return compare(*several()).groups[0].rows


def names(sheet):
    return [row.cell.runner for row in sheet.rows]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        (None, ["tensorflow-2.6.0", "pytorch-1.11.0", "jittor-1.3.1", "keras-theano"]),
        ("-seconds", ["pytorch-1.11.0", "tensorflow-2.6.0", "jittor-1.3.1", "keras-theano"]),
        ("samples_per_second", ["pytorch-1.11.0", "tensorflow-2.6.0", "jittor-1.3.1", "keras-theano"]),
        ("runner", ["jittor-1.3.1", "keras-theano", "pytorch-1.11.0", "tensorflow-2.6.0"]),
        ("-runner", ["tensorflow-2.6.0", "pytorch-1.11.0", "keras-theano", "jittor-1.3.1"]),
    ],
)
def test_rows_are_sorted_and_what_is_absent_stays_at_the_end(sort, order):
    assert names(arranged("", rows(), view_of(None, sort, "workload"), ())) == order


def test_columns_are_those_asked_for_in_their_order():
    sheet = arranged("", rows(), view_of("ratio, runner,workload", None, "workload"), ())
    assert [column.header for column in sheet.columns] == ["ratio", "runner", "workload"]
    assert [sheet.columns[2].text(row) for row in sheet.rows] == ["mlp-mnist"] * 4
    assert sheet.fixed


@pytest.mark.parametrize(
    ("columns", "sort", "error", "message"),
    [
        ("runner,secnds", None, UnknownNameError, "unknown column 'secnds'; did you mean 'seconds'"),
        (None, "time", UnknownNameError, "unknown column 'time'"),
        ("", None, UnknownNameError, "unknown column ''"),
        ("runner,runner", None, UsageError, "names a column twice"),
    ],
)
def test_a_column_that_does_not_exist_is_one_line(columns, sort, error, message):
    with pytest.raises(error) as caught:
        view_of(columns, sort, "workload")
    assert message in caught.value.line()


def text_of(width=60, columns=None, sort=None, group_by="workload", against=None):
    stream = io.StringIO()
    comparison = compare(*several())
    view = view_of(columns, sort, group_by)
    terminal.render(comparison, Console(file=stream, width=width), "", against, view)
    return stream.getvalue()


def test_columns_that_were_asked_for_are_never_lost():
    everything = ",".join(column.key for column in COLUMNS)
    header, _, first = text_of(40, everything).splitlines()[1:4]
    assert [column.header for column in COLUMNS if column.header not in header] == []
    assert first.split() == text_of(400, everything).splitlines()[3].split()


def test_a_table_for_each_runner_and_verdicts_for_each_workload():
    text = text_of(160, group_by="runner")
    titles = re.findall(r"^runner: (.*)$", text, re.MULTILINE)
    assert titles == ["tensorflow-2.6.0", "pytorch-1.11.0", "jittor-1.3.1", "keras-theano"]
    (big,) = re.findall(r"^resnet152-random +tensorflow-2\.6\.0 .*$", text, re.MULTILINE)
    assert "223.6" in big
    assert text.count("fastest: tensorflow-2.6.0;") == 1 and text.count("cannot be told apart") == 1


def test_one_table_for_all_workloads_of_a_host_with_numbers_of_elsewhere_in_one_column():
    _, _, against = beside_several()
    text = text_of(250, group_by="host", sort="-seconds", against=against)
    (header,) = [line for line in text.splitlines() if line.startswith("workload  ")]
    assert header.count("before s") == 1
    lines = [line for line in text.splitlines() if line.startswith(("mlp-mnist  ", "resnet152-random  "))]
    assert [line.split()[1] for line in lines][:4] == [
        "pytorch-1.11.0", "tensorflow-2.6.0", "pytorch-1.11.0", "tensorflow-2.6.0"
    ]  # fmt: skip
    assert lines[0].rstrip().endswith("224.0 (1.00)") and lines[3].rstrip().endswith("30.50 (1.00)")


def test_the_options_reach_show(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path / "data"))
    store = Store(tmp_path / "data" / "results.sqlite")
    whole, entries = several()
    store.add_campaign(whole)
    for number, entry in enumerate(entries):
        store.add_trial(made_up.replace(entry, id=str(number), position=number))
    assert main.run(["show", "--columns", "runner,seconds", "--sort", "-seconds", "--group-by", "host"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[1].split()) == ("host: local", ["runner", "time", "s"])
    assert lines[3].split() == ["pytorch-1.11.0", "224.0"]
    assert main.run(["show", "--sort", "speed"]) == 2
    assert "unknown column 'speed'" in capsys.readouterr().err
