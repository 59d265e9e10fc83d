"""One campaign of four real frameworks and three workloads, in all forms of a report; the page is used in Chromium."""

import csv
import io
import json
import os
import subprocess
import sys
from collections import Counter

import jsonschema
import pytest

from tests import environments
from tests.browser import browser, figure, runners, watched
from tests.environments import ROOT

__all__ = ["browser"]
pytestmark = [pytest.mark.framework, pytest.mark.browser, pytest.mark.timeout(1800)]
FRAMEWORKS = tuple(dict.fromkeys((*environments.FRAMEWORKS, "pytorch-1.9.1")))
WORKLOADS = ("mlp-mnist", "mlp2-mnist", "cnn-mnist")
TRIALS, STEPS = 2, 20


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """{form: file}, written by the commands that users give."""
    for name in FRAMEWORKS:
        environments.runner(name)
    folder = tmp_path_factory.mktemp("reports")
    variables = dict(os.environ, TRAINYARD_DATA=str(folder / "data"), NO_COLOR="1")

    def controller(*words):
        command = [sys.executable, "-m", "controller", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    names = [part for name in FRAMEWORKS for part in ("--runner", name)]
    names += [part for name in WORKLOADS for part in ("--workload", name)]
    # Small batches: the reference, which every row is held to, is slow.
    length = [
        "--quick",
        "--batch-size",
        "16",
        "--steps",
        str(STEPS),
        "--warmup-steps",
        "2",
        "--trials",
        str(TRIALS),
        "--pause",
        "0",
    ]
    controller("compare", "--device", "cpu", *names, *length, *environments.data_options())
    files = {form: folder / f"report.{form}" for form in ("md", "csv", "json", "html")}
    for file in files.values():
        controller("report", "-o", str(file))
    (folder / "schema.json").write_text(controller("schema"))
    return files | {"schema": folder / "schema.json"}


@pytest.fixture
def document(reports):
    return json.loads(reports["json"].read_text(encoding="utf-8"))


def rows_of(document, workload):
    return [row for row in document["rows"] if row["workload"] == workload]


def test_as_json_every_framework_did_every_workload(reports, document):
    jsonschema.validate(document, json.loads(reports["schema"].read_text(encoding="utf-8")))
    assert [group["name"] for group in document["workloads"]] == list(WORKLOADS)
    for workload in WORKLOADS:
        rows = rows_of(document, workload)
        assert {row["runner"] for row in rows} == set(FRAMEWORKS)
        assert [row["trials"] for row in rows] == [{"succeeded": TRIALS, "asked": TRIALS}] * len(FRAMEWORKS)
        assert {row["certificate"]["state"] for row in rows} == {"pass"}
        assert all(row["seconds"]["interval"] and row["steps"] == STEPS for row in rows)


def test_as_csv_every_trial_is_a_row(reports, document):
    lines = list(csv.DictReader(io.StringIO(reports["csv"].read_text(encoding="utf-8"))))
    cells = Counter((line["workload"], line["runner"], line["state"]) for line in lines)
    assert cells == {(workload, name, "succeeded"): TRIALS for workload in WORKLOADS for name in FRAMEWORKS}
    told = {trial["id"]: trial["measurement"]["measured_seconds"] for trial in document["trials"]}
    assert {line["trial"]: float(line["measured_seconds"]) for line in lines} == told


def test_as_markdown_each_workload_is_a_table(reports, document):
    parts = reports["md"].read_text(encoding="utf-8").split("### ")[1:]
    assert [part.partition(":")[0] for part in parts] == list(WORKLOADS)
    for workload, part in zip(WORKLOADS, parts, strict=True):
        table = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in part.splitlines() if line[:1] == "|"]
        header, _, *lines = table
        found = {line[0]: dict(zip(header, line, strict=True)) for line in lines}
        assert list(found) == [row["runner"] for row in rows_of(document, workload)]
        for row in rows_of(document, workload):
            shown = found[row["runner"]]
            assert (shown["time s"], shown["ratio"]) == (row["shown"]["seconds"], row["shown"]["ratio"])


def test_as_a_page_its_tables_sort_and_filter_and_its_charts_have_the_numbers(browser, reports, document):
    with watched(browser, reports["html"]) as open_page:
        page = open_page()
        for place, workload in enumerate(WORKLOADS):
            _check_sorting(page, place, rows_of(document, workload))
            _check_charts(page, place, rows_of(document, workload))
        page.get_by_label("Filter rows").fill("pytorch-1.9.1")
        assert [runners(page, place) for place in _tables(page)] == [["pytorch-1.9.1"]] * len(WORKLOADS)
        page.get_by_label("Filter rows").fill("")
        assert [len(runners(page, place)) for place in _tables(page)] == [len(FRAMEWORKS)] * len(WORKLOADS)
        matrix = page.locator("#certificates table").first
        assert matrix.get_by_role("cell", name="pass", exact=True).count() == len(FRAMEWORKS) * len(WORKLOADS)


def _tables(page):
    """Places of the workloads' tables among all that sort."""
    captions = page.locator("table.sortable caption").all_text_contents()
    return [captions.index(f"Rows of {workload}") for workload in WORKLOADS]


def _check_sorting(page, place, rows):
    number = _tables(page)[place]
    button = (
        page.locator("table.sortable").nth(number).get_by_role("columnheader", name="step ms").get_by_role("button")
    )
    steps = {row["runner"]: float(row["shown"]["step_milliseconds"].replace(",", "")) for row in rows}
    button.click()
    assert [steps[name] for name in runners(page, number)] == sorted(steps.values())
    button.click()
    assert [steps[name] for name in runners(page, number)] == sorted(steps.values(), reverse=True)


def _check_charts(page, place, rows):
    bars, dots = figure(page, f"times-{place}")[:2]
    assert dict(zip(bars["y"], bars["x"], strict=True)) == {row["runner"]: row["seconds"]["median"] for row in rows}
    assert Counter(dots["y"]) == dict.fromkeys(FRAMEWORKS, TRIALS)
    phases = {
        trace["name"]: dict(zip(trace["y"], trace["x"], strict=True)) for trace in figure(page, f"phases-{place}")
    }
    assert {"import", "first step", "warmup", "measure", "evaluate"} <= set(phases)
    assert all(seconds > 0 for seconds in phases["measure"].values())
    curves = {trace["name"]: trace for trace in figure(page, f"steps-{place}") if "name" in trace}
    assert set(curves) == set(FRAMEWORKS) and all(len(trace["y"]) == STEPS for trace in curves.values())
    losses = {trace["name"]: trace["y"] for trace in figure(page, f"losses-{place}")}
    # The same start and the same batches: the first step's loss is that of every framework, but for dropout's draws.
    firsts = [values[0] for values in losses.values()]
    assert len(firsts) == len(FRAMEWORKS) and max(firsts) / min(firsts) < 1.5
