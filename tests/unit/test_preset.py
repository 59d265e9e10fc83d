"""``compare --preset``: the published third table as options, what wins over it, and the shape of both reports."""

from dataclasses import replace

import pytest

from controller import campaign
from controller.bundles import format as bundles
from controller.bundles.records import Saved
from controller.catalog import presets, published, runners, workloads
from controller.cli import main
from controller.errors import DatasetError
from controller.results import Variant
from controller.store import Store
from tests.unit.controller import made_up

TABLE = published.find("ttj-3")
SIDES = ("--host", "win=grpc://127.0.0.1:4001", "--host", "wsl=grpc://127.0.0.1:4002")
SYSTEMS = {
    "win": "Windows 10, 10.0.19045, Professional",
    "wsl": "Ubuntu 20.04.6 LTS, Linux 5.15.90.1-microsoft-standard-WSL2, WSL2",
}
PRINTED = {"Windows 10": "win", "WSL2": "wsl"}


def trials_of(cell):
    """Those that are published of this cell, a third one between them; none where nothing is."""
    for row in TABLE.row:
        if (presets.runner_of(row), PRINTED[row.host]) == (cell.runner, cell.host):
            return made_up.trials(cell, *row.seconds, row.median_seconds)
    return made_up.lost(cell, "unsupported", "NO_BUILD", "this host cannot have it")


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Keeps the request, and ends there."""
    found = []

    def run(request, observe, store):
        found.append(request)
        raise DatasetError("enough")

    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(campaign, "run", run)
    return found


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    """Keeps the request, and the published times as its result."""
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path))
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    found = []

    def run(request, observe, store):
        found.append(request)
        if request.resumed is not None:
            return request.resumed
        summaries = tuple(workloads.summarise(each) for each in request.workloads)
        cells = [
            made_up.cell(name, summary, host=host.name, device="gpu:0", variant=variant)
            for summary in summaries for host in request.hosts for name in request.runners
            for variant in request.variants
        ]  # fmt: skip
        machines = {name: replace(made_up.MACHINE, name="desk", system=system) for name, system in SYSTEMS.items()}
        done = replace(
            made_up.campaign(*cells, workloads=summaries),
            machines=machines,
            command=request.command,
            id="2026-12-02-abc",
        )
        store.add_campaign(done)
        for place, trial in enumerate(trial for cell in cells for trial in trials_of(cell)):
            store.add_trial(replace(trial, id=f"t-{place}", campaign=done.id, position=place))
        return done

    monkeypatch.setattr(campaign, "run", run)
    return found


def compare(monkeypatch, *words):
    arguments = ["compare", "--preset", "windows-vs-wsl2", *words]
    monkeypatch.setattr("sys.argv", ["controller", *arguments])
    return main.run(arguments)


def test_it_is_the_published_table_and_no_more(asked, monkeypatch):
    compare(monkeypatch, *SIDES)
    (found,) = asked
    printed = dict.fromkeys((row.framework.lower(), row.version) for row in TABLE.row)
    specs = [runners.load()[name] for name in found.runners]
    assert [(spec.framework, spec.version[: len("1.3.1")]) for spec in specs] == [
        (framework, version[:5]) for framework, version in printed
    ]
    assert found.runners == ("tensorflow-2.6.3", "pytorch-1.11.0", "jittor-1.3.1")
    (workload,) = found.workloads
    assert workload == workloads.find(TABLE.workload)
    assert (workload.schedule.steps, workload.schedule.batch_size) == (TABLE.steps, 8)
    assert (found.variants, found.device, found.gpu_index) == ((Variant(),), "gpu", 0)
    assert [host.name for host in found.hosts] == ["win", "wsl"]
    assert {row.host for row in TABLE.row} == set(presets.find("windows-vs-wsl2").sides)


def test_the_published_numbers_stand_beside(pretend, monkeypatch, capsys):
    assert compare(monkeypatch, *SIDES) == 0
    text = capsys.readouterr().out
    assert "against ttj-3: ResNet-50 on CIFAR-10" in text
    header = next(line for line in text.splitlines() if line.startswith("runner"))
    assert "GTX 1070 Ti, Windows 10 s" in header and "GTX 1070 Ti, WSL2 s" in header
    assert "pytorch-1.11.0: wsl takes 1.51 times as long as win" in text


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (("--device", "cpu"), "device", "cpu"),
        (("--gpu", "1"), "gpu_index", 1),
        (("--runner", "pytorch-1.9.1"), "runners", ("pytorch-1.9.1",)),
        (("--variant", "jit", "--variant", "default"), "variants", (Variant(jit=True), Variant())),
        (("--workload", "mlp-mnist"), "workloads", (workloads.find("mlp-mnist"),)),
        (("--quick",), "workloads", (workloads.find("resnet50-cifar10-b8", quick=True),)),
        (("--trials", "2"), "trials", 2),
    ],
)
def test_what_is_said_wins(asked, monkeypatch, words, name, value):
    compare(monkeypatch, *SIDES, *words)
    assert getattr(asked[0], name) == value


def test_another_table_or_workload_has_no_published_numbers_of_this_one(pretend, monkeypatch, capsys):
    compare(monkeypatch, *SIDES, "--workload", "mlp-mnist")
    assert "against ttj-3" not in capsys.readouterr().out


def test_it_wins_over_settings_and_the_stored_command_says_so(pretend, monkeypatch, tmp_path):
    (tmp_path / "trainyard.toml").write_text('runner = ["reference"]\ndevice = "cpu"\ntrials = 4\n')
    compare(monkeypatch, *SIDES)
    assert (pretend[0].runners[0], pretend[0].device, pretend[0].trials) == ("tensorflow-2.6.3", "gpu", 4)
    assert "--trials 4" in pretend[0].command
    assert "reference" not in pretend[0].command and "--device" not in pretend[0].command
    assert main.run(["compare", "--resume", "--columns", "runner"]) == 0
    again = pretend[1]
    assert (again.runners, again.device, again.hosts) == (pretend[0].runners, "gpu", pretend[0].hosts)


def test_what_it_needs_is_one_line(asked, monkeypatch, capsys):
    assert main.run(["compare", "--preset", "windows-vs-wsl"]) == 2
    assert capsys.readouterr().err == (
        "error: unknown preset 'windows-vs-wsl'; did you mean 'windows-vs-wsl2'? known: windows-vs-wsl2\n"
    )
    for words in ((), ("--host", "local"), SIDES[:2]):
        assert compare(monkeypatch, *words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "needs a --host for each side (Windows 10, WSL2); write e.g. --host local --host wsl=" in line
    assert compare(monkeypatch, "--resume") == 2
    assert "--preset and --resume contradict each other" in capsys.readouterr().err
    assert asked == []


def test_sides_that_never_meet_are_saved_and_the_difference_has_the_published_shape(
    pretend, monkeypatch, capsys, tmp_path
):
    """One host with --save is one side: a column, and a row for each framework."""
    files = []
    for number, (name, system) in enumerate(SYSTEMS.items()):
        assert compare(monkeypatch, *SIDES[2 * number : 2 * number + 2], "--save", str(tmp_path / "x.trainyard")) == 0
        kept = Store(tmp_path / "results.sqlite")
        found = kept.campaign("2026-12-02-abc")
        machine = replace(found.machine, system=system)
        trials = tuple(replace(each, campaign=f"2026-12-02-{name}") for each in kept.trials(found.id))
        saved = Saved(replace(found, id=f"2026-12-02-{name}", machine=machine), trials)
        files.append(str(tmp_path / f"{name}.trainyard"))
        bundles.write(tmp_path / f"{name}.trainyard", [saved])
        kept.remove(found.id)
    capsys.readouterr()
    assert main.run(["diff", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{TABLE.workload}: ")
    assert "Windows 10 s  WSL2 s  WSL2 / Windows 10" in " ".join(lines[1].split()).replace(" s ", " s  ")
    rows = {line.split()[0]: line.split()[1:] for line in lines[3:6]}
    assert list(rows) == ["tensorflow-2.6.3", "pytorch-1.11.0", "jittor-1.3.1"]
    assert rows["pytorch-1.11.0"][3:6] == ["36.00", "54.50", "1.51"]
    assert rows["jittor-1.3.1"][3:6] == ["45.00", "53.50", "1.19"]
    assert rows["tensorflow-2.6.3"][3] == "32.00"
