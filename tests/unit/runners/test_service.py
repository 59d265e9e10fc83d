"""The service against frameworks that misbehave and clients that ask for nonsense."""

import hashlib
import itertools
import math
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
from trainyard.v1 import runner_pb2

from runners.core import telemetry
from runners.core.service import _complete
from runners.core.session import Session
from tests.unit.runners.service import (
    Server,
    arrays,
    read_when_there,
    store,
    wait_until_gone,
    workload,
)


@pytest.fixture
def serve(tmp_path):
    servers = []

    def start(behaviour="good", **options):
        server = Server(tmp_path / str(len(servers)) if servers else _made(tmp_path / "0"), behaviour, **options)
        servers.append(server)
        return server.wait_until_serving()

    yield start
    for server in servers:
        server.__exit__()


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """One server for all requests that are refused before a training process is needed, or that end well."""
    with Server(tmp_path_factory.mktemp("good")) as server:
        yield server.wait_until_serving()


def _made(folder):
    folder.mkdir()
    return folder


def refused(call):
    """(code name, reason, message) of a call that must be refused."""
    with pytest.raises(grpc.RpcError) as caught:
        result = call()
        list(result) if hasattr(result, "__iter__") else result
    reason = dict(caught.value.trailing_metadata()).get("trainyard-reason")
    return caught.value.code().name, reason, caught.value.details()


def test_a_trial_is_measured_whole(good):
    finished = good.train()
    assert finished.state == "succeeded"
    assert [phase.name for phase in finished.phases] == [
        "process_start", "import", "device", "data", "build", "first_step", "warmup", "measure", "evaluate"
    ]  # fmt: skip
    assert len(finished.step_seconds) == 16 and len(finished.epoch_seconds) == 2
    assert math.isclose(sum(finished.epoch_seconds), finished.measured_seconds, rel_tol=1e-9)
    # Two warm-up steps come first: the k-th measured step is step k + 3 of the fake, whose loss is 1 / step.
    assert list(finished.loss_steps) == list(range(16))
    np.testing.assert_allclose(finished.losses, [1 / (3 + k) for k in range(16)], rtol=1e-6)
    assert finished.sample_count == 128 and finished.test_sample_count == 20
    assert finished.test_loss == pytest.approx(math.log(3))


def test_only_whole_epochs_have_an_epoch_time(good):
    message = workload()
    message.schedule.steps = 19
    finished = good.train(good.request(message))
    assert len(finished.step_seconds) == 19 and len(finished.epoch_seconds) == 2
    assert sum(finished.epoch_seconds) == pytest.approx(sum(finished.step_seconds[:16]), rel=1e-5)


def test_started_says_what_is_trained(good):
    server = good
    request = server.request()
    started = next(e.started for e in server.stub.Train(request) if e.HasField("started"))
    assert started.workload_digest == hashlib.sha256(request.workload).hexdigest()
    assert (started.parameter_count, started.steps_per_epoch, started.measured_steps) == (27, 8, 16)
    assert started.device.kind == "cpu"


def test_each_trial_has_a_fresh_process(good):
    server = good
    # The fake counts its steps in the process: the same losses mean that it began anew.
    assert list(server.train().losses) == list(server.train().losses)


@pytest.mark.parametrize(
    ("behaviour", "reason", "words"),
    [
        ("raises", "FRAMEWORK_ERROR", "RuntimeError: kernel launch failed"),
        ("out-of-memory", "OUT_OF_MEMORY", "CUDA out of memory"),
        ("killed", "PROCESS_DIED", "signal 9 (SIGKILL)"),
        ("exits", "PROCESS_DIED", "exit code 7"),
        ("nan", "NON_FINITE_LOSS", "is nan"),
        ("short-epoch", "WRONG_EPOCH_LENGTH", "1 batches too early"),
        ("long-epoch", "WRONG_EPOCH_LENGTH", "1 batches too late"),
    ],
)
def test_a_trial_that_fails_is_a_result(serve, behaviour, reason, words):
    finished = serve(behaviour).train()
    assert finished.state == "failed"
    assert finished.failure.reason == reason
    assert words in finished.failure.message and "\n" not in finished.failure.message


def test_a_killed_process_leaves_its_last_words_and_a_usable_service(serve):
    server = serve("killed")
    assert "the last words" in server.train().failure.log_tail
    assert server.train().failure.reason == "PROCESS_DIED"


