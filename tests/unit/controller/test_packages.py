"""uv is told what this user's pip would do, and its output is understood."""

import pytest

from controller.runtimes import packages
from controller.runtimes.packages import pip_options, uv_cause, uv_environment
from tests.unit.controller.fake_runners import write


@pytest.fixture(autouse=True)
def no_configuration(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "xdg"))
    monkeypatch.setattr(packages.sys, "prefix", str(tmp_path / "prefix"))
    for name in [name for name in packages.os.environ if name.startswith(("PIP_", "UV_")) or name == "XDG_CONFIG_HOME"]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)


def test_later_files_win_and_variables_win_over_files(tmp_path, monkeypatch):
    write(tmp_path / "xdg/pip/pip.conf", "[global]\nindex-url = https://system/\nfind-links = /a\n   /b\ncert = /ca\n")
    write(tmp_path / "home/.config/pip/pip.conf", "[global]\nindex_url = https://user/\n[install]\ncert = /mine\n")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://x/ https://y/")
    options = pip_options()
    assert options["index-url"] == "https://user/"
    assert options["cert"] == "/mine"
    assert options["find-links"].endswith("/a /b")
    assert options["extra-index-url"] == "https://x/ https://y/"


def test_the_null_device_means_no_files(tmp_path, monkeypatch):
    write(tmp_path / "home/.config/pip/pip.conf", "[global]\nindex-url = https://user/\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    assert pip_options() == {}


def test_pips_choices_become_uvs(tmp_path, monkeypatch):
    file = write(tmp_path / "pip.conf", "[global]\nindex-url = https://a/\nproxy = proxy:3128\ntrusted-host = a\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_FIND_LINKS", "/w1 /w2")
    monkeypatch.setenv("PIP_CERT", "/ca.pem")
    monkeypatch.setenv("PIP_NO_INDEX", "true")
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    environment = uv_environment(indexes=["https://b/"])
    assert environment["UV_DEFAULT_INDEX"] == "https://a/"
    assert environment["UV_INDEX"].split()[-1] == "https://b/"
    assert environment["UV_FIND_LINKS"] == "/w1,/w2"
    assert environment["SSL_CERT_FILE"] == "/ca.pem"
    assert packages.pip_arguments() == ["--no-index"]
    assert environment["UV_INSECURE_HOST"] == "a"
    assert environment["HTTPS_PROXY"] == "http://proxy:3128"


def test_what_is_set_for_uv_wins_but_nothing_that_changes_what_is_built(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://pip/")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://uv/")
    monkeypatch.setenv("UV_CONSTRAINT", "/constraints.txt")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setenv("VIRTUAL_ENV", "/venv")
    environment = uv_environment()
    assert environment["UV_DEFAULT_INDEX"] == "https://uv/"
    assert not {"UV_CONSTRAINT", "PYTHONPATH", "VIRTUAL_ENV", "PIP_INDEX_URL"} & set(environment)


NO_VERSION = """Using Python 3.9.18 environment at: e1
  × No solution found when resolving dependencies:
  ╰─▶ Because there is no version of torch==9.9 and you require torch==9.9, we can conclude that your
      requirements are unsatisfiable.
"""
NO_NETWORK = """error: Request failed after 3 retries
  Caused by: Failed to fetch: `https://index/simple/torch/`
  Caused by: dns error
"""


def test_the_deepest_cause_is_told():
    assert uv_cause(NO_VERSION).startswith("Because there is no version of torch==9.9")
    assert uv_cause(NO_NETWORK) == "dns error"
    assert uv_cause("something\nelse\n") == "else"
    assert uv_cause("") == "it printed nothing"


def test_progress_only_grows():
    seen = []
    progress = packages._Progress(lambda stage, fraction: seen.append((stage, fraction)))
    for line in ("Resolved 6 packages in 1ms", "Downloading numpy (17.4MiB)", " Downloaded numpy"):
        progress.line(line)
    progress.line("Downloading torch (792.9MiB)")
    for mebibytes in (10, 900, 1700):
        progress.written(mebibytes * 2**20)
    progress.line(" Downloaded torch")
    progress.line("Prepared 6 packages in 23.37s")
    fractions = [fraction for _, fraction in seen]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0
    assert 0.5 < fractions[-3] < fractions[-1] == 0.9
    assert ("downloading torch", fractions[-3]) in seen
