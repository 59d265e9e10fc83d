"""Other numbers beside a comparison: what is matched, what is said to differ, and how reports show it."""

from dataclasses import replace

import pytest

from controller import against
from controller.catalog import against as catalog
from controller.catalog import published, workloads
from controller.comparison import compare
from controller.errors import UnknownNameError, UsageError
from controller.report import json_, markdown
from controller.report.beside import beside_columns, beside_lines
from tests.unit.controller.made_up import IDENTITY, JIT, MACHINE, MLP, campaign, cell, trials
from tests.unit.controller.test_reports import several, text_of

STANDARD = workloads.summarise(workloads.load("mlp-mnist").workload)
RESNET = workloads.summarise(workloads.load("resnet50-cifar10").workload)


def measured(*cells, workload=STANDARD, seconds=10.0, **changes):
    entries = [entry for where in cells for entry in trials(where, seconds, seconds + 1.0)]
    return compare(replace(campaign(*cells, trials=2, workloads=(workload,)), **changes), entries)


def lines_of(found):
    return [line for beside in found.groups.values() for line in beside.lines]


# --- published tables --------------------------------------------------------------------------------------


def test_rows_stand_beside_the_framework_and_variant_that_was_printed():
    plain, jit = cell("tensorflow-2.6.0", RESNET), cell("tensorflow-2.6.0", RESNET, variant=JIT)
    later, keras = cell("pytorch-1.11.0", RESNET), cell("keras-theano", RESNET)
    found = catalog.beside(measured(plain, jit, later, keras, workload=RESNET), "published:ttj-2")
    (setup,) = found.groups[RESNET.digest].setups
    assert (setup.header, setup.unit, setup.same_work) == ("RTX 3090", "seconds", True)
    assert {where: value.seconds for where, value in setup.values.items()} == {plain: 86.5, jit: 117.5, later: 105.0}
    assert setup.values[jit].ratio == pytest.approx(117.5 / 86.5)
    lines = lines_of(found)
    assert "machine: Example CPU @ 2.00GHz here, RTX 3090, Linux there" in lines
    assert "no number there for keras-theano" in lines
    assert "no row here for Jittor 1.3.1 (8 workers)" in lines
    assert "pytorch-1.11.0 stands beside PyTorch 1.9.1 (4 workers): the saved notebook prints version 1.8.2" in lines
    assert any(line.startswith("not alike: ") and "divided by 255" in line for line in lines)


def test_a_table_of_several_machines_has_a_column_for_each():
    name = "resnet50-cifar10-b8"
    standard = workloads.summarise(workloads.load(name).workload)
    found = catalog.beside(measured(cell("pytorch-1.11.0", standard), workload=standard), f"published:{name}")
    headers = [setup.header for setup in found.groups[standard.digest].setups]
    assert headers == ["GTX 1070 Ti, Windows 10", "GTX 1070 Ti, WSL2"]


def test_keras_on_a_backend_is_the_runner_of_that_backend():
    standard = workloads.summarise(workloads.load("cnn-mnist").workload)
    theano, tensorflow = cell("keras-theano", standard), cell("tensorflow-2.6.0", standard)
    found = catalog.beside(measured(theano, tensorflow, workload=standard), "published")
    setups = found.groups[standard.digest].setups
    assert {where for setup in setups for where in setup.values} == {theano}
    assert all(setup.unit == "seconds_per_epoch" for setup in setups)


def test_another_schedule_is_said_and_keeps_the_number_out_of_the_chart():
    short = replace(STANDARD, epochs=None, steps=600, measured="600 steps", batch_size=64)
    found = catalog.beside(measured(cell("jittor-1.3.1", short), workload=short), "published")
    assert not found.groups[short.digest].setups[0].same_work
    assert "other work: measured 600 steps here, 20 epochs there" in lines_of(found)
    assert "other work: batch 64 here, 32 there" in lines_of(found)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("published:ttj-2", UsageError, "that table is of resnet50-cifar10, which is not compared"),
        ("published:ttj-5", UnknownNameError, "unknown published table 'ttj-5'"),
        ("published", UsageError, "nothing is published of my-own"),
    ],
)
def test_what_is_not_published_of_these_workloads_is_refused(text, error, message):
    workload = replace(STANDARD, name="my-own") if text == "published" else STANDARD
    with pytest.raises(error, match=message):
        catalog.beside(measured(cell("a-1", workload), workload=workload), text)


def test_only_jit_is_jit():
    variants = {row.variant: row.jit for table in published.tables() for row in catalog._plain(table).rows}
    assert {variant for variant, jit in variants.items() if jit} == {"JIT"}
    assert {"no JIT", "no JIT, prefetch 4", "4 workers", ""} <= set(variants)