@pytest.mark.parametrize(("kills", "reason"), [(0, "FRAMEWORK_ERROR"), (1, "OUT_OF_MEMORY")])
def test_a_loader_worker_that_the_system_killed_is_want_of_memory(kills, reason):
    child = SimpleNamespace(out_of_memory_kills=lambda: kills, log_tail=lambda: "the last words")
    session = Session(child)
    session.process_start_seconds = 0.1
    session.description = runner_pb2.DescribeResponse(phases={"import": 1.0})
    event = runner_pb2.TrainEvent()
    failure = event.finished.failure
    failure.reason, failure.message = "FRAMEWORK_ERROR", "DataLoader worker (pid(s) 7) exited unexpectedly"
    _complete(event, session)
    assert (failure.reason, failure.log_tail) == (reason, "the last words")
    assert ("killed a process" in failure.message) == bool(kills)


V1 = "sys/fs/cgroup/memory/{}memory.oom_control"
V2 = "sys/fs/cgroup/{}memory.events"
STAT = {"proc/vmstat": "pgfault 9\noom_kill 7\n"}


@pytest.mark.parametrize(
    ("groups", "files", "kills"),
    [
        ("0::/user.slice/session-1.scope\n", {V2.format("user.slice/session-1.scope/"): "oom 1\noom_kill 3\n"}, 3),
        ("0::/\n", {V2.format(""): "oom_kill 2\n"}, 2),  # a container of version 2
        ("5:cpu,memory:/a/b\n0::/\n", {V1.format("a/b/"): "under_oom 0\noom_kill 4\n"}, 4),
        ("5:memory:/docker/1f\n", {V1.format(""): "oom_kill 5\n"}, 5),  # a container of version 1
        ("5:cpu:/a\n0::/a\n", {}, 7),  # no group that counts memory
        (None, {}, 7),
    ],
)
def test_kills_are_counted_by_the_own_group_or_else_by_the_machine(tmp_path, groups, files, kills):
    cgroup = {} if groups is None else {"proc/self/cgroup": groups}
    for name, text in {**STAT, **cgroup, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert telemetry.out_of_memory_kills(str(tmp_path)) == kills


def test_where_nothing_counts_no_kills_are_known(tmp_path):
    assert telemetry.out_of_memory_kills(str(tmp_path)) == 0


def test_children_of_a_dead_training_process_are_killed(serve):
    server = serve("child")
    assert server.train().failure.reason == "PROCESS_DIED"
    assert wait_until_gone(int(read_when_there(server.child_file)))


def test_cancelling_ends_the_training_process(serve):
    server = serve("slow")
    call = server.stub.Train(server.request(workload(epochs=1000)))
    pid = int(read_when_there(server.child_file))
    call.cancel()
    assert wait_until_gone(pid)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_grpc_handles_no_fork_of_the_server(serve):
    """The first training process starts before gRPC is imported, so what it was given was set in time."""
    server = serve("slow")
    call = server.stub.Train(server.request(workload(epochs=1000)))
    pid = int(read_when_there(server.child_file))
    assert b"GRPC_ENABLE_FORK_SUPPORT=0" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    call.cancel()


def test_a_step_that_never_returns_is_killed_after_the_grace_period(serve):
    server = serve("hangs")
    call = server.stub.Train(server.request())
    pid = int(read_when_there(server.child_file))
    call.cancel()
    assert wait_until_gone(pid)
    assert server.stub.Describe(runner_pb2.DescribeRequest(), timeout=5).framework == "Fake"


def test_a_second_trial_is_aborted_while_one_runs(serve):
    server = serve("slow")
    call = server.stub.Train(server.request(workload(epochs=1000)))
    read_when_there(server.child_file)
    assert refused(lambda: server.stub.Train(server.request()))[:2] == ("ABORTED", "RUNNER_BUSY")
    assert server.stub.Describe(runner_pb2.DescribeRequest(), timeout=5).versions["fake"] == "1.0"
    call.cancel()


def test_the_end_of_stdin_ends_everything(serve):
    server = serve("slow")
    call = server.stub.Train(server.request(workload(epochs=1000)))
    pid = int(read_when_there(server.child_file))
    server.process.stdin.close()
    assert server.process.wait(20) == 0
    assert wait_until_gone(pid)
    call.cancel()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_ends_everything_in_order(serve, name):
    server = serve("slow")
    call = server.stub.Train(server.request(workload(epochs=1000)))
    pid = int(read_when_there(server.child_file))
    server.process.send_signal(getattr(signal, name))
    assert server.process.wait(20) == 0
    assert wait_until_gone(pid)
    call.cancel()


def test_nothing_is_left_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    with Server(tmp_path) as server:
        server.wait_until_serving().train()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_killing_the_server_ends_the_training_process(serve):
    server = serve("slow")
    call = server.stub.Train(server.request(workload(epochs=1000)))
    pid = int(read_when_there(server.child_file))
    server.process.kill()
    assert wait_until_gone(pid)
    call.cancel()


def test_a_framework_that_cannot_be_imported_ends_the_server(tmp_path):
    with Server(tmp_path, "broken-import") as server:
        assert server.process.wait(20) == 3
    assert "fakes.adapter cannot be imported: ImportError: libfake.so.1" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("behaviour", "code", "reason"),
    [
        ("no-relu", "UNIMPLEMENTED", "layer relu"),
        ("unsupported", "UNIMPLEMENTED", "optimizer sgd"),
        ("no-device", "FAILED_PRECONDITION", "DEVICE_MISSING"),
    ],
)
def test_what_a_framework_cannot_do_is_a_status(serve, behaviour, code, reason):
    server = serve(behaviour)
    assert refused(lambda: server.stub.Train(server.request()))[:2] == (code, reason)


