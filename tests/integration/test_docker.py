"""Containers for real: images built on an engine, trials confined, killed, out of memory, and cleaned up after.

Needs a Docker engine, or root and ``dockerd`` to start one (tests/engines.py). With TRAINYARD_REQUIRE_DOCKER=1 (CI)
its absence is a failure. A second framework is in the comparison with TRAINYARD_TEST_IMAGES=NAME,NAME.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from controller import campaign
from controller.catalog import workloads
from controller.catalog.runners import load
from controller.errors import RunnerError
from controller.events import TrialProgress
from controller.images import archives, bases, stock
from controller.images.recipes import reference
from controller.images.states import READY, STALE, look
from controller.preparation import CompareRequest
from controller.results import FAILED, SUCCEEDED
from controller.runtimes import engine as engines
from controller.runtimes import reaping
from controller.runtimes.base import StartOptions
from controller.runtimes.containers import ROLE_LABEL
from controller.runtimes.docker import DockerRuntime
from controller.runtimes.limits import limits
from controller.store import Store
from tests import engines as test_engines

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800)]

REQUIRED = os.environ.get("TRAINYARD_REQUIRE_DOCKER") == "1"
RUNNERS = ("reference", *filter(None, os.environ.get("TRAINYARD_TEST_IMAGES", "").split(",")))
WORKLOAD = """
name = "{name}"
loss = "sparse_categorical_crossentropy"
seed = 7
[dataset]
name = "synthetic"
shape = {shape}
classes = 10
samples = {samples}
test_samples = 64
[optimizer]
name = "sgd"
learning_rate = 0.1
[schedule]
batch_size = 16
warmup_steps = 2
steps = {steps}
[[layer]]
op = "flatten"
[[layer]]
op = "dense"
units = 10
"""


@pytest.fixture(scope="module")
def variables():
    """Environment variables, kept for the whole module."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def engine(variables):
    """The engine that answers, or one of our own; the images of RUNNERS are on it."""
    obstacle = test_engines.obstacle()
    if obstacle:
        (pytest.fail if REQUIRED else pytest.skip)(obstacle)
    variables.setenv("TRAINYARD_DATA", tempfile.mkdtemp(prefix="trainyard-data-"))
    found = engines.find()
    if found is not None:
        _build(found)
        yield found
        return
    folder = Path(tempfile.mkdtemp(prefix="ty-engine-"))
    try:
        with test_engines.own(folder) as started:
            variables.setenv("DOCKER_HOST", started.url)
            found = engines.connect()
            _build(found)
            yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(os.environ["TRAINYARD_DATA"], ignore_errors=True)


def _build(found):
    """With bases made here where the engine has none: no registry is needed."""
    _, failed = stock.build(found, RUNNERS, "cpu", bases.OFFLINE, print)
    assert not failed, [error.line() for error in failed.values()]


@pytest.fixture(scope="module")
def workload_file(tmp_path_factory):
    def write(name, shape="[8, 8, 1]", samples=512, steps=20):
        file = tmp_path_factory.mktemp("workload") / f"{name}.toml"
        file.write_text(WORKLOAD.format(name=name, shape=shape, samples=samples, steps=steps))
        return file

    return write


@pytest.fixture
def prepared(engine):
    return runtime(engine).prepare([load()["reference"]], "cpu", print)["reference"]


def runtime(engine, **asked):
    return DockerRuntime(engine, limits(engine, asked))


def options(tmp_path, **more):
    return StartOptions(threads=1, blobs=tmp_path / "blobs", log=tmp_path / "log", **more)


def ours(engine):
    """Containers of trials, running or not."""
    return engine.client.containers.list(all=True, ignore_removed=True, filters={"label": f"{ROLE_LABEL}=trial"})


