"""Helpers of the service tests: a small workload, its arrays, and a server process of a misbehaving framework."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from trainyard.v1 import runner_pb2, runner_pb2_grpc, workload_pb2

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = 64


def workload(**schedule: int) -> workload_pb2.Workload:
    """flatten, dense 3, relu, dense 3 on synthetic samples of shape (4,)."""
    message = workload_pb2.Workload(name="tiny", loss="sparse_categorical_crossentropy", seed=7)
    message.dataset.synthetic.shape.append(4)
    message.dataset.synthetic.classes = 3
    message.dataset.synthetic.samples = message.dataset.synthetic.test_samples = SAMPLES
    previous = "input"
    for name, op in (("first", "dense"), ("bent", "relu"), ("last", "dense")):
        layer = message.layers.add(name=name, inputs=[previous])
        getattr(layer, op).SetInParent()
        if op == "dense":
            layer.dense.units, layer.dense.use_bias = 3, True
        previous = name
    message.optimizer.sgd.SetInParent()
    message.optimizer.learning_rate = 0.1
    message.schedule.batch_size = 8
    message.schedule.warmup_steps = schedule.get("warmup_steps", 2)
    message.schedule.epochs = schedule.get("epochs", 2)
    return message


def arrays() -> dict[str, np.ndarray]:
    generator = np.random.RandomState(1)
    x = generator.uniform(size=(SAMPLES, 4)).astype(np.float32)
    y = (x.sum(axis=1) * 0.7).astype(np.int32)
    return {"x_train": x, "y_train": y, "x_test": x[:20], "y_test": y[:20]}


def store(folder: Path, values: dict[str, np.ndarray]) -> list[runner_pb2.Array]:
    """Writes arrays as blobs; returns the request's part."""
    folder.mkdir(parents=True, exist_ok=True)
    result = []
    for role, value in values.items():
        temporary = folder / "new.npy"
        np.save(temporary, value)
        digest = hashlib.sha256(temporary.read_bytes()).hexdigest()
        temporary.rename(folder / f"{digest}.npy")
        result.append(runner_pb2.Array(role=role, sha256=digest))
    return result


def execution(**changes: object) -> runner_pb2.Execution:
    variant = workload_pb2.Variant(layout="default", precision="float32", pipeline="native", workers=0, prefetch=1)
    message = runner_pb2.Execution(device="cpu", threads=1, variant=variant)
    for name, value in changes.items():
        target = message.variant if hasattr(message.variant, name) else message
        setattr(target, name, value)
    return message


class Server:
    """A runner's server as a process; a context manager."""

    def __init__(self, folder: Path, behaviour: str = "good", adapter: str = "fakes.adapter", python: str = ""):
        self.folder = folder
        self.child_file = folder / "child"
        self.blobs = folder / "blobs"
        self.arrays = store(self.blobs, arrays())
        address = folder / "address"
        environment = dict(os.environ, FAKE_BEHAVIOUR=behaviour, FAKE_CHILD_FILE=str(self.child_file))
        environment["PYTHONPATH"] = os.pathsep.join(str(ROOT / part) for part in (".", "proto", "tests"))
        self.log = (folder / "log").open("w")
        self.process = subprocess.Popen(
            [python or sys.executable, "-m", "runners.core.server", "--adapter", adapter, "--address-file", address,
             "--blobs", self.blobs, "--exit-with-stdin"],
            stdin=subprocess.PIPE, stderr=self.log, env=environment,
        )  # fmt: skip
        while not address.exists() and self.process.poll() is None:
            time.sleep(0.01)
        self.target = address.read_text()
        self.channel = grpc.insecure_channel(self.target)
        self.stub = runner_pb2_grpc.RunnerStub(self.channel)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(20)
        finally:
            self.process.kill()
            self.log.close()

    def wait_until_serving(self) -> "Server":
        stub = health_pb2_grpc.HealthStub(self.channel)
        for _ in range(3000):
            reply = stub.Check(health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=20)
            if reply.status == health_pb2.HealthCheckResponse.SERVING:
                return self
            time.sleep(0.01)
        raise AssertionError("not SERVING")

    def request(self, message: workload_pb2.Workload | None = None, **changes: object) -> runner_pb2.TrainRequest:
        content = (message or workload()).SerializeToString(deterministic=True)
        return runner_pb2.TrainRequest(
            trial_id="t", workload=content, arrays=self.arrays, execution=execution(**changes)
        )

    def train(self, request: runner_pb2.TrainRequest | None = None) -> runner_pb2.Finished:
        events = list(self.stub.Train(request or self.request(), timeout=60))
        assert events[-1].HasField("finished")
        return events[-1].finished


def wait_until_gone(pid: int, seconds: float = 15.0) -> bool:
    """Whether a process has ended (a zombie has)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def read_when_there(path: Path, seconds: float = 20.0) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.02)
    raise AssertionError(f"{path} never appeared")


def chain(layers, units):
    """A workload of so many dense layers."""
    message = workload()
    del message.layers[:]
    for number in range(layers):
        layer = message.layers.add(name=f"d{number}", inputs=[f"d{number - 1}" if number else "input"])
        layer.dense.units, layer.dense.use_bias = units, False
    return message