def _bad_padding(message):
    layer = message.layers.add(name="c", inputs=["last"])
    layer.conv2d.filters = 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.layers[0].dense.ClearField("use_bias"), "layer first.use_bias"),
        (lambda m: m.layers[0].dense.__setattr__("units", -5), "layer first.units"),
        (lambda m: m.layers[1].inputs.__setitem__(0, "nowhere"), "layer bent (number 2)"),
        (_bad_padding, "layer c"),
        (lambda m: m.schedule.__setattr__("batch_size", -1), "schedule.batch_size"),
        (lambda m: m.optimizer.__setattr__("learning_rate", float("nan")), "optimizer.learning_rate"),
        (lambda m: m.ClearField("dataset"), "dataset"),
        (lambda m: m.__setattr__("name", "../../etc"), "name"),
        (lambda m: m.__setattr__("seed", -1), "seed"),
    ],
)
def test_a_workload_that_breaks_the_rules_is_refused_by_field(good, change, reason):
    server = good
    message = workload()
    change(message)
    assert refused(lambda: server.stub.Train(server.request(message)))[:2] == ("INVALID_ARGUMENT", reason)


@pytest.mark.parametrize(
    ("changes", "code", "reason"),
    [
        ({"device": "tpu"}, "INVALID_ARGUMENT", "execution.device"),
        ({"threads": 0}, "INVALID_ARGUMENT", "execution.threads"),
        ({"workers": 100000}, "INVALID_ARGUMENT", "execution.variant.workers"),
        ({"jit": True}, "UNIMPLEMENTED", "variant jit=true"),
        ({"pipeline": "magic"}, "UNIMPLEMENTED", "variant pipeline=magic"),
    ],
)
def test_an_execution_that_cannot_be_is_refused(good, changes, code, reason):
    server = good
    assert refused(lambda: server.stub.Train(server.request(**changes)))[:2] == (code, reason)


@pytest.mark.parametrize("name", ["two\nlines", "\x00\x7f", "long " * 100_000, "\u6f22" * 5000])
def test_a_refusal_that_quotes_what_no_header_holds_still_arrives(good, name):
    server = good
    message = workload()
    message.layers[0].name = name
    code, reason, text = refused(lambda: server.stub.Train(server.request(message), timeout=30))
    assert code == "INVALID_ARGUMENT"
    assert reason.startswith("layer ") and reason.isprintable() and len(reason) <= 200
    assert text.startswith("layer ") and len(text) <= 500


def test_more_steps_than_can_be_kept_are_refused(good):
    server = good
    message = workload(epochs=10**8)
    code, reason, _ = refused(lambda: server.stub.Train(server.request(message)))
    assert (code, reason) == ("INVALID_ARGUMENT", "schedule.epochs in steps")