# --- another campaign --------------------------------------------------------------------------------------


def test_campaigns_are_matched_by_workload_runner_and_variant():
    a, b, jit = cell("a-1", STANDARD), cell("b-1", STANDARD), cell("a-1", STANDARD, variant=JIT)
    other = measured(replace(a, device="gpu:0"), cell("c-1", STANDARD), jit, seconds=20.0, id="2023-1", threads=4)
    found = against.campaign(measured(a, b, jit), "2023-1", other)
    (setup,) = found.groups[STANDARD.digest].setups
    assert (setup.header, setup.values) == (
        "2024-01-02", {a: against.Value(20.5, 10.5 / 20.5), jit: against.Value(20.5, 10.5 / 20.5)}
    )  # fmt: skip
    lines = lines_of(found)
    assert "a-1: ran there on local, gpu:0" in lines
    assert "no row there for b-1" in lines and "no row here for c-1" in lines
    assert found.lines == ("against 2023-1: threads: 2 here, 4 there",)


def test_the_column_bears_the_tag_that_was_named():
    other = measured(cell("a-1", STANDARD), id="2023-1")
    found = against.campaign(measured(cell("a-1", STANDARD)), "before", other)
    assert found.groups[STANDARD.digest].setups[0].header == "before"
    assert found.lines == ("against 2023-1: same machine, threads and source of the runner service",)


def test_what_differs_between_campaigns_is_said():
    a = cell("a-1", STANDARD)
    identity = replace(
        IDENTITY, workload_digest=STANDARD.digest, data_digest="00" * 32, service_digest="11" * 32,
        versions={**IDENTITY.versions, "torch": "1.9.1", "cuda": "10.2"},
    )  # fmt: skip
    theirs = [replace(entry, identity=identity) for entry in trials(a, 10.0, 11.0)]
    theirs = [replace(entry, environment=replace(entry.environment, digest="dd" * 32)) for entry in theirs]
    other = compare(
        replace(campaign(a, trials=2, workloads=(STANDARD,)), id="2023-1", machine=replace(MACHINE, cpu="Other CPU")),
        theirs,
    )
    found = against.campaign(measured(a), "2023-1", other)
    assert lines_of(found) == [
        "a-1: other environment (venv dddddddddddd there)",
        "a-1: other data, not the same work",
        "a-1: other versions there: cuda 10.2, torch 1.9.1",
    ]
    assert found.lines == (
        "against 2023-1: processor: Example CPU @ 2.00GHz here, Other CPU there",
        "against 2023-1: source of the runner service: another there",
    )


def test_a_campaign_of_other_workloads_has_nothing_to_show():
    found = against.campaign(measured(cell("a-1", STANDARD)), "x", measured(cell("a-1", RESNET), workload=RESNET))
    assert found.groups == {}
    assert f"it has no mlp-mnist with sha256 {STANDARD.digest[:12]}" in found.lines[-1]


# --- in reports --------------------------------------------------------------------------------------------


def beside_several():
    whole, entries = several()
    comparison = compare(whole, entries)
    older = compare(replace(whole, id="2023-1"), [entry for entry in entries if entry.cell.runner != "jittor-1.3.1"])
    return comparison, entries, against.campaign(comparison, "before", older)


def test_reports_show_the_column_and_the_lines():
    comparison, entries, found = beside_several()
    group = comparison.groups[0]
    (column,) = beside_columns(group, found)
    texts = [column.text(row) for row in group.rows]
    assert (column.header, texts) == ("before s", ["30.50 (1.00)", "48.00 (1.00)", "-", "-"])
    lines = list(beside_lines(group, found))
    assert lines[0].startswith("against campaign 2023-1 of ") and "nothing is claimed" in lines[0]
    terminal = text_of(comparison, 60, against=found)
    assert "30.50 (1.00)" in terminal and lines[0] in terminal
    text = markdown.render(comparison, found)
    assert "| before s |" in text and "| 30.50 (1.00) |" in text and f"- {lines[0]}" in text
    document = json_.document(comparison, entries, "", found)["against"]
    assert document["name"] == "before"
    first = document["workloads"][0]["columns"][0]["values"][0]
    assert (first["runner"], first["seconds"], first["ratio"]) == ("tensorflow-2.6.0", 30.5, 1.0)
    assert document["workloads"][0]["digest"] == MLP.digest


def test_without_it_nothing_is_there():
    comparison, entries, _ = beside_several()
    assert beside_columns(comparison.groups[0], None) == ()
    assert list(beside_lines(comparison.groups[0], None)) == []
    assert json_.document(comparison, entries)["against"] is None
