"""Ten thousand random requests to a host that serves: each is answered, nothing of them is done, and the host lives."""

import contextlib
import itertools
import json
import os
import random
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor as Field
from trainyard.v1 import host_pb2, host_pb2_grpc, runner_pb2, runner_pb2_grpc, workload_pb2

from controller import paths
from controller.runtimes.links import SESSION_KEY
from tests import environments, served
from tests.environments import ROOT
from tests.unit.runners.service import chain, workload

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]

SEED = 20_261_202
REQUESTS = 10_000
CALLERS = 8
PATIENCE_SECONDS = 60.0
ANSWERS = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.INTERNAL,  # bytes that are no message of the method
}
SERVICES = [module.DESCRIPTOR.services_by_name[name] for module, name in ((host_pb2, "Host"), (runner_pb2, "Runner"))]
METHODS = [method for service in SERVICES for method in service.methods]
# Any message without content is a fair request to these, and takes long to answer.
SLOW = {"DescribeHost", "Calibrate"}

TEXTS = [
    "", "cpu", "gpu", "reference", "../../etc/passwd", "/bin/sh", "C:\\Windows", "runners.core.server", "\0", "\n",
    "0" * 64, "f" * 64, "../" * 20 + "x", "0,1", "{environment}", "$(id)", "\u6f22\U0001f600", "x" * 5000,
    "y_train", "x_train", "input", "none", "sparse_categorical_crossentropy",
]  # fmt: skip
WHOLE = [0, 1, -1, 2, 63, 2**31 - 1, -(2**31)]
WIDE = [*WHOLE, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, -1.0, 5e-324, 1e-3, 1e308, float("inf"), float("-inf"), float("nan"), 601.0]
_WIDTHS = {Field.CPPTYPE_INT32: WHOLE, Field.CPPTYPE_INT64: WIDE}


def scalar(field, dice):
    if field.cpp_type in _WIDTHS:
        return dice.choice(_WIDTHS[field.cpp_type])
    if field.cpp_type == Field.CPPTYPE_STRING:
        if field.type == Field.TYPE_BYTES:
            return packed_workload(dice) if field.name == "workload" else dice.randbytes(dice.randrange(100))
        return dice.choice(TEXTS)
    if field.cpp_type == Field.CPPTYPE_BOOL:
        return dice.random() < 0.5
    if field.cpp_type == Field.CPPTYPE_ENUM:
        return dice.choice([0, 1, 2, 3, 99, -1])
    value = dice.choice(FLOATS)
    return max(-3e38, min(value, 3e38)) if field.cpp_type == Field.CPPTYPE_FLOAT else value


def fill(message, dice):
    """Gives some fields of a message wild values."""
    for field in message.DESCRIPTOR.fields:
        if dice.random() < 0.4:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue  # requests have none
        many = hasattr(getattr(message, field.name), "extend")
        for _ in range(dice.choice([1, 2, 5]) if many else 1):
            if field.message_type is not None:
                part = getattr(message, field.name)
                fill(part.add() if many else part, dice)
            elif many:
                getattr(message, field.name).append(scalar(field, dice))
            else:
                setattr(message, field.name, scalar(field, dice))
    return message


def packed_workload(dice):
    """Noise, a message without sense, or a workload of which a few fields are wild."""
    kind = dice.randrange(4)
    if kind == 0:
        return dice.randbytes(dice.randrange(200))
    if kind == 1:
        return fill(workload_pb2.Workload(), dice).SerializeToString()
    message = workload()
    if kind == 2:
        message.name = dice.choice(TEXTS)
    else:
        fill(dice.choice([message.layers[0], message.schedule, message.dataset, message.optimizer]), dice)
    return message.SerializeToString()


def noise(method, dice):
    """Bytes that are no message, or one of which some bytes are others."""
    if method.name in SLOW:
        return b"\x07" + dice.randbytes(dice.randrange(100))  # no field begins so
    if dice.random() < 0.5:
        return dice.randbytes(dice.randrange(1, 200))
    content = bytearray(request(method, dice))
    for _ in range(dice.randrange(1, 4)):
        if content:
            content[dice.randrange(len(content))] = dice.randrange(256)
    return bytes(content)


def request(method, dice):
    return fill(getattr(_module(method), method.input_type.name)(), dice).SerializeToString()


def _module(method):
    return host_pb2 if method.containing_service.name == "Host" else runner_pb2


