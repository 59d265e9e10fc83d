"""A user's own interpreter: read, matched with a runner, never taken for a pinned one, and left as it is."""

import os
import subprocess
import sys

import pytest

from controller.errors import UnknownNameError, UsageError
from controller.runtimes import interpreter
from controller.runtimes.interpreter import InterpreterRuntime, read, resolve
from controller.runtimes.packages import clean_environment, uv_program
from tests.unit.controller.fake_runners import House, write


@pytest.fixture
def house(tmp_path, monkeypatch):
    house = House(tmp_path)
    monkeypatch.setattr("controller.runtimes.service.runners_folder", lambda: house.runners)
    return house


@pytest.fixture
def own(tmp_path):
    """An interpreter with nothing in it."""
    folder = tmp_path / "own"
    command = [uv_program(), "venv", "-q", "--no-project", "--python", sys.executable, str(folder)]
    subprocess.run(command, check=True, env=clean_environment())
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def install(python, name):
    """Puts what a distribution's folder is known by, and an importable module."""
    script = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.check_output([python, "-c", script], text=True).strip()
    write(type(python)(site) / name / "METADATA", "")


def test_versions_are_read_from_it(own):
    install(own, "torch-2.4.1+cu121.dist-info")
    install(own, "Keras_Applications-1.0.8-py3.9.egg-info")
    found = read(own)
    assert found.packages["torch"] == "2.4.1+cu121"
    assert found.packages["keras-applications"] == "1.0.8"
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert set(found.missing) == {"numpy", "grpc", "google.protobuf", "grpc_health.v1"}


def test_a_program_that_is_no_python_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="is not a working Python"):
        read(write(tmp_path / "python", "#!/bin/sh\nexit 1\n"))


def test_a_framework_takes_any_version_and_is_named_by_it(house, own):
    house.add("tiny-1.0")
    install(own, "tiny-2.5.dist-info")
    (found,) = resolve([("tiny", own)], house.specs())
    assert (found.spec.name, found.spec.version, found.path) == ("tiny@2.5", "2.5", own)


def test_two_interpreters_for_one_row_contradict_each_other(house, own):
    house.add("tiny-1.0")
    install(own, "tiny-1.0.dist-info")
    with pytest.raises(UsageError, match=r"are both tiny-1\.0"):
        resolve([("tiny-1.0", own), ("tiny-1.0", own)], house.specs())


def test_a_runner_is_only_its_own_version(house, own):
    house.add("tiny-1.0")
    install(own, "tiny-2.5.dist-info")
    with pytest.raises(UsageError) as raised:
        resolve([("tiny-1.0", own)], house.specs())
    assert "has tiny 2.5, but runner tiny-1.0 is 1.0" in raised.value.line()
    assert f"--interpreter tiny={own}" in raised.value.line()


def test_a_build_for_one_device_counts_as_the_framework(house, own):
    house.add("tiny-1.0")
    install(own, "tiny_cpu-1.0.dist-info")
    assert [each.spec.name for each in resolve([("tiny-1.0", own)], house.specs())] == ["tiny-1.0"]


def test_an_interpreter_without_the_framework_is_named(house, own):
    house.add("tiny-1.0")
    for name in ("tiny", "tiny-1.0"):
        with pytest.raises(UsageError, match="has no tiny") as refused:
            resolve([(name, own)], house.specs())
        assert "install it there" in refused.value.hint
    runtime = InterpreterRuntime({"tiny-1.0": own}, house.cache)
    assert "has no tiny" in runtime.availability(house.specs()["tiny-1.0"]).reason


def test_a_name_that_is_neither_runner_nor_framework_is_unknown(house, own):
    house.add("tiny-1.0")
    with pytest.raises(UnknownNameError, match="unknown runner or framework 'tini'"):
        resolve([("tini", own)], house.specs())


def test_runners_that_differ_in_their_variables_must_be_named(house, own):
    house.add("tiny-a")
    house.add("tiny-b")
    path = house.runners / "tiny" / "runner.toml"
    path.write_text(path.read_text() + 'BACKEND = "b"\n')
    install(own, "tiny-2.5.dist-info")
    with pytest.raises(UsageError, match="may mean several runners; name one: tiny-a, tiny-b"):
        raise_line(resolve, [("tiny", own)], house.specs())


def raise_line(function, *arguments):
    try:
        function(*arguments)
    except UsageError as error:
        raise UsageError(error.line()) from error


def test_what_it_has_is_used_and_what_points_into_a_managed_environment_is_not_set(house, own, monkeypatch):
    house.add("tiny-1.0")
    path = house.runners / "tiny" / "runner.toml"
    path.write_text(path.read_text() + 'BACKEND = "b"\n')
    install(own, "tiny-1.0.dist-info")
    monkeypatch.setattr(interpreter, "_NEEDED", {})
    spec = house.specs()["tiny-1.0"]
    seen = []
    prepared = InterpreterRuntime({"tiny-1.0": own}, house.cache).prepare([spec], "cpu", seen.append)["tiny-1.0"]
    assert prepared.environment.runtime == "interpreter"
    assert prepared.environment.location == str(own)
    assert prepared.launch.variables == {"BACKEND": "b"}
    assert prepared.launch.user_site
    assert prepared.launch.overlay is None
    assert [event.state for event in seen] == ["ready"]


def test_what_it_lacks_comes_from_an_overlay_outside_of_it(house, own, monkeypatch):
    house.add("tiny-1.0")
    house.offline(monkeypatch)
    install(own, "tiny-1.0.dist-info")
    monkeypatch.setattr(interpreter, "_NEEDED", {"tiny": "tiny==1.0"})
    monkeypatch.setattr(interpreter, "_CHECK", "import sys; sys.path.append(sys.argv[1]); import tiny")
    before = sorted(path for path in own.parents[1].rglob("*") if "__pycache__" not in str(path))
    runtime = InterpreterRuntime({"tiny-1.0": own}, house.cache)
    spec = house.specs()["tiny-1.0"]
    prepared = runtime.prepare([spec], "cpu", lambda event: None)["tiny-1.0"]
    assert (prepared.launch.overlay / "tiny.py").is_file()
    assert sorted(path for path in own.parents[1].rglob("*") if "__pycache__" not in str(path)) == before
    again = []
    assert runtime.prepare([spec], "cpu", again.append)["tiny-1.0"] == prepared
    assert [event.state for event in again] == ["ready"]


def test_an_overlay_that_cannot_be_had_says_what_to_install(house, own, monkeypatch):
    house.add("tiny-1.0")
    house.offline(monkeypatch)
    install(own, "tiny-1.0.dist-info")
    results = InterpreterRuntime({"tiny-1.0": own}, house.cache).prepare(
        list(house.specs().values()), "cpu", lambda event: None
    )
    line = results["tiny-1.0"].line()
    assert "grpcio-health-checking==1.48.2 could not be added" in line
    assert "install them there" in line
    assert os.linesep not in line
