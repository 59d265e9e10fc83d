"""The command that a table says repeats it."""

import shlex
from pathlib import Path

import pytest

from controller.cli import repeating


@pytest.mark.parametrize(
    ("given", "repeated"),
    [
        (["--data-dir", "data"], ["--data-dir", "{cwd}/data"]),
        (["--data-dir=data"], ["--data-dir={cwd}/data"]),
        (["--data-dir", "/data"], ["--data-dir", "/data"]),
        (["--workload", "my.toml"], ["--workload", "{cwd}/my.toml"]),
        (["-w", "my.toml"], ["-w", "{cwd}/my.toml"]),
        (["-wmy.toml"], ["-w{cwd}/my.toml"]),
        (["-w", "mlp-mnist", "-wcnn-mnist"], ["-w", "mlp-mnist", "-wcnn-mnist"]),
        (["--workload", "mlp-mnist"], ["--workload", "mlp-mnist"]),
        (["--interpreter", "pytorch=env/bin/python"], ["--interpreter", "pytorch={cwd}/env/bin/python"]),
        (["--interpreter=pytorch=env/bin/python"], ["--interpreter=pytorch={cwd}/env/bin/python"]),
        (["--runner", "jittor-1.3.1", "--quick"], ["--runner", "jittor-1.3.1", "--quick"]),
    ],
)
def test_relative_paths_become_absolute_and_names_stay(given, repeated, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(repeating.command(["compare", *given], ["--trials", "3"], drawn_seed=7))
    expected = [word.format(cwd=Path.cwd()) for word in repeated]
    assert words == ["controller", "compare", *expected, "--trials", "3", "--order-seed", "7"]