def call(channel, method, contents, metadata):
    """Sends serialized messages as they are. The status."""
    kind = ("stream" if method.client_streaming else "unary") + "_" + ("stream" if method.server_streaming else "unary")
    stub = getattr(channel, kind)(f"/{method.containing_service.full_name}/{method.name}")
    given = iter(contents) if method.client_streaming else contents[0]
    try:
        found = stub(given, timeout=PATIENCE_SECONDS, metadata=metadata)
        if method.server_streaming:
            with contextlib.closing(_Cancelled(found)):
                next(found, None)  # one that was started is not wanted
        return grpc.StatusCode.OK
    except grpc.RpcError as error:
        return error.code()


class _Cancelled:
    def __init__(self, running):
        self.close = running.cancel


def storm(address, count, seed, pick, metadata=()):
    """Random requests by several callers. What was answered, by method."""
    left = itertools.count()
    answers, lock = [], threading.Lock()

    def caller(number):
        dice = random.Random(seed * 1000 + number)
        with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            while next(left) < count:
                method, contents = pick(dice)
                answer = method.name, call(channel, method, contents, metadata)
                with lock:
                    answers.append(answer)

    with ThreadPoolExecutor(CALLERS) as callers:
        list(callers.map(caller, range(CALLERS)))
    return answers


def any_request(dice):
    method = dice.choice(METHODS)
    make = noise if method.name in SLOW or dice.random() < 0.5 else request
    return method, [make(method, dice) for _ in range(dice.randrange(1, 4) if method.client_streaming else 1)]


def training_request(dice):
    method = dice.choice([each for each in SERVICES[1].methods if each.name != "Describe"])
    return method, [request(method, dice)]


@pytest.fixture
def far(tmp_path):
    environments.runner("reference")
    cache = served.cache_of_another_machine(tmp_path / "cache")
    limits = ("--max-message-mib", "2", "--max-blob-mib", "4", "--max-store-mib", "8", "--max-steps", "100000")
    with served.host(tmp_path / "far", "--runtime", "venv", *limits, cache=cache) as (serving, address):
        yield serving, address.removeprefix("grpc://")


def test_a_host_answers_ten_thousand_random_requests_and_then_trains(far, tmp_path):
    serving, address = far
    cache = tmp_path / "cache"
    answers = storm(address, REQUESTS - 2000, SEED, any_request)
    # The same for a runner that stands ready, directly and through its host.
    with grpc.insecure_channel(address) as channel:
        host = host_pb2_grpc.HostStub(channel)
        list(host.PrepareRunners(host_pb2.PrepareRunnersRequest(runners=["reference"], device="cpu")))
        running = host.StartRunner(host_pb2.StartRunnerRequest(runner="reference", device="cpu", threads=1))
        metadata = ((SESSION_KEY, next(running).serving.session),)
        answers += storm(address, 2000, SEED + 1, training_request, metadata)
        stub = runner_pb2_grpc.RunnerStub(channel)
        for layers, units, code in ((20_000, 1, "INVALID_ARGUMENT"), (4_900, 40_000, "RESOURCE_EXHAUSTED")):
            with pytest.raises(grpc.RpcError) as refused:
                asked = runner_pb2.TrainRequest(workload=chain(layers, units).SerializeToString())
                list(stub.Train(asked, metadata=metadata))
            assert refused.value.code().name == code
        assert stub.Describe(runner_pb2.DescribeRequest(), metadata=metadata).framework
        running.cancel()
    assert len(answers) == REQUESTS
    assert {name for name, _ in answers} == {method.name for method in METHODS}
    wrong = {answer for answer in answers if answer[1] not in ANSWERS}
    log = (tmp_path / "far" / "stderr").read_text()
    assert not wrong and "Exception calling application" not in log and "HOST_BUG" not in log, (wrong, log[-3000:])
    assert serving.poll() is None
    left = list((cache / "blobs").glob("*")) if (cache / "blobs").exists() else []
    assert all(path.name.startswith("partial-") and path.stat().st_size <= 4 * 2**20 for path in left)
    _trains(f"grpc://{address}", tmp_path)


def _trains(address, tmp_path):
    """A trial on the host is as it ever was."""
    model = str(ROOT / "tests/integration/models/mlp.toml")
    command = [*served.CONTROLLER, "compare", "--workload", model, "--runner", "reference", "--host", f"far={address}"]
    command += ["--trials", "1", "--pause", "0", "--no-verify", "--output", "json"]
    variables = dict(os.environ, TRAINYARD_DATA=str(tmp_path / "near"))
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=variables)
    assert done.returncode == 0, done.stderr
    (trial,) = json.loads(done.stdout)["trials"]
    assert trial["state"] == "succeeded"
    assert paths.cache_folder() != tmp_path / "cache"
