"""A runner's process: ready or told why not, and gone for certain however it ends."""

import _thread
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from controller.errors import RunnerError
from controller.runtimes import process
from controller.runtimes.base import StartOptions
from controller.runtimes.process import Launch
from controller.runtimes.trees import Tree, describe_exit
from tests.unit.controller.fake_runners import OWN_PYTHON, House, gone, until

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


@pytest.fixture
def house(tmp_path):
    return House(tmp_path)


def launch(house, behaviour="sound", **fields):
    return Launch("tiny-1", OWN_PYTHON, f"runners.tiny.{behaviour}", house.runners.parent, **fields)


def options(house, seconds=60.0, **fields):
    defaults = {"threads": 3, "blobs": house.blobs, "log": house.root / "log", "start_seconds": seconds}
    return StartOptions(**{**defaults, **fields})


def seen_inside(house):
    return json.loads((house.blobs / "environment.json").read_text())


def test_a_started_runner_serves_and_stops(house):
    with process.start(launch(house), options(house)) as running:
        assert running.alive()
        assert running.target.startswith("127.0.0.1:")
        assert running.exit_reason() is None
    assert not running.alive()
    assert gone(running.pid)
    assert "adapter says sound" in (house.root / "log").read_text()
    running.stop()


def test_the_environment_is_the_runners_and_not_the_callers(house, monkeypatch):
    monkeypatch.setenv("PYTHONSTARTUP", "/mine")
    monkeypatch.setenv("VIRTUAL_ENV", "/venv")
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("HOME", str(house.root))
    theirs = {"OMP_NUM_THREADS": "64", "OMP_WAIT_POLICY": "active", "MALLOC_TRIM_THRESHOLD_": "0"}
    own = launch(house, variables=theirs, search_path=(house.root,))
    process.start(own, options(house)).stop()
    inside = seen_inside(house)
    assert not {"PYTHONSTARTUP", "VIRTUAL_ENV", "OMP_PROC_BIND", "TF_ENABLE_ONEDNN_OPTS"} & set(inside)
    assert inside["OMP_WAIT_POLICY"] == "passive"
    assert inside["MALLOC_TRIM_THRESHOLD_"] == "1073741824"
    assert inside["HOME"] == str(house.root)
    assert [inside[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")] == ["3", "3", "3"]
    assert inside["CUDA_VISIBLE_DEVICES"] == ("-1" if sys.platform == "win32" else "")
    assert inside["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert inside["PYTHONNOUSERSITE"] == inside["PYTHONDONTWRITEBYTECODE"] == "1"
    assert inside["PYTHONPATH"] == str(house.runners.parent)
    assert inside["PATH"].split(os.pathsep)[0] == str(house.root)


def test_a_gpu_run_sees_that_gpu_alone_and_an_own_interpreter_its_users_packages(house):
    own = launch(house, user_site=True, overlay=house.root / "overlay")
    process.start(own, options(house, gpu_uuid="GPU-1234")).stop()
    inside = seen_inside(house)
    assert inside["CUDA_VISIBLE_DEVICES"] == "GPU-1234"
    assert "PYTHONNOUSERSITE" not in inside
    assert inside["TRAINYARD_OVERLAY"] == str(house.root / "overlay")


def test_a_proxy_does_not_stand_between_controller_and_runner(house, monkeypatch):
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    process.start(launch(house), options(house)).stop()


@posix
def test_a_runner_that_is_killed_at_start_is_told_with_signal_and_log(house):
    with pytest.raises(RunnerError) as raised:
        process.start(launch(house, "killed"), options(house))
    assert raised.value.reason == "PROCESS_DIED"
    assert "tiny-1: did not start: the process was ended by signal SIGKILL (9)" in raised.value.message
    assert raised.value.log_tail == "adapter says killed"


def test_a_runner_that_exits_is_told_with_code_and_its_last_line(house):
    (house.root / "log").write_text("an earlier trial's line\n")
    with pytest.raises(RunnerError) as raised:
        process.start(launch(house, "refusing"), options(house))
    assert "exited with code 1" in raised.value.message
    assert raised.value.log_tail == "adapter says refusing\nno such framework here"


@posix
def test_a_runner_that_dies_later_says_why(house):
    with process.start(launch(house), options(house)) as running:
        os.kill(running.pid, signal.SIGSEGV)
        failure = running.exit_reason()
    assert failure.reason == "PROCESS_DIED"
    assert failure.message == "the process was ended by signal SIGSEGV (11)"
    assert "Segmentation fault" in (house.root / "log").read_text()  # Where it happened, as Python tells it.
    assert failure.log_tail


@pytest.mark.parametrize("behaviour", ["importing", "silent"])
def test_a_runner_that_is_not_ready_in_time_is_stopped(house, behaviour):
    with pytest.raises(RunnerError, match="was not ready within 2 s") as raised:
        process.start(launch(house, behaviour), options(house, seconds=2.0))
    assert raised.value.reason == "START_TIMEOUT"
    assert "\n" not in raised.value.line()


def test_an_interpreter_that_is_not_there_is_one_line(house):
    missing = Launch("tiny-1", Path("/no/such/python"), "runners.tiny.sound", house.runners.parent)
    with pytest.raises(RunnerError, match="/no/such/python cannot be started"):
        process.start(missing, options(house))


@posix
def test_stop_ends_grandchildren_that_left_the_group_and_ignore_signals(house):
    with process.start(launch(house, "family"), options(house)) as running:
        children = [int(pid) for pid in (house.blobs / "children").read_text().split()]
    assert all(gone(pid) for pid in [running.pid, *children])


@posix
def test_stop_ends_grandchildren_of_a_server_that_has_died(house):
    with process.start(launch(house, "family"), options(house)) as running:
        children = [int(pid) for pid in (house.blobs / "children").read_text().split()]
        os.kill(running.pid, signal.SIGKILL)
        assert until(lambda: not running.alive())
    assert all(gone(pid) for pid in children)


def test_ctrl_c_while_starting_leaves_nothing(house):
    pid_file = house.blobs / "silent"

    def interrupt():
        until(lambda: pid_file.exists() and pid_file.read_text())
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        process.start(launch(house, "silent"), options(house))
    assert gone(int(pid_file.read_text()))


@posix
def test_ctrl_c_while_stopping_still_kills(house):
    log = house.root / "log"
    stubborn = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
print("up", flush=True)
while True:
    time.sleep(600)
"""
    tree = Tree([sys.executable, "-c", stubborn], dict(os.environ), house.root, log)
    assert until(lambda: "up" in log.read_text())

    def interrupt():
        until(lambda: "asked" in log.read_text())
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        tree.stop(grace=60.0)
    assert gone(tree.pid)


@posix
def test_ctrl_c_in_the_terminal_reaches_the_controller_alone(house):
    tree = Tree(
        [sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ), house.root, house.root / "log"
    )
    try:
        assert os.getpgid(tree.pid) != os.getpgid(0)
    finally:
        tree.stop()


def test_the_temporary_folder_is_removed(house, monkeypatch):
    monkeypatch.setattr(process.tempfile, "tempdir", str(house.root / "tmp"))
    (house.root / "tmp").mkdir()
    process.start(launch(house), options(house)).stop()
    with pytest.raises(RunnerError):
        process.start(launch(house, "refusing"), options(house))
    assert list((house.root / "tmp").iterdir()) == []


@posix
def test_a_process_killed_by_the_system_for_want_of_memory_is_told_as_that(house, monkeypatch):
    counts = iter([4, 5])
    monkeypatch.setattr("controller.runtimes.trees._out_of_memory_kills", lambda: next(counts))
    tree = Tree(
        [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], dict(os.environ), house.root, house.root / "l"
    )
    tree.wait(60)
    assert tree.failure().reason == "OUT_OF_MEMORY"


def test_exit_codes_in_words():
    assert describe_exit(3) == "exited with code 3"
    assert describe_exit(0xC0000005) == "exited with code 0xc0000005"
    if sys.platform != "win32":
        assert describe_exit(-6) == "was ended by signal SIGABRT (6)"


def test_a_killed_controllers_runner_ends_with_it(house):
    """Its standard input ends with the controller, whatever ended that."""
    script = (
        "import sys, os\nfrom pathlib import Path\nfrom controller.runtimes.trees import Tree\n"
        "command = [sys.executable, '-c', 'import sys; sys.stdin.read()']\n"
        "child = Tree(command, dict(os.environ), Path.cwd(), Path('log'))\n"
        "print(child.pid, flush=True)\nsys.stdin.read()\n"
    )
    repository = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(repository), str(repository / "proto")])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], cwd=house.root, env=environment, **pipes) as controller:
        pid = int(controller.stdout.readline())
        controller.kill()
    assert gone(pid)
