"""New runners and their locks: written without touching the package, found, and harmless to all others."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from controller import paths
from controller.catalog import runners
from controller.cli import main
from controller.errors import ControllerError, UsageError
from controller.runtimes import environments, service
from controller.runtimes.process import Launch, base_environment
from controller.scaffold import frameworks, locking, places, versions
from tests.unit.controller.fake_runners import House, wheel, write

ROOT = Path(__file__).parents[2]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The user's own folder of runners, empty; the current folder is no checkout."""
    folder = tmp_path / "mine"
    monkeypatch.setenv(paths.RUNNERS_VARIABLE, str(folder))
    monkeypatch.setenv(paths.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A house whose package index is a folder with two versions of ``tiny``."""
    house = House(tmp_path / "house")
    wheel(house.wheels, "tiny", "2.0")
    house.offline(monkeypatch)
    return house


def add_version(name, **options):
    asked = versions.wanted(name, **options)
    return versions.write(asked, versions.nearest(asked, runners.declared().values()), places.place())


def lock(mine, framework, name="tiny==1.0"):
    for path in (mine / framework / "locks").glob("*.in"):
        path.with_suffix(".txt").write_text(f"{name} --hash=sha256:{'0' * 64}\n")


def test_a_new_version_is_made_after_the_nearest_without_any_python(mine, capsys):
    assert main.run(["new", "runner", "pytorch-1.10.2", "--with", "setuptools==59.5.0"]) == 0
    out = capsys.readouterr().out
    assert "made after pytorch-1.9.1" in out and "next: controller lock pytorch-1.10.2\n" in out
    assert {path.relative_to(mine).as_posix() for path in mine.rglob("*") if path.is_file()} == {
        "pytorch/runner.toml", "pytorch/locks/1.10.2-cpu-py39.in",
    }  # fmt: skip
    (block,) = tomllib.loads((mine / "pytorch" / "runner.toml").read_text())["runner"]
    assert (block["name"], block["version"], block["default"]) == ("pytorch-1.10.2", "1.10.2", False)
    lines = (mine / "pytorch" / "locks" / "1.10.2-cpu-py39.in").read_text().splitlines()
    assert lines[0] == "torch==1.10.2"
    assert lines[1:-1] == (runners.runners_folder() / "pytorch/locks/1.9.1-py39.in").read_text().splitlines()[1:]
    assert lines[-1] == "setuptools==59.5.0"


@pytest.mark.parametrize("name", sorted(runners.load(runners.runners_folder())))
def test_every_runner_can_be_the_model_of_another_version(mine, name):
    spec = runners.load()[name]
    asked = versions.Wanted(f"{name}-99.0", name, "99.0")
    if spec.framework == "reference":
        with pytest.raises(UsageError, match="has no line trainyard-reference=="):
            versions.write(asked, spec, places.place())
        return
    written = versions.write(asked, spec, places.place())
    lock(mine, spec.framework)
    found = runners.load()[asked.name]
    assert (found.version, found.own, found.own_code) == ("99.0", True, None)
    assert found.model_dump(exclude={"name", "version", "default", "locks", "folder", "own"}) == spec.model_dump(
        exclude={"name", "version", "default", "locks", "folder", "own"}
    )
    assert written.devices == (("cpu", "gpu") if spec.locks.gpu else ("cpu",))
    for device in written.devices:
        text = versions.list_of(found.lock(device)).read_text()
        assert re.search(rf"^{spec.distribution}(-cpu)?==99\.0", text, re.MULTILINE)
        constraints = found.lock(device).with_name(found.lock(device).name + ".build")
        assert constraints.is_file() == spec.lock(device).with_name(spec.lock(device).name + ".build").is_file()


def test_the_nearest_version_of_two_is_the_older():
    specs = runners.load().values()
    for name, model in [("pytorch-1.10.2", "1.9.1"), ("pytorch-1.11.1", "1.11.0"), ("pytorch-2.1", "2.13.0"),
                        ("tensorflow-2.6.2", "2.6.3"), ("keras-theano-1.0.4", "1.0.5")]:  # fmt: skip
        assert versions.nearest(versions.wanted(name), specs).version == model
    assert versions.nearest(versions.wanted("mything-1.0"), specs) is None


def test_a_second_version_joins_the_first(mine):
    add_version("pytorch-1.10.1")
    lock(mine, "pytorch")
    add_version("pytorch-1.10.2", python="3.8")
    lock(mine, "pytorch")
    found = runners.load()
    assert [name for name, spec in found.items() if spec.own] == ["pytorch-1.10.1", "pytorch-1.10.2"]
    assert found["pytorch-1.10.2"].python == "3.8"
    assert found["pytorch-1.10.2"].locks.cpu == "locks/1.10.2-cpu-py38.txt"


def test_a_version_in_the_users_folder_shares_the_service_and_its_adapter(mine, tmp_path):
    before = service.stage(tmp_path / "cache")
    add_version("pytorch-1.10.2")
    lock(mine, "pytorch")
    spec = runners.load()["pytorch-1.10.2"]
    assert service.stage(tmp_path / "cache") == before
    assert service.stage_own(spec, tmp_path / "cache") is None
    plan = environments.plan(spec, "cpu", tmp_path / "cache")
    assert plan.launch(before.folder).adapters is None
    assert plan.identity() == plan.digest


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["mything"], "'mything' is not a framework and its version"),
        (["MyThing-1.0"], "is not a framework and its version in small letters"),
        (["../x-1.0"], "is not a framework"),
        (["pytorch-1.11.0"], "the runner name 'pytorch-1.11.0' is taken by"),
        (["pytorch-1.10.2", "--python", "39"], "--python '39' is not a minor version"),
        (["pytorch-1.10.2", "--with", "--index-url=x"], "--with '--index-url=x' is not a package"),
        (["pytorch-1.10.2", "--distribution", "torch"], "pytorch is there already"),
    ],
)
def test_what_cannot_be_added_is_one_line_and_writes_nothing(mine, capsys, words, told):
    assert main.run(["new", "runner", *words]) == 2
    err = capsys.readouterr().err
    assert told in err and err.count("\n") == 1
    assert not mine.exists()


def test_a_checkout_is_written_into_only_if_the_controller_runs_from_it(mine, tmp_path, monkeypatch):
    assert places.place() == places.Place(mine, is_own=True)
    assert places.place(current=ROOT) == places.Place(ROOT / "runners", is_own=False)
    other = tmp_path / "checkout"
    write(other / "pyproject.toml", "")
    (other / "runners").mkdir()
    assert places.place(current=other).is_own
    assert places.place(tmp_path / "else").hint() == f"they are found with TRAINYARD_RUNNERS={tmp_path / 'else'}"


# --- what is not sound -------------------------------------------------------------------------------------


def test_a_broken_file_is_one_line_and_leaves_all_others(mine, capsys):
    before = set(runners.load())
    add_version("pytorch-1.10.2")
    path = mine / "pytorch" / "runner.toml"
    path.write_text(path.read_text() + "colour = 1\n")
    assert set(runners.load()) == before
    assert main.run(["runners"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("left out: ")]
    assert str(path) in line and "runner.0.locks.colour" in line
    assert main.run(["compare", "--runner", "pytorch-1.10.2"]) == 2
    err = capsys.readouterr().err
    assert "unknown runner 'pytorch-1.10.2'" in err and "runner.0.locks.colour" in err and err.count("\n") == 1


def test_a_missing_lock_leaves_out_one_runner_and_says_what_to_do(mine, capsys):
    add_version("pytorch-1.10.1")
    lock(mine, "pytorch")
    add_version("pytorch-1.10.2")
    assert "pytorch-1.10.1" in runners.load() and "pytorch-1.10.2" not in runners.load()
    assert main.run(["compare", "--runner", "pytorch-1.10.2"]) == 2
    err = capsys.readouterr().err
    assert err.endswith("does not exist; run: controller lock pytorch-1.10.2\n") and err.count("\n") == 1


def test_a_taken_name_in_the_users_folder_never_replaces_the_shipped_one(mine):
    shipped = runners.load()["pytorch-1.11.0"]
    add_version("pytorch-1.10.2")
    lock(mine, "pytorch")
    path = mine / "pytorch" / "runner.toml"
    path.write_text(path.read_text().replace("pytorch-1.10.2", "pytorch-1.11.0"))
    assert runners.load()["pytorch-1.11.0"] == shipped
    assert "is taken by" in runners.own({"pytorch-1.11.0": shipped}).faults["pytorch-1.11.0"].line()


def test_an_adapter_of_another_framework_is_refused(mine):
    add_version("pytorch-1.10.2")
    lock(mine, "pytorch")
    path = mine / "pytorch" / "runner.toml"
    path.write_text(path.read_text().replace("runners.pytorch.adapter", "runners.jittor.adapter"))
    (fault,) = runners.own({}).faults.values()
    assert "must be a module of runners.pytorch" in fault.line()


# --- new frameworks ----------------------------------------------------------------------------------------


@pytest.fixture
def skeleton(mine):
    """A skeleton for a framework that this Python has."""
    frameworks.write(versions.wanted("tensorthing-1.0"), frameworks.Framework("numpy"), places.place())
    lock(mine, "tensorthing")
    return runners.load()["tensorthing-1.0"]


def test_the_adapter_joins_its_own_runner_alone(mine, skeleton, tmp_path):
    cache, staged = tmp_path / "cache", service.stage(tmp_path / "cache")
    other = runners.load()["reference"]
    plans = {spec.name: environments.plan(spec, "cpu", cache) for spec in (skeleton, other)}
    keys = {name: (plan.key, plan.identity()) for name, plan in plans.items()}
    assert plans["reference"].launch(staged.folder).adapters is None
    launch = plans["tensorthing-1.0"].launch(staged.folder)
    assert (launch.adapters / "tensorthing" / "adapter.py").is_file()
    assert launch.adapters != mine
    # A change is another environment in the results of this runner, and neither built anew nor seen by others.
    path = mine / "tensorthing" / "adapter.py"
    path.write_text(path.read_text() + "# changed\n")
    assert service.stage(cache) == staged
    assert plans["reference"].identity() == keys["reference"][1]
    changed = environments.plan(skeleton, "cpu", cache)
    assert changed.key == keys["tensorthing-1.0"][0] and changed.identity() != keys["tensorthing-1.0"][1]
    assert changed.launch(staged.folder).adapters != launch.adapters


def test_the_callers_variable_reaches_no_runner(monkeypatch, tmp_path):
    monkeypatch.setenv("TRAINYARD_ADAPTERS", "/somewhere")
    launch = Launch("reference", Path(sys.executable), "runners.reference.adapter", tmp_path)
    assert "TRAINYARD_ADAPTERS" not in base_environment(launch)


def test_images_refuse_an_adapter_of_the_users_own(skeleton, tmp_path):
    from controller.images import recipes

    with pytest.raises(UsageError, match="has an adapter of your own"):
        recipes.plan(skeleton, "cpu", service.stage(tmp_path / "cache"))


def test_the_skeleton_runs_the_contract_and_refuses_every_model(mine, skeleton):
    command = [sys.executable, str(ROOT / "tests/contract/check.py"), "runners.tensorthing.adapter", "--json"]
    for name in ("describe", "refuses", "layer.dense", "model"):
        command += ["--check", name]
    done = subprocess.run(
        command, env={**os.environ, "TRAINYARD_ADAPTERS": str(mine)}, capture_output=True, text=True, check=False
    )
    results = {check["name"]: check["outcome"] for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 0, done.stdout
    assert {outcome for name, outcome in results.items() if name.startswith("refuses.")} == {"PASS"}
    assert {outcome for name, outcome in results.items() if not name.startswith("refuses.")} == {"UNSUPPORTED"}


@pytest.mark.skipif(shutil.which("vermin") is None, reason="vermin is not on PATH")
def test_the_skeleton_is_python_3_6(mine, skeleton):
    # Of importlib.metadata there is a second way, for older Pythons.
    excluded = ["--exclude", "importlib.metadata", "--exclude", "importlib.metadata.version"]
    command = ["vermin", "-t=3.6-", "--no-tips", "-q", *excluded, str(mine / "tensorthing")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# --- locks -------------------------------------------------------------------------------------------------


def declare(house, mine, packages):
    """A runner of the user's own whose lock is still to be made."""
    write(mine / "tiny" / "runner.toml", (house.root / "runners/tiny/runner.toml").read_text())
    write(mine / "tiny" / "__init__.py", "")
    write(mine / "tiny" / "adapter.py", "")
    return write(mine / "tiny" / "locks" / "tiny-1.in", packages)


def run_lock(*words):
    return main.run(["lock", "tiny-1", *words])


def test_a_lock_has_pins_and_hashes_and_nothing_of_this_machine(mine, index, capsys):
    index.add("tiny-1")
    wanted = declare(index, mine, "tiny==1.0\n")
    assert run_lock() == 0
    assert "1 packages, new" in capsys.readouterr().out
    text = wanted.with_suffix(".txt").read_text()
    assert f"tiny==1.0 \\\n    --hash=sha256:{index.hash}\n" in text
    assert str(index.root) not in text and "://" not in text
    assert {path.name for path in wanted.parent.iterdir()} == {"tiny-1.in", "tiny-1.txt"}
    assert run_lock("--check") == 0
    wanted.write_text("tiny==2.0\n")
    assert run_lock("--check") == 1
    assert "tiny 1.0 -> 2.0; run: controller lock tiny-1" in capsys.readouterr().out
    assert wanted.with_suffix(".txt").read_text() == text


def test_locked_versions_stay_unless_upgraded(mine, index, capsys):
    index.add("tiny-1")
    wanted = declare(index, mine, "tiny==1.0\n")
    assert run_lock() == 0
    wanted.write_text("tiny\n")
    assert run_lock() == 0
    assert "no version changed" in capsys.readouterr().out
    assert run_lock("--upgrade") == 0
    assert "tiny 1.0 -> 2.0" in capsys.readouterr().out


def test_a_list_without_solution_is_uvs_reason_and_leaves_the_lock(mine, index, capsys):
    index.add("tiny-1")
    wanted = declare(index, mine, "tiny==1.0\n")
    assert run_lock() == 0
    before = wanted.with_suffix(".txt").read_text()
    wanted.write_text("tiny==3.0\n")
    capsys.readouterr()
    assert run_lock() == 1
    err = capsys.readouterr().err
    assert str(wanted) in err and "tiny==3.0" in err and err.count("\n") == 1
    assert wanted.with_suffix(".txt").read_text() == before


def test_a_path_in_the_list_is_refused(mine, index):
    index.add("tiny-1")
    (file,) = index.wheels.glob("tiny-1.0*")
    declare(index, mine, f"tiny @ {file.as_uri()}\n")
    with pytest.raises(ControllerError, match=r"tiny is not NAME==VERSION of an index"):
        locking.write(runners.declared()["tiny-1"], "cpu")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["lock", "absent"], "unknown runner 'absent'"),
        (["lock", "tiny-1", "--device", "gpu"], "tiny-1 has no build for GPUs"),
        (["lock", "tiny-1", "--check", "--upgrade"], "contradict each other"),
        (["lock", "tiny-1"], "has no list of packages"),
    ],
)
def test_what_cannot_be_locked_is_one_line(mine, index, capsys, words, told):
    index.add("tiny-1")
    declare(index, mine, "").unlink()
    assert main.run(words) == 2
    err = capsys.readouterr().err
    assert told in err and err.count("\n") == 1
