"""What shells and people meet: completion by the shell's own protocol, -h everywhere, exact versions."""

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer

from controller.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environment(tmp_path):
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "proto")]),
        "TRAINYARD_DATA": str(tmp_path / "data"),
        "TRAINYARD_CONFIG": str(tmp_path / "none.toml"),
    }


def completed(environment, *words):
    """What bash would offer for the last word."""
    variables = {
        "_CONTROLLER_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["controller", *words]),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-m", "controller"]
    done = subprocess.run(command, env=environment | variables, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split()


def test_names_complete(environment):
    assert "pytorch-1.11.0" in completed(environment, "compare", "--runner", "py")
    assert all(name.startswith("py") for name in completed(environment, "compare", "-r", "py"))
    assert completed(environment, "verify", "--workload", "mlp-m") == ["mlp-mnist"]
    assert completed(environment, "lock", "jit") == ["jittor-1.3.1"]
    assert "published" in completed(environment, "compare", "--against", "pub")
    assert completed(environment, "compare", "--device", "g") == ["gpu"]
    assert "config" in completed(environment, "con")


def test_campaigns_and_tags_complete(environment, tmp_path):
    from controller.store import Store
    from tests.unit.controller import made_up

    assert completed(environment, "show", "be") == []
    (tmp_path / "data").mkdir(exist_ok=True)
    store = Store(tmp_path / "data" / "results.sqlite")
    campaign = made_up.campaign()
    store.add_campaign(campaign)
    store.tag(campaign.id, "before-upgrade")
    assert completed(environment, "show", "be") == ["before-upgrade"]
    assert completed(environment, "rm", campaign.id[:3]) == [campaign.id]


def test_a_damaged_results_file_completes_nothing(environment, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "results.sqlite").write_text("no database")
    assert completed(environment, "show", "a") == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_takes_the_script_and_completes(environment, tmp_path):
    """Bash itself sources what --show-completion prints, and calls the function as on the Tab key."""
    program = tmp_path / "controller"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m controller "$@"\n')
    program.chmod(0o755)
    script = """
        source <(_CONTROLLER_COMPLETE=source_bash controller)
        COMP_WORDS=(controller compare --workload cnn-m); COMP_CWORD=3
        complete -p controller >/dev/null || exit 9
        _controller_completion controller
        echo "${COMPREPLY[*]}"
    """
    paths = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment | {"PATH": paths}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "cnn-mnist\n"), done.stderr


def commands(group, *names):
    for name, command in getattr(group, "commands", {}).items():
        yield [*names, name]
        yield from commands(command, *names, name)


@pytest.mark.parametrize("words", [[], *commands(typer.main.get_command(main.app))], ids=" ".join)
def test_h_is_help_everywhere(words, capsys):
    assert main.run([*words, "-h"]) == 0
    short = capsys.readouterr().out
    assert main.run([*words, "--help"]) == 0
    assert capsys.readouterr().out == short and short.startswith("Usage: ")


def test_the_help_of_compare_begins_with_examples(capsys):
    main.run(["compare", "-h"])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[1] == "Examples:" and lines[2] == "controller compare --device cpu --quick"


def test_exit_codes_are_documented(capsys):
    main.run(["--help"])
    out = capsys.readouterr().out
    assert "Exit codes: 0 all sound, 1 something failed, 2 usage, 130 interrupted." in out
    assert "Train the same workloads on several runners" in out


def test_versions_are_exact(capsys):
    assert main.run(["--version"]) == 0
    out = capsys.readouterr().out
    for part in (version("trainyard"), f"Python {platform.python_version()}", f"grpcio {version('grpcio')}"):
        assert part in out
    assert platform.platform() in out


def test_one_host_of_the_settings_is_a_list_of_one_for_compare(monkeypatch, capsys):
    monkeypatch.setenv("TRAINYARD_HOST", "nowhere=x")
    assert main.run(["compare", "--quick"]) == 2
    assert "--host 'nowhere=x' is no host" in capsys.readouterr().err
