"""Managed environments: built whole or not at all, once, and with failures that say what went wrong."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from controller.catalog.runners import current_platform
from controller.errors import BuildError
from controller.events import BuildProgress
from controller.hosts import Gpu
from controller.runtimes import environments
from controller.runtimes.venv import VenvRuntime
from tests.unit.controller.fake_runners import OWN_PYTHON, House, gone, until

# A controller of its own, so that it can be killed.
BUILDER = """
    import sys
    from pathlib import Path
    from controller.catalog.runners import load
    from controller.runtimes.venv import VenvRuntime
    specs = list(load(Path(sys.argv[1])).values())
    results = VenvRuntime(Path(sys.argv[2])).prepare(specs, "cpu", lambda event: None)
    sys.exit(any(isinstance(result, Exception) for result in results.values()))
"""
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def house(tmp_path, monkeypatch):
    house = House(tmp_path)
    house.offline(monkeypatch)
    monkeypatch.setattr("controller.runtimes.service.runners_folder", lambda: house.runners)
    return house


def build(house, device="cpu"):
    seen = []
    results = VenvRuntime(house.cache).prepare(list(house.specs().values()), device, seen.append)
    return results, seen


def states(seen, runner):
    return [event.state for event in seen if event.runner == runner]


def builder(house):
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "proto")])
    script = BUILDER.replace("import sys\n", "import sys\n    import controller.runtimes.service as service\n    "
                             "service.runners_folder = lambda: Path(sys.argv[1])\n", 1)  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(house.runners), str(house.cache)],
        env={**os.environ, "PYTHONPATH": path},
    )


def test_an_environment_holds_what_its_lock_lists_and_is_built_once(house):
    spec = house.add("tiny-1")
    results, seen = build(house)
    plan = environments.plan(spec, "cpu", house.cache)
    assert subprocess.check_output([plan.python, "-c", "import tiny; print(tiny.version)"], text=True) == "1.0\n"
    assert results["tiny-1"].environment.digest == plan.digest
    assert results["tiny-1"].environment.location == str(plan.folder)
    assert states(seen, "tiny-1")[-1] == "done"
    assert "compiling bytecode" in [event.stage for event in seen]
    assert list(plan.folder.rglob("tiny.*.pyc"))

    _, again = build(house)
    assert again == [BuildProgress("tiny-1", "ready", fraction=1.0)]


def test_prepare_runs_once_in_the_new_environment_with_the_runners_variables(house):
    spec = house.add("tiny-1", prepare="""
        import os, pathlib, sys, tiny
        place = pathlib.Path(os.environ["PLACE"])
        place.mkdir()
        (place / "prefix").write_text(sys.prefix)
        print("progress 0.5 halfway there", flush=True)
    """)  # fmt: skip
    _, seen = build(house)
    plan = environments.plan(spec, "cpu", house.cache)
    assert (plan.folder / "cache" / "prefix").read_text() == str(plan.folder)
    halfway = [event.fraction for event in seen if event.stage == "halfway there"]
    assert halfway == [pytest.approx(0.85 * 2 / 3)]
    fractions = [event.fraction for event in seen if event.fraction is not None]
    assert fractions == sorted(fractions)


def test_what_prepare_changes_does_not_reach_another_environment(house):
    house.add("changing", prepare="import tiny; open(tiny.__file__, 'a').write('version = 0')")
    second = house.add("unchanged")
    build(house)
    python = environments.plan(second, "cpu", house.cache).python
    assert subprocess.check_output([python, "-c", "import tiny; print(tiny.version)"], text=True) == "1.0\n"


def test_a_build_that_fails_is_one_line_and_stops_no_other(house):
    house.add("broken", lock=f"tiny==9.9 --hash=sha256:{house.hash}\n")
    house.add("sound")
    results, seen = build(house)
    error = results["broken"]
    assert isinstance(error, BuildError)
    assert error.message.startswith("broken: packages could not be installed: ")
    assert "tiny==9.9" in error.message
    assert "\n" not in error.line()
    assert error.log_tail
    assert Path(error.hint.removeprefix("see ")).is_file()
    assert states(seen, "broken")[-1] == "failed"
    assert states(seen, "sound")[-1] == "done"
    assert results["sound"].environment.location


def test_a_file_with_another_hash_is_refused(house):
    house.add("tiny-1", lock="tiny==1.0 --hash=sha256:" + "0" * 64 + "\n")
    results, _ = build(house)
    assert isinstance(results["tiny-1"], BuildError)
    assert "hash" in results["tiny-1"].message.lower()


def test_prepare_that_fails_is_told_with_its_last_line_and_tried_again(house):
    spec = house.add("tiny-1", prepare="import sys; print('first'); sys.exit('no compiler here')")
    results, _ = build(house)
    assert results["tiny-1"].message == "tiny-1: preparing it failed (exit code 1): no compiler here"
    assert results["tiny-1"].log_tail.splitlines() == ["first", "no compiler here"]
    assert not environments.plan(spec, "cpu", house.cache).stands()


def test_an_index_that_cannot_be_reached_is_named(house, monkeypatch):
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    house.add("tiny-1")
    results, _ = build(house)
    assert "the package index could not be reached" in results["tiny-1"].message
    assert "check the network, or pip's index-url and proxy" in results["tiny-1"].line()


def test_a_runners_own_index_is_asked_only_for_what_is_nowhere_else(house, monkeypatch):
    index = "http://127.0.0.1:9/special"
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(house.wheels))
    monkeypatch.setenv("UV_DEFAULT_INDEX", (house.root / "empty").as_uri())
    (house.root / "empty").mkdir()
    house.add("here", more=f'indexes = ["{index}"]')
    house.add("elsewhere", more=f'indexes = ["{index}"]', lock="rare==1.0 --hash=sha256:" + "0" * 64 + "\n")
    results, _ = build(house)
    assert not isinstance(results["here"], Exception)
    assert f"a package that only {index} has could not be had" in results["elsewhere"].message


@pytest.mark.parametrize("change", ["lock", "prepare", "what prepare imports", "variables"])
def test_whatever_an_environment_is_made_of_changes_its_key(house, change):
    spec = house.add("tiny-1", prepare="from runners.tiny import adapter")
    before = environments.plan(spec, "cpu", house.cache)
    if change == "lock":
        spec.lock("cpu").write_text(spec.lock("cpu").read_text() + "# more\n")
    elif change == "prepare":
        (house.runners / "tiny" / "prepare_tiny_1.py").write_text("print(2)")
    elif change == "what prepare imports":
        (house.runners / "tiny" / "adapter.py").write_text("print(3)")
    else:
        spec = spec.model_copy(update={"environment": {"OTHER": "1"}})
    after = environments.plan(spec, "cpu", house.cache)
    assert after.key != before.key
    assert after.folder != before.folder


def test_an_environment_without_its_marker_or_python_does_not_stand(house):
    spec = house.add("tiny-1")
    build(house)
    plan = environments.plan(spec, "cpu", house.cache)
    assert plan.stands()
    plan.python.unlink()
    assert not plan.stands()
    build(house)
    assert plan.stands()
    (plan.folder / environments.MARKER).unlink()
    (plan.folder / "left over").touch()
    build(house)
    assert plan.stands()
    assert not (plan.folder / "left over").exists()


def test_two_controllers_at_once_build_it_once(house):
    house.add("tiny-1", prepare=f"""
        import time
        open({str(house.root / "built")!r}, "a").write("x")
        time.sleep(1)
    """)  # fmt: skip
    builders = [builder(house) for _ in range(2)]
    assert [process.wait(60) for process in builders] == [0, 0]
    assert (house.root / "built").read_text() == "x"


@pytest.mark.skipif(sys.platform == "win32", reason="there, a build's processes do not hold its lock")
def test_a_build_whose_controller_was_killed_is_built_again_after_its_processes_have_ended(house):
    first = house.root / "first"
    spec = house.add("tiny-1", prepare=f"""
        import os, time
        if not os.path.exists({str(first)!r}):
            open({str(first)!r}, "w").write(str(os.getpid()))
            time.sleep(600)
    """)  # fmt: skip
    process = builder(house)
    assert until(lambda: first.exists() and first.read_text())
    process.kill()
    process.wait()
    plan = environments.plan(spec, "cpu", house.cache)
    assert not plan.stands()

    second = builder(house)
    try:
        orphan = int(first.read_text())
        assert until(lambda: plan.folder.with_name(plan.folder.name + ".lock").exists())
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(1.0)  # It waits: the orphan still writes into the folder.
        os.kill(orphan, signal.SIGKILL)
        assert second.wait(60) == 0
    finally:
        second.kill()
    assert plan.stands()


def test_ctrl_c_ends_all_builds_and_their_processes(house):
    for name in ("first", "second"):
        house.add(name, prepare=f"""
            import os, time
            open({str(house.root)!r} + "/{name}-pid", "w").write(str(os.getpid()))
            print("progress 0.9 underway", flush=True)
            time.sleep(600)
        """)  # fmt: skip

    def observe(event):
        if event.stage == "underway":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        VenvRuntime(house.cache).prepare(list(house.specs().values()), "cpu", observe)
    started = [int(path.read_text()) for path in house.root.glob("*-pid")]
    assert started
    assert all(gone(pid) for pid in started)
    assert not any(environments.plan(spec, "cpu", house.cache).stands() for spec in house.specs().values())


def test_availability_names_what_is_missing(house, monkeypatch):
    runtime = VenvRuntime(house.cache)
    foreign = house.add("foreign", more='platforms = ["plan9-mips"]')
    compiled = house.add("compiled", more='commands = ["no-such-compiler"]\ndebian_packages = ["g++"]')
    sound = house.add("sound")
    rare = sound.model_copy(update={"python": "3.99"})
    assert runtime.availability(sound).ok
    assert runtime.availability(foreign).reason.startswith("exists for plan9-mips, this is ")
    assert runtime.availability(compiled).reason == "not on PATH: no-such-compiler"
    assert "g++" in runtime.availability(compiled).remedy or "no-such-compiler" in runtime.availability(compiled).remedy
    assert not runtime.availability(sound, "gpu").ok
    assert runtime.availability(rare).ok
    assert "uv will fetch it" in runtime.availability(rare).reason
    old = rare.model_copy(update={"python": "3.5"})  # uv has no builds of it
    assert not runtime.availability(old).ok and "pyenv install 3.5" in runtime.availability(old).remedy
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    assert not runtime.availability(rare).ok
    assert "pyenv install 3.99" in runtime.availability(rare).remedy


def test_a_build_for_the_cpu_alone_is_said_before_anything_is_built(house):
    here = current_platform()
    lines = f'platforms = ["{here}"]\ngpu_platforms = ["plan9-mips"]\ncuda = "10.2"'
    half, foreign = house.add("half", more=lines), house.add("foreign", more='platforms = ["plan9-mips"]')
    runtime = VenvRuntime(house.cache)
    assert runtime.availability(half).ok
    assert runtime.availability(half, "gpu").reason == f"has a build for {here} that computes on the CPU only"
    error = runtime.prepare([half], "gpu", lambda event: None)["half"]
    assert error.line() == f"half has a build for {here} that computes on the CPU only"
    error = runtime.prepare([foreign], "cpu", lambda event: None)["foreign"]
    assert error.line() == f"foreign exists for plan9-mips, this is {here}"
    assert not environments.plan(foreign, "cpu", house.cache).folder.exists()


def test_the_environment_is_for_the_python_that_was_asked_for(house):
    spec = house.add("tiny-1")
    build(house)
    python = environments.plan(spec, "cpu", house.cache).python
    version = "import sys; print('%d.%d' % sys.version_info[:2])"
    assert subprocess.check_output([python, "-c", version]) == subprocess.check_output([OWN_PYTHON, "-c", version])


def test_what_has_no_code_for_the_gpu_is_not_built(house):
    spec = house.add("tiny-1", more='\ncuda = "10.2"\ngpu_architectures = ["sm_37", "sm_70"]')
    gpu = Gpu(0, "GPU-a", "NVIDIA A100", "00000000:07:00.0", 40 * 2**30, "535.0", "8.0")
    runtime = VenvRuntime(house.cache, gpu)
    assert runtime.availability(spec, "gpu").reason == "tiny-1 is built for sm_37, sm_70, not for NVIDIA A100 (sm_80)"
    error = runtime.prepare([spec], "gpu", lambda event: None)["tiny-1"]
    assert "not for NVIDIA A100 (sm_80); take a build with a newer CUDA" in error.line()
    assert not environments.plan(spec, "gpu", house.cache).folder.exists()
    assert runtime.availability(spec, "cpu").ok
