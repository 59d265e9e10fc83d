"""Bundles of two machines beside each other: the shape of the published table, its ratios, and what is refused."""

import json
from dataclasses import replace

import pytest

from controller.bundles import diff
from controller.bundles import format as bundles
from controller.bundles.records import Saved
from controller.catalog import workloads
from controller.cli import main
from controller.results import Calibration, Device, Environment
from tests.unit.controller import made_up

RESNET = workloads.load("resnet50-cifar10-b8").workload
STANDARD = workloads.summarise(RESNET)
WINDOWS = replace(made_up.MACHINE, name="desk", system="Windows 10.0.19045")
WSL = replace(made_up.MACHINE, name="desk", system="Ubuntu 20.04.6 LTS, Linux 5.15.90.1-microsoft-standard-WSL2, WSL2")
# The published third table, each number once more a little off: two trials of it alone claim nothing.
TIMES = {
    "Windows": {"tensorflow-2.6.3": (32.0, 32.0), "pytorch-1.11.0": (37.0, 35.0), "jittor-1.3.1": (45.0, 45.0)},
    "WSL2": {"pytorch-1.11.0": (55.0, 54.0), "jittor-1.3.1": (54.0, 53.0)},
}


def saved(place, machine, workload=STANDARD, environment="c3" * 32, loop=0.02, change=lambda runs: runs, **changes):
    name = f"2026-12-0{1 + (place == 'WSL2')}-abc"
    cells = {runner: made_up.cell(runner, workload, device="gpu:0") for runner in TIMES[place]}
    whole = made_up.campaign(*cells.values(), trials=6, workloads=(workload,))
    calibration = Calibration("local", "venv", {"python_loop_s": loop, "matrix_product_flops": 3.0e10 * 0.02 / loop})
    fields = {"id": name, "machine": machine, "calibrations": (calibration,), **changes}
    identity = replace(made_up.IDENTITY, workload_digest=workload.digest, device=Device("gpu", 0, "", "GTX 1070 Ti"))
    runs = [
        replace(
            trial, id=f"{name}-{runner}-{trial.block}", campaign=name, identity=identity,
            environment=Environment("venv", environment),
        )
        for runner, cell in cells.items()
        for trial in made_up.trials(cell, *(t * f for f in (1.0, 0.99, 1.01) for t in TIMES[place][runner]))
    ]  # fmt: skip
    return Saved(replace(whole, **fields), tuple(change(runs)))


@pytest.fixture
def files(tmp_path):
    def write(left=None, right=None):
        pair = left or saved("Windows", WINDOWS), right or saved("WSL2", WSL, loop=0.022)
        paths = [tmp_path / "a.trainyard", tmp_path / "b.trainyard"]
        for path, entry in zip(paths, pair, strict=True):
            bundles.write(path, [entry])
        return [str(path) for path in paths]

    return write


def run(capsys, *words, code=0):
    assert main.run(["diff", *words]) == code
    out, err = capsys.readouterr()
    return out if code == 0 else err


def test_the_shape_is_that_of_the_published_table(files, capsys):
    lines = run(capsys, *files()).splitlines()
    assert lines[0].startswith("resnet50-cifar10-b8: ")
    words = [line.split() for line in lines]
    assert "Windows 10.0.19045 s" in lines[1] and "WSL2 s" in lines[1] and "WSL2 / Windows 10.0.19045" in lines[1]
    assert words[3][:5] == ["tensorflow-2.6.3", "gpu", "6/6", "-", "32.00"]
    assert words[4][:7] == ["pytorch-1.11.0", "gpu", "6/6", "6/6", "35.99", "54.50", "1.51"]
    assert words[5][:7] == ["jittor-1.3.1", "gpu", "6/6", "6/6", "45.00", "53.50", "1.19"]
    assert words[4][-1] == words[5][-1] == "slower"
    text = "\n".join(lines)
    assert "not compared: tensorflow-2.6.3 on gpu: not in WSL2" in text
    assert "WSL2 takes, beside Windows 10.0.19045: Python loop 1.1 x, matrix product 1.1 x" in text


def test_as_json_and_markdown(files, capsys):
    document = json.loads(run(capsys, *files(), "--output", "json", "--name", "win", "--name", "wsl"))
    (table,) = document["workloads"]
    ratio = table["rows"][1]["ratios"][0]
    assert (document["format"], ratio["name"], ratio["verdict"]) == ("trainyard-difference", "wsl", "slower")
    assert ratio["ratio"] == pytest.approx((55 * 54 / 37 / 35) ** 0.5)
    assert document["calibrations"][0]["times_as_long"] == [pytest.approx(1.1)]
    assert "| pytorch-1.11.0 | gpu | 6/6 6/6 | 35.99 | 54.50 | 1.51 |" in run(capsys, *files(), "-o", "markdown")


@pytest.mark.parametrize(
    ("right", "reason"),
    [
        ({"threads": 4}, "threads 2 in Windows 10.0.19045, 4 in WSL2"),
        (
            {"environment": "d4" * 32},
            "lock or image venv c3c3c3c3c3c3 in Windows 10.0.19045, venv d4d4d4d4d4d4 in WSL2",
        ),
        (
            {"workload": workloads.summarise(workloads.override(RESNET, batch_size=16, seed=7))},
            "batch size 8 in Windows 10.0.19045, 16 in WSL2",
        ),
        (
            {"change": lambda runs: [replace(r, identity=replace(r.identity, service_digest="9" * 64)) for r in runs]},
            "source of the runner service f1f1f1f1f1f1 in Windows 10.0.19045, 999999999999 in WSL2",
        ),
        (
            {"change": lambda runs: [replace(r, identity=replace(r.identity, versions={"torch": "2"})) for r in runs]},
            "version of torch 1.11.0 in Windows 10.0.19045, 2 in WSL2",
        ),
    ],
)
def test_what_does_not_compare_is_refused_by_name(files, capsys, right, reason):
    line = run(capsys, *files(right=saved("WSL2", WSL, **right)), code=1)
    assert reason in line and line.startswith("error: nothing of ") and len(line.splitlines()) == 1


def test_a_flagged_row_has_a_ratio_and_no_claim(files, capsys):
    def busy(runs):
        return [replace(r, measurement=replace(r.measurement, telemetry={"cpu_other_share": 0.5})) for r in runs]

    text = run(capsys, *files(right=saved("WSL2", WSL, change=busy)))
    assert "no claim" in text and "flagged in WSL2: FOREIGN" in text and "slower" not in text


def test_a_row_of_other_work_is_not_compared():
    left, right = saved("Windows", WINDOWS), saved("WSL2", WSL)
    broken = replace(right, campaign=made_up.certified(right.campaign, made_up.OTHER_WORK))
    found = diff.difference(diff.columns_of([diff.Source("a", left), diff.Source("b", broken)]))
    pytorch = next(line for line in found.tables[0].lines if line.key.runner == "pytorch-1.11.0")
    assert (pytorch.versus[0].verdict, pytorch.versus[0].ratio) == (diff.NOT_COMPARABLE, None)
    assert any("does other work in WSL2" in text for text in found.tables[0].blocked)


def test_a_merged_bundle_is_a_column_for_each_campaign(files, capsys, tmp_path):
    both = str(tmp_path / "both.trainyard")
    first, second = files()
    assert main.run(["merge", first, second, "-o", both]) == 0
    capsys.readouterr()
    assert run(capsys, both) == run(capsys, first, second)
    assert "is named twice" in run(capsys, both, first, code=2)
    assert "nothing to differ from" in run(capsys, first, code=2)
