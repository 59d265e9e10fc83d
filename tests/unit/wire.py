"""A runner that is only a script of events, spoken over real gRPC: what a dishonest or broken one may send."""

import itertools
import time
from concurrent import futures
from dataclasses import dataclass, field
from types import SimpleNamespace

import grpc
from trainyard import graph
from trainyard.v1 import runner_pb2

from controller import execution
from controller.plan import PlannedTrial
from controller.results import Cell, Environment
from tests.unit.runners import service

STEPS = 32
BATCH = 8
GPU = "GPU-00000000-1111-2222-3333-444444444444"


@dataclass
class Script:
    """What the runner says, trial after trial. ``train`` takes a TrainRequest and the trial's number."""

    train: object
    versions: dict = field(default_factory=lambda: {"fake": "1.0"})
    numbers: object = field(default_factory=itertools.count)

    def handler(self):
        methods = {
            "Describe": grpc.unary_unary_rpc_method_handler(self._describe, None, _bytes),
            "Train": grpc.unary_stream_rpc_method_handler(self._train, runner_pb2.TrainRequest.FromString, _bytes),
        }
        return grpc.method_handlers_generic_handler("trainyard.v1.Runner", methods)

    def _describe(self, request, context):
        return runner_pb2.DescribeResponse(framework="Fake", versions=self.versions, service_digest="service")

    def _train(self, request, context):
        yield from self.train(request, next(self.numbers))


def _bytes(event):
    return event if isinstance(event, bytes) else event.SerializeToString()


class Running:
    """An address that stands for a started runner."""

    def __init__(self, target):
        self.target = target
        self.pid = None

    def exit_reason(self):
        return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def started(request, kind="cpu", uuid="", **changes):
    fields = {
        "workload_digest": graph.digest(request.workload), "data_digest": "d", "weights_digest": "w",
        "device": runner_pb2.Device(kind=kind, uuid=uuid), "parameter_count": 27, "steps_per_epoch": 8,
        "warmup_steps": 2, "measured_steps": STEPS,
    }  # fmt: skip
    return runner_pb2.TrainEvent(started=runner_pb2.Started(**{**fields, **changes}))


def finished(number=0, seconds=0.0032, steps=STEPS, slope=0.0, **changes):
    """An honest result of ``seconds``; each step takes ``slope`` times its own length more than the one before.
    No two trials' steps are alike."""
    weights = [1 + slope * step + 1e-3 * ((7 * step + number) % 5) for step in range(steps)]
    step_seconds = [seconds * weight / sum(weights) for weight in weights]
    fields = {
        "state": "succeeded", "measured_seconds": seconds, "step_seconds": step_seconds,
        "epoch_seconds": [seconds / 4] * 4, "losses": [0.5] * steps, "loss_steps": range(steps),
        "sample_count": steps * BATCH, "test_loss": 0.4, "test_accuracy": 0.8, "test_sample_count": 20,
        "phases": [runner_pb2.Phase(name="measure", seconds=seconds)],
    }  # fmt: skip
    return runner_pb2.TrainEvent(finished=runner_pb2.Finished(**{**fields, **changes}))


def progressed(done):
    return runner_pb2.TrainEvent(progressed=runner_pb2.Progressed(phase="measure", steps_done=done, steps_total=STEPS))


def honest(request, number):
    yield started(request)
    yield progressed(STEPS)
    yield finished(number)


def trials(script, folder, count=1, device="cpu", uuid=""):
    """The Trials that the controller makes of a script."""
    message = service.workload(epochs=4).SerializeToString(deterministic=True)
    arrays = {array.role: array.sha256 for array in service.store(folder / "blobs", service.arrays())}
    work = execution.Work(message, graph.digest(message), arrays, folder / "blobs")
    settings = execution.Settings("campaign", device, uuid, 1, folder, "service")
    cell = Cell("fake", "tiny", work.digest, device=device)
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((script.handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    runner = SimpleNamespace(
        spec=SimpleNamespace(name="fake", distribution="fake", version="1.0"), environment=Environment("fake"),
        start=lambda options: Running(f"127.0.0.1:{port}"),
    )  # fmt: skip
    try:
        plan = [PlannedTrial(number, number, cell) for number in range(count)]
        return [execution.run_trial(each, runner, work, settings, lambda event: None) for each in plan]
    finally:
        server.stop(None)


def slowly(events, seconds):
    """The same with a pause before each."""
    for event in events:
        time.sleep(seconds)
        yield event
