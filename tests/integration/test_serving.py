"""Hosts that serve their runners: real comparisons over TLS, a host that dies in a trial, and hostile calls."""

import hashlib
import json
import signal
import subprocess
import threading

import grpc
import pytest
from trainyard.v1 import host_pb2, host_pb2_grpc, runner_pb2, runner_pb2_grpc

from controller.addresses import parse
from controller.runtimes.links import SESSION_KEY, Link
from controller.runtimes.sending import Sender
from controller.serving.limits import Limits
from controller.serving.server import Serving, serve
from tests import environments, served
from tests.environments import ROOT
from tests.served import CONTROLLER, host

pytestmark = [pytest.mark.framework, pytest.mark.timeout(900)]
MODEL = str(ROOT / "tests/integration/models/mlp.toml")
RUNNERS = ["reference", environments.FRAMEWORKS[0]]


@pytest.fixture(scope="module", autouse=True)
def built():
    for name in RUNNERS:
        environments.runner(name)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Identity files of a host and of a controller, made by the commands that users give."""
    return served.issue(tmp_path_factory.mktemp("certificates"), {"far": "127.0.0.1"})


def compare(address, *options):
    command = [*CONTROLLER, "compare", "--device", "cpu", "--workload", MODEL, "--runtime", "venv", "--output", "json"]
    command += ["--host", "local", "--host", f"far={address}", *options]
    for name in RUNNERS:
        command += ["--runner", name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def test_two_hosts_are_one_table(certificates, tmp_path):
    with host(tmp_path / "far", "--certificate", str(certificates / "far.pem")) as (_, address):
        assert address.startswith("grpcs://")
        file = tmp_path / "both.trainyard"
        identity = str(certificates / "laptop.pem")
        running = compare(address, "--trials", "2", "--certificate", identity, "--save", str(file))
        output, errors = running.communicate()
        assert running.returncode == 0, errors
        # The same without a certificate says what is missing.
        refused = compare(address, "--trials", "1")
        assert "give --certificate FILE" in refused.communicate()[1] and refused.returncode == 2
    # One campaign of two hosts is two columns, as two campaigns are.
    apart = subprocess.run([*CONTROLLER, "diff", str(file)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert apart.returncode == 0 and "far / local" in apart.stdout, apart.stdout + apart.stderr
    document = json.loads(output)
    assert {(row["host"], row["runner"]) for row in document["rows"]} == {
        (name, runner) for name in ("local", "far") for runner in RUNNERS
    }
    assert all(row["trials"]["succeeded"] == 2 for row in document["rows"])
    assert {found["host"] for found in document["workloads"][0]["between_hosts"]} == {"far"}
    assert any("without a framework, loop of Python" in line for line in document["footer"])
    far = [trial for trial in document["trials"] if trial["cell"]["host"] == "far"]
    assert len({trial["id"] for trial in document["trials"]}) == 8 and len(far) == 4
    # The host looked at itself: here nobody could.
    runs = [trial["measurement"] for trial in far]
    assert all("governor" in run["telemetry_absent"] or run["conditions"] for run in runs)
    same = [trial for trial in document["trials"] if trial["cell"]["runner"] == "reference"]
    assert len({trial["measurement"]["test_loss"] for trial in same}) == 1


def test_a_host_that_dies_fails_its_own_trials_alone(tmp_path):
    with host(tmp_path / "far") as (serving, address):
        running = compare(address, "--trials", "2", "--no-verify")

        def kill() -> None:
            for line in running.stderr:
                if "on far: starting" in line:
                    serving.send_signal(signal.SIGKILL)

        watcher = threading.Thread(target=kill)
        watcher.start()
        output = running.stdout.read()
        watcher.join()
        assert running.wait(60) == 1
    rows = {(row["host"], row["runner"]): row for row in json.loads(output)["rows"]}
    assert [rows["local", name]["trials"]["succeeded"] for name in RUNNERS] == [2, 2]
    assert all("does not answer" in rows["far", name]["text"] for name in RUNNERS)


def test_beyond_loopback_a_certificate_is_needed():
    done = subprocess.run(
        [*CONTROLLER, "serve", "--listen", "0.0.0.0:0"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 2 and "beyond loopback a certificate is needed" in done.stderr


# --- hostile calls -----------------------------------------------------------------------------------------


@pytest.fixture
def far(tmp_path, monkeypatch):
    """A host in this process, with small limits and a store of its own: its link."""
    monkeypatch.setattr("controller.paths.cache_folder", lambda: tmp_path / "cache")
    addresses, ready, stop = [], threading.Event(), threading.Event()
    limits = Limits(message_bytes=2 * 2**20, blob_bytes=4 * 2**20, store_bytes=8 * 2**20, steps=100)

    def tell(address):
        addresses.append(address)
        ready.set()

    wanted = Serving(("127.0.0.1", 0), "venv", limits=limits)
    server = threading.Thread(target=serve, args=(wanted, tell, lambda line: None, stop))
    server.start()
    assert ready.wait(60)
    yield Link(parse(f"far={addresses[0]}"))
    stop.set()
    server.join(60)


def refusal(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code()


@pytest.mark.parametrize("name", ["../../etc/passwd", "/bin/sh", "runners.core.server", "", "x" * 100_000, "reference"])
def test_no_name_from_the_wire_is_started(far, name):
    with far.channel() as channel:
        stub = host_pb2_grpc.HostStub(channel)
        request = host_pb2.StartRunnerRequest(runner=name, device="cpu", threads=1)
        assert refusal(lambda: list(stub.StartRunner(request))) is grpc.StatusCode.INVALID_ARGUMENT
        if name != "reference":  # which the host has, but was not asked to make ready
            wanted = host_pb2.PrepareRunnersRequest(runners=[name], device="cpu")
            assert refusal(lambda: list(stub.PrepareRunners(wanted))) is grpc.StatusCode.INVALID_ARGUMENT


def test_no_text_from_the_wire_is_a_variable_of_a_runner(far):
    with far.channel() as channel:
        stub = host_pb2_grpc.HostStub(channel)
        wanted = host_pb2.PrepareRunnersRequest(runners=["reference"], device="cpu", gpu_uuid="0,1")
        assert refusal(lambda: list(stub.PrepareRunners(wanted))) is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("digest", ["../x", "A" * 64, "0" * 63, "0" * 64 + "/..", ""])
def test_no_digest_is_a_path(far, digest, tmp_path):
    with far.channel() as channel:
        stub = host_pb2_grpc.HostStub(channel)
        message = host_pb2.SendBlobRequest(sha256=digest, size_bytes=1, chunk=b"x")
        assert refusal(lambda: stub.SendBlob(iter([message]))) is grpc.StatusCode.INVALID_ARGUMENT
        assert (
            refusal(lambda: stub.BlobState(host_pb2.BlobStateRequest(sha256=digest)))
            is grpc.StatusCode.INVALID_ARGUMENT
        )
    assert not list((tmp_path / "cache").glob("**/*partial*"))


def test_what_is_too_large_or_another_array_is_refused_and_the_host_lives(far):
    with far.channel() as channel:
        stub = host_pb2_grpc.HostStub(channel)
        digest = hashlib.sha256(b"true").hexdigest()
        huge = host_pb2.SendBlobRequest(sha256=digest, size_bytes=2**40, chunk=b"x")
        assert refusal(lambda: stub.SendBlob(iter([huge]))) is grpc.StatusCode.RESOURCE_EXHAUSTED
        other = host_pb2.SendBlobRequest(sha256=digest, size_bytes=4, chunk=b"fals")
        assert refusal(lambda: stub.SendBlob(iter([other]))) is grpc.StatusCode.INVALID_ARGUMENT
        assert stub.BlobState(host_pb2.BlobStateRequest(sha256=digest)).received_bytes == 0
        assert refusal(lambda: stub.SendBlob(iter([]))) is grpc.StatusCode.INVALID_ARGUMENT
        for seconds in (float("nan"), -1.0, 1e9):
            settle = host_pb2.SettleRequest(campaign="c", seconds=seconds)
            assert refusal(lambda settle=settle: stub.Settle(settle)) is grpc.StatusCode.INVALID_ARGUMENT
        assert stub.DescribeHost(host_pb2.DescribeHostRequest()).limits["steps"] == 100


def test_a_call_without_a_runner_is_refused(far):
    with far.channel() as channel:
        stub = runner_pb2_grpc.RunnerStub(channel)
        for metadata in ((), ((SESSION_KEY, "0" * 32),)):
            calls = (
                lambda metadata=metadata: stub.Describe(runner_pb2.DescribeRequest(), metadata=metadata),
                lambda metadata=metadata: stub.Probe(runner_pb2.ProbeRequest(), metadata=metadata),
                lambda metadata=metadata: list(stub.Train(runner_pb2.TrainRequest(), metadata=metadata)),
            )
            assert {refusal(call) for call in calls} == {grpc.StatusCode.FAILED_PRECONDITION}


def test_an_array_goes_on_where_it_was_cut_off(far, tmp_path):
    content = bytes(range(256)) * 12_000
    digest = hashlib.sha256(content).hexdigest()
    (tmp_path / f"{digest}.npy").write_bytes(content)

    def cut():
        yield host_pb2.SendBlobRequest(sha256=digest, size_bytes=len(content), chunk=content[: 2**20])
        yield host_pb2.SendBlobRequest(chunk=content[2**20 : 2**21])

    with far.channel() as channel:
        stub = host_pb2_grpc.HostStub(channel)
        assert refusal(lambda: stub.SendBlob(cut())) is grpc.StatusCode.INVALID_ARGUMENT  # less than was announced
        assert stub.BlobState(host_pb2.BlobStateRequest(sha256=digest)).received_bytes == 2**21
        Sender(far).send(tmp_path, [digest])
        assert stub.BlobState(host_pb2.BlobStateRequest(sha256=digest)).present
    stored = tmp_path / "cache" / "blobs" / f"{digest}.npy"
    assert stored.read_bytes() == content
