"""A Ctrl-C whose exception Python drops still ends the loop that asks."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# An exception in a finaliser is printed and dropped, as one in a callback of C code is.
PROGRAM = """
import os, signal, time
from controller import interrupts
interrupts.install()
class Dropping:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        time.sleep(0.1)
thing = Dropping()
del thing
print("dropped", flush=True)
try:
    interrupts.check()
except KeyboardInterrupt:
    print("seen")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends the process there")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_that_was_dropped_is_seen_by_who_asks(name):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=name)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.stdout.split() == ["dropped", "seen"]
    assert "Exception ignored" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends the process there")
def test_what_must_stay_together_is_finished_first():
    program = """
import os, signal
from controller import interrupts
interrupts.install()
try:
    with interrupts.postponed():
        os.kill(os.getpid(), signal.SIGINT)
        print("together", flush=True)
    print("never")
except KeyboardInterrupt:
    print("after")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.split() == ["together", "after"]


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends the process there")
def test_an_interrupt_while_the_command_is_still_being_imported_is_one_line():
    program = (
        "import builtins, os, signal\n"
        "real = builtins.__import__\n"
        "def importing(name, *rest):\n"
        "    if name == 'controller.cli.main':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = importing\n"
        "from controller.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")