def test_noise_instead_of_a_workload_is_refused(good):
    server = good
    request = server.request()
    request.workload = b"\xff" * 100
    assert refused(lambda: server.stub.Train(request))[:2] == ("INVALID_ARGUMENT", "workload")


@pytest.mark.parametrize(
    ("role", "value", "words"),
    [
        ("x_train", lambda a: a.astype(np.float64), "x_train is float64"),
        ("x_train", lambda a: a[:, :3], "the workload needs"),
        ("y_train", lambda a: a[:-1], "y_train is int32 (63,)"),
        ("y_test", lambda a: a + 5, "the model has 3 classes"),
        ("x_train", lambda a: np.array([{"a": 1}], dtype=object), "no .npy file"),
        ("x_test", lambda a: np.where(a == a.max(), np.float32("nan"), a), "x_test has values that are not finite"),
        ("x_train", lambda a: np.where(a == a.max(), -np.float32("inf"), a), "x_train has values that are not finite"),
        ("x_train", lambda a: a[:0], "x_train has no samples"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(good, role, value, words):
    server = good
    values = arrays()
    values[role] = value(values[role])
    request = server.request()
    del request.arrays[:]
    request.arrays.extend(store(server.blobs, values))
    code, _, message = refused(lambda: server.stub.Train(request))
    assert code == "INVALID_ARGUMENT" and words in message


def _npy(shape):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".encode("ascii").ljust(118)
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "content",
    [b"PK\x03\x04 begins an archive", b"PK\x05\x06" + bytes(18), _npy("(10 ** 30, 4)"), _npy((10**30, 4))],
    ids=["damaged-archive", "empty-archive", "sum", "overflow"],
)
def test_what_is_no_array_is_refused(good, content):
    server = good
    digest = hashlib.sha256(content).hexdigest()
    (server.blobs / f"{digest}.npy").write_bytes(content)
    request = server.request()
    request.arrays[0].sha256 = digest
    code, _, message = refused(lambda: server.stub.Train(request))
    assert code == "INVALID_ARGUMENT" and "array x_train is no .npy file" in message


def test_arrays_that_come_slowly_leave_the_service_able_to_answer(good):
    server, stop = good, threading.Event()

    def stalled():
        yield runner_pb2.PutBlobRequest(sha256="0" * 64, size_bytes=10, chunk=b"a")
        stop.wait(60)

    calls = [server.stub.PutBlob.future(stalled()) for _ in range(40)]
    try:
        assert server.stub.Describe(runner_pb2.DescribeRequest(), timeout=20).framework == "Fake"
        too_many = next(call for call in itertools.cycle(calls) if call.done())
        assert too_many.exception().code().name == "RESOURCE_EXHAUSTED"
    finally:
        stop.set()
        for call in calls:
            call.cancel()


def test_a_blob_that_changed_on_disk_is_refused(serve):
    server = serve()
    path = server.blobs / f"{server.arrays[0].sha256}.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert refused(lambda: server.stub.Train(server.request()))[:2] == ("FAILED_PRECONDITION", "BLOB_CORRUPT")


def test_blobs_travel_by_digest(good):
    server = good
    content = b"any bytes" * 1000
    digest = hashlib.sha256(content).hexdigest()

    def put(name, data, size):
        chunks = [runner_pb2.PutBlobRequest(sha256=name, size_bytes=size, chunk=data[:500])]
        chunks += [runner_pb2.PutBlobRequest(chunk=data[500:])]
        return server.stub.PutBlob(iter(chunks))

    has = lambda name: server.stub.HasBlob(runner_pb2.HasBlobRequest(sha256=name)).present  # noqa: E731
    assert not has(digest)
    assert refused(lambda: put(digest, content[:-1] + b"!", len(content)))[:2] == ("INVALID_ARGUMENT", "sha256")
    assert refused(lambda: put(digest, content, len(content) + 1))[1] == "size_bytes"
    assert refused(lambda: put(digest, content, len(content) - 1))[1] == "chunk"
    assert not has(digest)
    assert put(digest, content, len(content)).size_bytes == len(content)
    assert has(digest)
    for name in ("../../etc/passwd", digest.upper(), "", digest + "/../x"):
        assert refused(lambda name=name: has(name))[:2] == ("INVALID_ARGUMENT", "sha256")
    assert {path.suffix for path in server.blobs.iterdir()} == {".npy"}