def controller(*arguments, **more):
    command = [sys.executable, "-m", "controller", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def compare_command(file, *more):
    command = [sys.executable, "-m", "controller", "compare", "--runtime", "docker", "--device", "cpu"]
    return [*command, "--workload", str(file), *more]


def inside(running, engine, code):
    """Runs Python code in the container; (exit code, what it printed)."""
    found = engine.client.containers.get(running.identifier).exec_run(["python", "-c", code])
    return found.exit_code, found.output.decode()


# --- images ----------------------------------------------------------------------------------------------------


def test_built_images_are_ready_and_listed(engine):
    done = controller("images", "--output", "json")
    states = {entry["reference"]: entry for entry in json.loads(done.stdout)["images"]}
    for name in RUNNERS:
        entry = states[reference(name, "cpu")]
        assert entry["state"] == READY
        assert entry["id"].startswith("sha256:")


def test_an_image_that_is_not_what_the_files_say_is_noticed_and_built_again(engine):
    item = stock.plans([load()["reference"]], ["cpu"])[0]
    good = look(engine, item).identifier
    base = bases.identifier(engine, item.base)
    engine.client.images.get(base).tag(item.reference)
    try:
        assert look(engine, item).kind == STALE
        found = runtime(engine).prepare([item.spec], "cpu", print)["reference"]
        assert look(engine, item).kind == READY
        assert found.environment.digest == look(engine, item).identifier != base
    finally:
        engine.client.images.get(good).tag(item.reference)


def test_an_image_survives_export_and_import(engine, tmp_path):
    name = reference("reference", "cpu")
    before = archives.entry(engine, name)
    file = tmp_path / "images.tar"
    assert controller("images", "export", str(file), "reference").returncode == 0
    engine.client.images.remove(name)
    done = controller("images", "import", str(file))
    assert done.stdout.split() == [name, before.identifier]
    assert archives.entry(engine, name) == before


# --- comparing -------------------------------------------------------------------------------------------------


def test_a_comparison_in_containers_stores_the_images_ids(engine, workload_file):
    chosen = [word for name in RUNNERS for word in ("--runner", name)]
    command = compare_command(workload_file("tiny"), "--trials", "2", "--output", "json", *chosen)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    trials = document["trials"]
    assert [trial["state"] for trial in trials] == [SUCCEEDED] * 2 * len(RUNNERS)
    for trial in trials:
        environment = trial["environment"]
        assert environment["runtime"] == "docker"
        assert environment["digest"] == archives.entry(engine, reference(trial["cell"]["runner"], "cpu")).identifier
    assert len({trial["identity"]["weights_digest"] for trial in trials}) == 1
    assert ours(engine) == []


def test_a_running_trial_is_confined(engine, prepared, tmp_path):
    with prepared.start(options(tmp_path, campaign="c", trial="t")) as running:
        found = engine.client.api.inspect_container(running.identifier)
        config, host = found["Config"], found["HostConfig"]
        assert host["NetworkMode"] == "none"
        assert host["ReadonlyRootfs"] is True
        assert host["CapDrop"] == ["ALL"]
        assert not host["CapAdd"]
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert host["Init"] is True
        assert host["Privileged"] is False
        assert host["IpcMode"] == "private"
        kept = prepared.limits
        assert (host["Memory"], host["MemorySwap"]) == (kept.memory, kept.memory)
        assert (host["CpusetCpus"], host["ShmSize"], host["PidsLimit"]) == (kept.cpuset, kept.shm, kept.pids)
        assert "noexec" not in host["Tmpfs"]["/tmp"]
        assert config["User"] == "10001:10001"
        assert config["Labels"]["org.trainyard.campaign"] == "c"
        assert config["Labels"]["org.trainyard.trial"] == "t"
        assert config["Labels"]["org.trainyard.owner"] == reaping.owner()
        mounts = {mount["Destination"]: mount["RW"] for mount in found["Mounts"]}
        assert mounts == {"/opt/trainyard/blobs": False, "/opt/trainyard/run": True}


def test_inside_there_is_no_root_no_writing_and_no_way_out(engine, prepared, tmp_path):
    with prepared.start(options(tmp_path)) as running:
        assert inside(running, engine, "import os; print(os.getuid())") == (0, "10001\n")
        for path in ("/x", "/opt/trainyard/service/runners/x.py", "/opt/environment/x", "/opt/trainyard/blobs/x"):
            code, said = inside(running, engine, f"open({path!r}, 'w')")
            assert code == 1
            assert "Read-only file system" in said
        code, said = inside(running, engine, "import socket; socket.create_connection(('1.1.1.1', 53), 3)")
        assert (code, "unreachable" in said) == (1, True)
        code, said = inside(running, engine, "import os; os.setuid(0)")
        assert (code, "Operation not permitted" in said) == (1, True)
        assert inside(running, engine, "open('/tmp/x', 'w').write('x')") == (0, "")


def test_a_stopped_runner_leaves_nothing_but_its_log(engine, prepared, tmp_path):
    with prepared.start(options(tmp_path)) as running:
        folder = Path(running.target.removeprefix("unix://")).parents[1]
        assert running.alive()
    assert not running.alive()
    assert not folder.exists()
    assert "listening on" in (tmp_path / "log").read_text()
    running.stop()  # any number of times


def test_a_protection_that_the_engine_did_not_give_fails_the_start(engine, prepared, tmp_path, monkeypatch):
    from controller.runtimes import containers

    given = containers.arguments
    monkeypatch.setattr(containers, "arguments", lambda request: given(request) | {"network_mode": "bridge"})
    with pytest.raises(RunnerError, match="inside the container network is eth0, not none") as caught:
        prepared.start(options(tmp_path))
    assert caught.value.reason == "UNPROTECTED"
    assert ours(engine) == []


def test_a_gpu_without_the_nvidia_runtime_is_one_line_and_leaves_no_container(engine, prepared, tmp_path):
    if engine.has_nvidia_runtime():
        pytest.skip("this engine has an NVIDIA runtime")
    with pytest.raises(RunnerError, match="the Docker engine has no NVIDIA runtime"):
        prepared.start(options(tmp_path, gpu_uuid="GPU-00000000-0000-0000-0000-000000000000"))
    assert ours(engine) == []


# --- what goes wrong -------------------------------------------------------------------------------------------


class House:
    """Campaigns in this process, so that a test can do something in the middle of one."""

    def __init__(self, engine, tmp_path, file):
        self.engine = engine
        self.store = Store(tmp_path / "results.sqlite")
        self.workload = workloads.find(str(file))

    def compare(self, observe=lambda event: None, trials=2, **more):
        request = CompareRequest(
            workloads=(self.workload,), runners=("reference",), trials=trials, runtime="docker", verify=False, **more
        )
        done = campaign.run(request, observe, self.store)
        return self.store.trials(done.id)


def test_a_container_killed_in_training_is_a_row_and_the_rest_is_there(engine, tmp_path, workload_file):
    house = House(engine, tmp_path, workload_file("long", steps=30000))
    killed = []

    def observe(event):
        if isinstance(event, TrialProgress) and event.phase == "started" and not killed:
            killed.append(ours(engine)[0].kill())

    trials = house.compare(observe)
    assert [trial.state for trial in trials] == [FAILED, SUCCEEDED]
    assert trials[0].failure.reason == "PROCESS_DIED"
    assert "SIGKILL (9)" in trials[0].failure.message
    assert "listening on" in trials[0].failure.log_tail
    assert ours(engine) == []


def test_too_little_memory_is_told_as_such(engine, tmp_path, workload_file):
    house = House(engine, tmp_path, workload_file("wide", shape="[100, 100, 1]", samples=12000))
    (trial,) = house.compare(trials=1, limits={"memory": "256m", "shm": "64m", "tmp": "64m"})
    assert (trial.state, trial.failure.reason) == (FAILED, "OUT_OF_MEMORY")
    assert ours(engine) == []


def _running_campaign(engine, file):
    process = subprocess.Popen(
        compare_command(file, "--runner", "reference", "--trials", "3", "--no-verify"),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not any(container.status == "running" for container in ours(engine)):
        assert process.poll() is None, process.stdout.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return process


def test_ctrl_c_leaves_no_container(engine, workload_file):
    process = _running_campaign(engine, workload_file("endless", steps=200000))
    process.send_signal(signal.SIGINT)
    assert process.wait(180) == 130
    assert ours(engine) == []


def test_what_a_killed_controller_leaves_is_cleaned(engine, workload_file):
    process = _running_campaign(engine, workload_file("endless", steps=200000))
    process.kill()
    process.wait()
    (left,) = ours(engine)
    folder = Path(left.labels["org.trainyard.folder"])
    assert folder.exists()
    done = controller("clean")
    assert (done.returncode, done.stdout.startswith("removed container of reference")) == (0, True)
    assert ours(engine) == []
    assert not folder.exists()


def test_the_next_comparison_reaps_by_itself(engine, tmp_path, workload_file):
    process = _running_campaign(engine, workload_file("endless", steps=200000))
    process.kill()
    process.wait()
    (trial,) = House(engine, tmp_path, workload_file("tiny")).compare(trials=1)
    assert trial.state == SUCCEEDED
    assert ours(engine) == []


# --- an engine on another machine ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other_machine(engine, tmp_path_factory):
    """A second engine with a network of its own, reached as context "other"; it shares no files with us."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None or shutil.which("ip") is None:
        (pytest.fail if REQUIRED else pytest.skip)("a second engine needs root, dockerd and ip (iproute2)")
    from tests.namespaces import network

    folder = Path(tempfile.mkdtemp(prefix="ty-other-"))
    with network("tyother", "10.213.7.1", "10.213.7.2") as prefix:
        try:
            more = ("--bip", "10.214.0.1/24", "--cgroup-parent", "/tyother", "--tls=false")
            with test_engines.own(folder, *more, prefix=prefix, url="tcp://10.213.7.2:2375") as started:
                configuration = tmp_path_factory.mktemp("docker-config")
                _write_context(configuration, "other", started.url)
                yield configuration
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _write_context(configuration, name, url):
    import hashlib

    folder = configuration / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    folder.mkdir(parents=True)
    endpoints = {"docker": {"Host": url, "SkipTLSVerify": False}}
    (folder / "meta.json").write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": endpoints}))


def test_a_campaign_runs_on_another_machines_engine(engine, other_machine, tmp_path, workload_file, monkeypatch):
    file = tmp_path / "images.tar"
    assert controller("images", "export", str(file), "reference").returncode == 0
    monkeypatch.setenv("DOCKER_CONFIG", str(other_machine))
    assert controller("images", "import", str(file), "--host", "docker:other").returncode == 0
    far = engines.connect("other")
    assert not far.is_local
    command = compare_command(workload_file("tiny"), "--runner", "reference", "--trials", "2", "--output", "json")
    # With the probes before, which need their data there too.
    done = subprocess.run([*command, "--host", "docker:other"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trials = json.loads(done.stdout)["trials"]
    assert [(trial["state"], trial["cell"]["host"]) for trial in trials] == [(SUCCEEDED, "docker:other")] * 2
    assert trials[0]["identity"]["facts"]["network"] == ""
    assert ours(far) == []
    assert controller("clean", "--host", "docker:other").returncode == 0


SSH = """#!/bin/sh
# Stands for ssh: the other machine is this one, and its engine is ours.
while [ $# -gt 0 ]; do
    case "$1" in
        -T) shift ;;
        -o | -p | -l) shift 2 ;;
        --) shift ;;
        docker*) break ;;
        *) shift ;;
    esac
done
DOCKER_HOST={url} exec sh -c "$*"
"""


def test_an_engine_over_ssh_needs_no_port(engine, tmp_path, workload_file, monkeypatch):
    if shutil.which("docker") is None:
        pytest.skip("the other end of ssh needs the docker command")
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(SSH.format(url=engine.address.url))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    _write_context(tmp_path / "config", "lab", "ssh://ada@lab")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))
    command = compare_command(workload_file("tiny"), "--runner", "reference", "--trials", "1", "--no-verify")
    done = subprocess.run(
        [*command, "--output", "json", "--host", "docker:lab"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [trial["state"] for trial in json.loads(done.stdout)["trials"]] == [SUCCEEDED]
    assert ours(engine) == []
