"""The command line as its users meet it: exit codes, one line for an error, nothing slow before it is needed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from controller.cli import main

ROOT = Path(__file__).parents[3]
# Not pydantic: Typer itself imports it as soon as it has to convert an option.
SLOW = {"grpc", "numpy", "psutil", "rich", "google.protobuf", "trainyard", "platformdirs", "sqlite3"}


def controller(*arguments, folder, code="from controller.cli.main import main; main()", **environment):
    """Runs one command line in a process of its own, with its files in ``folder``."""
    variables = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")}
    variables |= {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "proto")]),
        "TRAINYARD_DATA": str(folder / "data"),
        "TRAINYARD_CACHE": str(folder / "cache"),
        **environment,
    }
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=variables, cwd=folder, timeout=120, check=False)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["compar"], ["no such command 'compar'", "Did you mean 'compare'", "controller --help"]),
        (["--frobnicate"], ["no such option", "--frobnicate", "controller --help"]),
        (["compare", "--frobnicate"], ["no such option", "--frobnicate", "controller compare --help"]),
        (["compare", "surplus"], ["surplus", "controller compare --help"]),
        (["compare", "--runner"], ["--runner", "argument"]),
        (["compare", "--device", "tpu"], ["--device", "'tpu' is not one of 'cpu', 'gpu'"]),
        (["compare", "--output", "xml"], ["--output", "'xml' is not one of 'table', 'json'"]),
        (["compare", "--runtime", "podman"], ["--runtime", "'podman'"]),
        (["compare", "--trials", "0"], ["--trials"]),
        (["compare", "--trials", "many"], ["--trials"]),
        (["compare", "--threads", "0"], ["--threads"]),
        (["compare", "--gpu", "-1"], ["--gpu"]),
        (["compare", "--gpu", "0", "--device", "cpu"], ["--device cpu and --gpu 0 contradict each other"]),
        (["compare", "--runner", "referense"], ["unknown runner 'referense'", "did you mean 'reference'?"]),
        (["compare", "--workload", "mlp-mnits"], ["unknown workload 'mlp-mnits'", "did you mean 'mlp-mnist'?"]),
        (["compare", "--workload", "/"], ["workload / is a folder", "ending in .toml"]),
        (["compare", "--workload", "absent.toml"], ["cannot read workload file absent.toml"]),
        (["compare", "--variant", "jt"], ["unknown variant option 'jt'", "did you mean 'jit'?"]),
        (["compare", "--variant", "workers=x"], ["variant option workers cannot be 'x'"]),
        (["compare", "--batch-size", "-3"], ["--batch-size -3 is out of range"]),
        (["compare", "--epochs", "2", "--steps", "9"], ["both --steps and --epochs are given"]),
        (["compare", "--seed", "-1"], ["--seed -1 is out of range"]),
        (["compare", "--data-dir", "absent"], ["--data-dir absent is not a folder"]),
        (["compare", "--until-precision", "fine"], ["--until-precision 'fine' is not between 0.01% and 100%"]),
        (["compare", "--interpreter", "reference"], ["--interpreter 'reference' is not NAME=PYTHON"]),
        (["compare", "--interpreter", "reference=/absent"], ["there is no file /absent"]),
        (["compare", "--interpreter", "x=/bin/sh"], ["/bin/sh is not a working Python"]),
        (["runners", "--output", "xml"], ["--output"]),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, arguments, parts):
    monkeypatch.chdir(tmp_path)
    assert main.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ") and err.count("\n") == 1
    assert [part for part in parts if part not in err] == []


@pytest.mark.parametrize(
    "arguments", [["compar"], ["compare", "--trials", "0"], ["compare", "--workload", "mlp-mnits"]]
)
def test_a_mistake_from_the_shell(tmp_path, arguments):
    done = controller(*arguments, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("error: ")


def test_gpu_on_a_machine_without_one(tmp_path):
    done = controller("compare", "--gpu", "0", folder=tmp_path, PATH=str(tmp_path))
    if "no GPU" not in done.stderr:
        pytest.skip("this machine has a GPU")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("; use --device cpu\n")
    assert "nvidia-smi (not on PATH)" in done.stderr


def test_the_search_for_a_gpu_comes_before_anything_slow(tmp_path):
    code = (
        "import sys; from controller.cli.main import run; run(['compare', '--gpu', '99'])\n"
        f"print(sorted({(SLOW - {'rich', 'platformdirs'})!r} & set(sys.modules)))"  # settings are read first
    )
    done = controller(folder=tmp_path, code=code)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "slow"),
    [(["--help"], SLOW | {"pydantic"}), (["--version"], SLOW), (["compare", "--help"], SLOW), ([], SLOW)],
)
def test_help_imports_nothing_slow(tmp_path, arguments, slow):
    code = (
        "import sys; from controller.cli.main import run\n"
        f"code = run({arguments!r})\n"
        f"sys.stderr.write(repr(sorted({slow!r} & set(sys.modules))))\n"
        "sys.exit(code)"
    )
    done = controller(folder=tmp_path, code=code)
    assert (done.returncode, done.stderr) == (0, "[]")
    assert done.stdout


def test_version(tmp_path):
    from controller import __version__

    assert controller("--version", folder=tmp_path).stdout.startswith(f"trainyard {__version__}, Python 3.")


def test_workloads_as_json(tmp_path):
    done = controller("workloads", "--output", "json", folder=tmp_path)
    document = json.loads(done.stdout)
    assert (document["format"], document["version"]) == ("trainyard-workloads", 1)
    entries = {entry["name"]: entry for entry in document["workloads"]}
    assert len(entries) == 10
    assert (entries["mlp-mnist"]["parameter_count"], entries["mlp-mnist"]["epochs"]) == (407_050, 20)
    assert len(entries["mlp-mnist"]["digest"]) == 64
    # The number of bigrams is known only when the reviews have been read.
    assert (entries["fasttext-imdb"]["parameter_count"], entries["fasttext-imdb"]["digest"]) == (None, None)


def test_workloads_as_a_table(tmp_path):
    lines = controller("workloads", folder=tmp_path).stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("mlp-mnist ")]
    assert "407,050" in line and "20 epochs" in line and "Adam" in line
    assert any(line.startswith("fasttext-imdb ") and "from data" in line for line in lines)


def test_runners_as_json_and_table(tmp_path):
    document = json.loads(controller("runners", "--output", "json", folder=tmp_path).stdout)
    assert (document["format"], document["version"], document["device"]) == ("trainyard-runners", 1, "cpu")
    entries = {entry["name"]: entry for entry in document["runners"]}
    assert (entries["reference"]["available"], entries["reference"]["default"]) == (True, False)
    assert all(entry["available"] or entry["reason"] for entry in entries.values())
    lines = controller("runners", folder=tmp_path).stdout.splitlines()
    assert {line.split()[0] for line in lines} >= set(entries)


def test_a_closed_pipe_is_not_a_bug_report(tmp_path):
    code = (
        "import os, sys; from controller.cli.main import main\n"
        "reader, writer = os.pipe(); os.close(reader); os.dup2(writer, 1); main()"
    )
    done = controller("workloads", "--output", "json", folder=tmp_path, code=code)
    assert "bug" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_output_that_cannot_be_written_is_one_line(tmp_path):
    write = "import sys; sys.stdout = open('/dev/full', 'w'); "
    done = controller("workloads", folder=tmp_path, code=write + "from controller.cli.main import main; main()")
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot write the output: No space left on device; ")


def test_a_closed_output_is_an_output_that_nobody_reads(tmp_path):
    closed = "import sys; sys.stdout = None; from controller.cli.main import main; main()"
    done = controller("workloads", folder=tmp_path, code=closed)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_width_of_nothing_is_no_width(tmp_path):
    done = controller("workloads", folder=tmp_path, COLUMNS="0")
    assert "mlp-mnist" in done.stdout
