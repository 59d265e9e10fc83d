"""Interpreters are found where people have them, judged by what they say, and missed with a clear line."""

import json
import sys
import threading

import pytest

from controller.catalog.runners import own_python
from controller.errors import HostError
from controller.runtimes import pythons
from controller.runtimes.commands import Command
from controller.runtimes.pythons import Pythons, launcher_paths
from tests.unit.controller.fake_runners import write

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the made-up interpreters are shell scripts")


@pytest.fixture(autouse=True)
def bare(tmp_path, monkeypatch):
    """A machine without any Python but the running one, and without network."""
    for name in ("PYENV_ROOT", "PYENV", "CONDA_PREFIX", "UV_PYTHON_INSTALL_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    pythons._probed.cache_clear()


def interpreter(path, version, name="cpython", bits=64, level="final", free_threaded=False):
    answer = json.dumps([name, [int(part) for part in version.split(".")], level, bits, free_threaded, str(path)])
    write(path, f"#!/bin/sh\necho '{answer}'\n").chmod(0o755)
    return path


def command(folder):
    return Command(folder / "log", folder, threading.Event())


def test_the_newest_patch_of_all_places_is_taken(tmp_path):
    interpreter(tmp_path / "bin" / "python3.9", "3.9.2")
    interpreter(tmp_path / "home/.pyenv/versions/3.9.7/bin/python3", "3.9.7")
    newest = interpreter(tmp_path / "home/.pyenv/versions/3.9.18/bin/python3", "3.9.18")
    interpreter(tmp_path / "home/.local/share/uv/python/cpython-3.9.9-linux-x86_64-gnu/bin/python3", "3.9.9")
    interpreter(tmp_path / "home/.pyenv/versions/3.10.1/bin/python3", "3.10.1")
    assert Pythons(tmp_path).find("3.9").path == newest


def test_pyenv_root_and_conda_and_our_own_folder_are_searched(tmp_path, monkeypatch):
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "elsewhere"))
    interpreter(tmp_path / "elsewhere/versions/3.6.15/bin/python3", "3.6.15")
    interpreter(tmp_path / "conda/envs/old/bin/python3", "3.7.4")
    write(tmp_path / "home/.conda/environments.txt", f"{tmp_path}/conda/envs/old\n/gone\n")
    interpreter(tmp_path / "pythons/cpython-3.8.20-linux-x86_64-gnu/bin/python3", "3.8.20")
    found = Pythons(tmp_path)
    assert [found.find(minor).version for minor in ("3.6", "3.7", "3.8")] == ["3.6.15", "3.7.4", "3.8.20"]


def test_a_shim_that_fails_and_other_kinds_of_python_are_passed_over(tmp_path):
    write(
        tmp_path / "bin" / "python3.9", "#!/bin/sh\necho 'pyenv: python3.9: command not found' >&2; exit 127\n"
    ).chmod(0o755)
    interpreter(tmp_path / "home/.pyenv/versions/pypy-3.9.1/bin/python3", "3.9.1", name="pypy")
    interpreter(tmp_path / "home/.pyenv/versions/3.9.3/bin/python3", "3.9.3", bits=32)
    interpreter(tmp_path / "home/.pyenv/versions/3.9.4/bin/python3", "3.9.4", level="candidate")
    interpreter(tmp_path / "home/.pyenv/versions/3.9.5/bin/python3", "3.9.5", free_threaded=True)
    assert Pythons(tmp_path).find("3.9") is None


def test_the_running_interpreter_is_found_with_an_empty_path(tmp_path):
    assert Pythons(tmp_path).find(own_python()).version == ".".join(map(str, sys.version_info[:3]))


def test_a_python_that_cannot_be_had_says_where_it_was_looked_for_and_what_to_do(tmp_path):
    with pytest.raises(HostError) as raised:
        Pythons(tmp_path / "cache").get("3.9", command(tmp_path))
    line = raised.value.line()
    assert "Python 3.9 was not found (PATH, pyenv, uv, the Windows launcher and conda)" in line
    assert "uv could not fetch it" in line
    assert "pyenv install 3.9" in line


def test_the_windows_launchers_list_is_understood():
    listing = (
        " -V:3.11 *        C:\\Python311\\python.exe\r\n -V:3.9           C:\\Program Files\\Python39\\python.exe\n"
        " -V:3.9-32        C:\\Python39-32\\python.exe\n -3.7-64        C:\\Python37\\python.exe\n"
    )
    assert [str(path) for path in launcher_paths(listing, "3.9")] == ["C:\\Program Files\\Python39\\python.exe"]
    assert [str(path) for path in launcher_paths(listing, "3.11")] == ["C:\\Python311\\python.exe"]
    assert [str(path) for path in launcher_paths(listing, "3.7")] == ["C:\\Python37\\python.exe"]


def test_a_fetched_python_lies_in_our_cache_and_is_used(tmp_path, monkeypatch):
    answer = tmp_path / "answer"
    interpreter(answer, "3.9.20")
    folder = "cpython-3.9.20-linux-x86_64-gnu/bin"
    uv = f'#!/bin/sh\n/bin/mkdir -p "$4/{folder}" && /bin/cp {answer} "$4/{folder}/python3"\n'
    write(tmp_path / "uv", uv).chmod(0o755)
    monkeypatch.setattr(pythons, "uv_program", lambda: str(tmp_path / "uv"))
    found = Pythons(tmp_path / "cache").get("3.9", command(tmp_path))
    assert found.version == "3.9.20"
    assert (tmp_path / "cache" / "pythons" / folder / "python3").is_file()
