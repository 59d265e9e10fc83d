"""Real framework environments for tests: built on first use through the controller, or the test is skipped aloud.

With TRAINYARD_REQUIRE_FRAMEWORKS=1 (CI) an environment that cannot be had is a failure, never a skip.
"""

import os
from functools import cache
from pathlib import Path

import pytest

from controller.catalog import runners
from controller.errors import ControllerError
from controller.runtimes.process import LocalRunner
from controller.runtimes.venv import VenvRuntime

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
REQUIRED = os.environ.get("TRAINYARD_REQUIRE_FRAMEWORKS") == "1"
# One of each adapter; the other versions share it and are added by TRAINYARD_TEST_RUNNERS=NAME,NAME.
FRAMEWORKS = tuple(os.environ.get("TRAINYARD_TEST_RUNNERS", "tensorflow-2.6.0,pytorch-1.11.0,jittor-1.3.1").split(","))
_TOGETHER = (*FRAMEWORKS, "reference")


def runner(name: str) -> LocalRunner:
    """A runner whose environment stands; skips, or fails where frameworks are required."""
    found = _prepared(_TOGETHER if name in _TOGETHER else (name,))[name]
    if isinstance(found, ControllerError):
        (pytest.fail if REQUIRED else pytest.skip)(f"{name}: {found.line()}")
    assert isinstance(found, LocalRunner)
    return found


def python(name: str) -> Path:
    """The interpreter of a runner's environment."""
    return runner(name).launch.python


@cache
def _prepared(names):
    """All of them at once, so that they are built together."""
    return VenvRuntime().prepare(runners.select(names), "cpu", lambda event: None)


def data_options() -> list[str]:
    """Options of ``compare`` for real MNIST where the files are, else for what the machine can have."""
    return ["--data-dir", str(DATA)] if (DATA / "mnist.npz").is_file() else []
