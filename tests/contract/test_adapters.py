"""The contract: against the reference in this process, and as its script in every framework's environment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from controller.runtimes.process import base_environment
from runners.reference.adapter import ReferenceAdapter
from tests import environments
from tests.contract import registry, sketch

ROOT = Path(__file__).resolve().parents[2]


def check(python, adapter, *options, environment=os.environ):
    """(exit code, standard output) of check.py in an environment."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "proto")])
    done = subprocess.run([python, str(ROOT / "tests/contract/check.py"), adapter, *options], check=False,
                          env=dict(environment, PYTHONPATH=path), stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout


def assert_nothing_fails(python, adapter, *options, environment=os.environ):
    code, output = check(python, adapter, "--json", *options, environment=environment)
    report = json.loads(output)
    failed = [f"{found['name']}: {found['message']}" for found in report["checks"] if found["outcome"] == "FAIL"]
    assert not failed, "\n".join(failed)
    assert code == 0
    return report


@pytest.mark.parametrize("name", list(registry.CHECKS))
def test_reference_passes(name):
    """In this process: the reference keeps no global state."""
    found = registry.run(name, ReferenceAdapter, sketch.execution())
    assert found["outcome"] == registry.PASS, found["message"]


def test_script_runs_each_check_by_name():
    report = assert_nothing_fails(sys.executable, "runners.reference.adapter", "--check", "describe", "--check",
                                  "refuses", "--check", registry.TWICE)
    assert [found["name"] for found in report["checks"]] == [
        "describe", "refuses.layout", "refuses.precision", "refuses.pipeline", "refuses.device", registry.TWICE]
    assert report["counts"] == {"PASS": 6, "FAIL": 0, "UNSUPPORTED": 0}


@pytest.mark.framework
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", environments.FRAMEWORKS)
def test_framework_passes_every_check(name):
    launch = environments.runner(name).launch
    variables = base_environment(launch)
    assert_nothing_fails(str(launch.python), launch.adapter, environment=variables)


def test_a_fault_is_printed_with_its_layer_and_exit_code_1():
    code, output = check(sys.executable, "tests.unit.runners.mutants.missing_bias", "--check", "layer.conv2d")
    assert code == 1
    assert output.startswith("FAIL        layer.conv2d")
    assert "layer valid.before (conv2d): output deviates by" in output
    assert output.endswith("mutants.missing_bias: 0 passed, 1 failed, 0 not supported\n")


def test_a_module_that_cannot_be_imported_fails_with_its_error():
    code, output = check(sys.executable, "runners.nothing.adapter", "--check", "describe")
    assert code == 1
    assert "the process died with exit code 1" in output
    assert "No module named 'runners.nothing'" in output


def test_a_check_that_does_not_end_is_killed(tmp_path):
    (tmp_path / "endless.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(ROOT), str(ROOT / "proto")])
    done = subprocess.run([sys.executable, str(ROOT / "tests/contract/check.py"), "endless", "--check", "describe",
                           "--timeout", "3"], check=False, env=dict(os.environ, PYTHONPATH=path),
                          stdout=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "the check did not end within 3 s" in done.stdout


@pytest.mark.parametrize("arguments", [["runners.reference.adapter", "--check", "no.such"], [], ["--device"]])
def test_wrong_use_is_exit_code_2(arguments):
    done = subprocess.run([sys.executable, str(ROOT / "tests/contract/check.py"), *arguments], check=False,
                          capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
