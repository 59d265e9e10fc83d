"""Settings: which value wins, where it is from, what is refused, and that a stored command does without them."""

import importlib
import json
import shlex
import sys
from pathlib import Path

import pytest
import typer

from controller import configuration, paths
from controller.cli import main
from controller.errors import UsageError

compare = importlib.import_module("controller.cli.compare")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder with nothing in it, and a project below it, which is the current folder."""
    for name in configuration.SETTINGS:
        monkeypatch.delenv(configuration.variable(name), raising=False)
    project = tmp_path / "home" / "work" / "project"
    project.mkdir(parents=True)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setenv(paths.CONFIG_VARIABLE, str(tmp_path / "own.toml"))
    monkeypatch.setenv(paths.DATA_VARIABLE, str(tmp_path / "data"))
    monkeypatch.chdir(project)
    return tmp_path / "home"


@pytest.fixture
def requests(monkeypatch):
    """The requests of compare commands that are run, which train nothing."""
    found = []
    monkeypatch.setattr(compare, "_carry_out", lambda request, *rest: found.append(request) or 0)
    return found


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["controller", *words])
    return main.run(words)


def put(folder, text):
    path = folder / "trainyard.toml"
    path.write_text(text)
    return path


def test_the_nearest_file_wins_and_variables_win_over_files(home, tmp_path, monkeypatch):
    (tmp_path / "own.toml").write_text("trials = 1\nthreads = 1\npause = 1\nhost = 'local'\n")
    above = put(home, "trials = 2\nthreads = 2\npause = 2.5\n")
    here = put(Path.cwd(), "# nearest\n\ntrials = 3\nthreads = 3\n")
    put(tmp_path, "columns = 'runner'\n")  # above the home folder: somebody else's
    monkeypatch.setenv("TRAINYARD_TRIALS", "4")
    assert configuration.load() == {
        "trials": configuration.Value(4, "TRAINYARD_TRIALS"),
        "threads": configuration.Value(3, f"{here}:4"),
        "pause": configuration.Value(2.5, f"{above}:3"),
        "host": configuration.Value("local", f"{tmp_path / 'own.toml'}:4"),
    }


def test_paths_of_a_file_are_relative_to_it(home):
    put(home, 'data-dir = "data"\nworkload = ["mlp-mnist", "my.toml"]\ninterpreter = "reference=env/python"\n')
    found = {name: value.value for name, value in configuration.load().items()}
    assert found == {
        "data-dir": str(home / "data"),
        "workload": ["mlp-mnist", str(home / "my.toml")],
        "interpreter": [f"reference={home / 'env/python'}"],
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("trils = 3", "unknown setting 'trils'; did you mean 'trials'?"),
        ("data_dir = 'x'", "did you mean 'data-dir'?"),
        ("[compare]\ntrials = 3", "unknown setting 'compare'"),
        ("trials = '3'", "trials = '3' is not a whole number"),
        ("trials = true", "trials = True is not a whole number"),
        ("pause = 'long'", "pause = 'long' is not a number"),
        ("runner = 3", "runner = 3 is not a text or a list of texts"),
        ("runner = [1]", "runner = [1] is not a text or a list of texts"),
        ("device = ['cpu']", "device = ['cpu'] is not a text"),
        ("trials =", "cannot be read"),
        ("\ntrials = 0", "trainyard.toml:2: trials = 0: "),
        ("device = 'tpu'", "trainyard.toml:1: device = 'tpu': 'tpu' is not one of 'cpu', 'gpu'"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_key(home, requests, monkeypatch, capsys, text, told):
    path = put(Path.cwd(), text)
    assert run(monkeypatch, "compare", "--runner", "reference") == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {path}") and told in err and err.count("\n") == 1
    assert requests == []
    assert run(monkeypatch, "compare", "--help") == 0


def test_a_variable_of_the_wrong_type_names_itself(home, monkeypatch):
    monkeypatch.setenv("TRAINYARD_TRIALS", "many")
    with pytest.raises(UsageError, match="TRAINYARD_TRIALS=many is not a whole number"):
        configuration.load()


def test_settings_are_defaults_and_the_command_line_wins(home, requests, monkeypatch):
    put(home, 'trials = 7\nthreads = 2\nrunner = "reference"\nvariant = ["workers=0", "workers=2"]\n')
    monkeypatch.setenv("TRAINYARD_PAUSE", "0")
    assert run(monkeypatch, "compare", "--trials", "9") == 0
    (request,) = requests
    assert (request.trials, request.threads, request.runners, request.pause_seconds) == (9, 2, ("reference",), 0.0)
    assert [variant.workers for variant in request.variants] == [0, 2]


def test_the_stored_command_repeats_the_campaign_without_the_settings(home, requests, monkeypatch):
    (home / "data").mkdir()
    path = put(home, 'trials = 7\nthreads = 2\ndata-dir = "data"\nrunner = ["reference"]\nvariant = "workers=0"\n'
                     'runtime = "venv"\npause = 1\n')  # fmt: skip
    assert run(monkeypatch, "compare", "--quick", "--trials", "8") == 0
    path.unlink()
    words = shlex.split(requests[0].command)
    assert run(monkeypatch, *words[1:]) == 0
    assert requests[1] == requests[0]


def test_a_gpu_on_the_command_line_makes_the_settings_device_void(home, requests, monkeypatch, capsys):
    put(home, 'device = "cpu"\n')
    code = run(monkeypatch, "compare", "--gpu", "0")
    assert code == 0 or "no GPU" in capsys.readouterr().err
    put(home, "gpu = 99\n")
    assert run(monkeypatch, "compare", "--device=cpu", "--runner", "reference") == 0
    assert requests[-1].device == "cpu"


def test_other_commands_take_what_they_share(home, monkeypatch, capsys):
    put(home, 'columns = "runner,nothing"\ntrials = 3\ndevice = "gpu"\n')
    assert run(monkeypatch, "show") == 2
    assert "nothing" in capsys.readouterr().err
    assert run(monkeypatch, "runners", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out)["device"] == "gpu"
    assert run(monkeypatch, "workloads") == 0


def test_config_shows_each_origin(home, monkeypatch, capsys):
    path = put(home, 'runner = ["reference", "jittor-1.3.1"]\n')
    monkeypatch.setenv("TRAINYARD_TRIALS", "4")
    assert run(monkeypatch, "config", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["format"], document["version"], document["files"]) == ("trainyard-config", 1, [str(path)])
    found = {entry["name"]: (entry["value"], entry["origin"]) for entry in document["settings"]}
    assert found["runner"] == (["reference", "jittor-1.3.1"], f"{path}:1")
    assert found["trials"] == (4, "TRAINYARD_TRIALS")
    assert found["runtime"] == ("auto", "default")
    assert found["data folder"][1] == "TRAINYARD_DATA"
    assert run(monkeypatch, "config") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["trials", "4", "TRAINYARD_TRIALS"] in lines
    assert ["device", "cpu", "default"] in lines


def test_every_setting_is_an_option_of_compare():
    options = {option.name for option in typer.main.get_command(main.app).commands["compare"].params}
    assert {name.replace("-", "_") for name in configuration.SETTINGS} <= options
