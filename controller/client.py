"""One runner's service seen from the controller: deadlines, events as domain objects, gRPC errors as ours."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

import grpc
from trainyard.v1 import runner_pb2, runner_pb2_grpc

from controller.errors import RunnerError, TrialRefused
from controller.results import (
    CANCELLED,
    Device,
    Failure,
    Identity,
    Measurement,
    Memory,
    OutputNorm,
    ParameterChange,
    Probe,
)
from controller.runtimes.links import MAX_RESULT_BYTES, REASON_KEY

SHORT_CALL_SECONDS = 20.0
LAST_SECONDS = 10.0
"""For the end of a call after its result."""

_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.INTERNAL,
}


@dataclass(frozen=True, slots=True)
class Description:
    """What a runner says of itself; fields as in ``DescribeResponse``."""

    framework: str
    versions: dict[str, str]
    service_digest: str
    devices: tuple[Device, ...]
    layers: tuple[str, ...]
    variants: tuple[str, ...]
    facts: dict[str, str]


@dataclass(frozen=True, slots=True)
class Started:
    """What the training process loaded and where it computes."""

    workload_digest: str
    data_digest: str
    weights_digest: str
    device: Device
    parameter_count: int
    steps_per_epoch: int
    warmup_steps: int
    measured_steps: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Fields as in ``Progressed``."""

    phase: str
    steps_done: int
    steps_total: int
    samples_per_second: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a trial: ``state`` as in results.py; ``measurement`` or ``failure``. ``seconds`` is how long the call
    took, on this side's clock."""

    state: str
    started: Started | None
    measurement: Measurement | None
    failure: Failure | None
    facts: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


Check = Callable[[Started], Failure | None]
Watch = Callable[[Started | Progress], None]


class RunnerClient:
    """A channel to one runner; a context manager. ``target`` as in ``RunningRunner``; ``pid``: its server's process,
    where it is one of this machine."""

    def __init__(self, target: Any, pid: int | None = None) -> None:
        self.pid = pid
        self._channel = open_channel(target) if isinstance(target, str) else target
        self._stub = runner_pb2_grpc.RunnerStub(self._channel)

    def __enter__(self) -> "RunnerClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()

    def describe(self) -> Description:
        """Asks the runner what it is. Raises RunnerError."""
        try:
            reply = self._stub.Describe(runner_pb2.DescribeRequest(), timeout=SHORT_CALL_SECONDS)
        except grpc.RpcError as error:
            raise _translate(error) from error
        return Description(
            framework=reply.framework,
            versions=dict(reply.versions),
            service_digest=reply.service_digest,
            devices=tuple(_device(item) for item in reply.devices),
            layers=tuple(reply.layers),
            variants=tuple(reply.variants),
            facts=dict(reply.facts),
        )

    def train(
        self, request: Any, *, check: Check, watch: Watch, stall_seconds: float, timeout_seconds: float | None = None
    ) -> Outcome:
        """Runs one trial. ``check`` looks at what was started and may return why it is not what was asked: then
        the trial is cancelled at once. A runner that neither finishes nor moves for ``stall_seconds`` is given up.
        Raises TrialRefused, RunnerError."""
        began = time.monotonic()
        call = self._stub.Train(request, timeout=timeout_seconds)
        watchdog = _Watchdog(call, stall_seconds)
        events = _Events(check, watch, watchdog, began)
        try:
            for event in call:
                if events.take(event):
                    break
        except grpc.RpcError as error:
            if events.outcome is not None:
                return events.outcome  # complete, whatever became of the runner then
            if watchdog.fired:
                message = f"nothing moved for {stall_seconds:.0f} s"
                raise RunnerError(message, reason="TIMEOUT") from error
            raise _translate(error) from error
        finally:
            watchdog.stop()
            call.cancel()
        if events.outcome is None:
            raise RunnerError("the runner closed the call without a result", reason="PROTOCOL")
        return events.outcome

    def probe(self, request: Any, timeout_seconds: float) -> Probe:
        """Runs the certificate's steps. Raises TrialRefused, RunnerError."""
        try:
            return _probe(self._stub.Probe(request, timeout=timeout_seconds))
        except grpc.RpcError as error:
            raise _translate(error) from error


def open_channel(address: str) -> grpc.Channel:
    """A channel to a runner's server; whoever asked closes it."""
    # Keepalive stays off: a ping while a framework compiles would end the call.
    sizes = [(f"grpc.max_{direction}_message_length", MAX_RESULT_BYTES) for direction in ("receive", "send")]
    return grpc.insecure_channel(address, options=[*sizes, ("grpc.enable_http_proxy", 0)])


class _Events:
    """What a trial's events lead to: one start, progress, one result, and nothing after it."""

    def __init__(self, check: Check, watch: Watch, watchdog: "_Watchdog", began: float) -> None:
        self.outcome: Outcome | None = None
        self._check = check
        self._watch = watch
        self._watchdog = watchdog
        self._began = began
        self._started: Started | None = None
        self._last: tuple[str, int] | None = None

    def take(self, event: Any) -> bool:
        """Whether that was all, because what started is not what was asked for. Raises RunnerError for an event that
        has no place here."""
        kind = event.WhichOneof("event")
        if self.outcome is not None:
            raise RunnerError(f"the runner sent {_named(kind)} after its result", reason="PROTOCOL")
        if kind == "started" and self._started is None:
            return self._take_started(_started(event.started))
        if kind == "progressed":
            self._take_progress(_progress(event.progressed))
        elif kind == "finished":
            seconds = time.monotonic() - self._began
            self.outcome = replace(_outcome(event.finished, self._started), seconds=seconds)
            self._watchdog.hurry(LAST_SECONDS)
        else:
            again = " again" if kind else ""
            raise RunnerError(f"the runner sent {_named(kind)}{again}", reason="PROTOCOL")
        return False

    def _take_started(self, started: Started) -> bool:
        self._watchdog.feed()
        self._started = started
        wrong = self._check(started)
        if wrong is not None:
            self.outcome = Outcome(CANCELLED, started, None, wrong)
            return True
        self._watch(started)
        return False

    def _take_progress(self, progress: Progress) -> None:
        # Saying the same again and again is no sign of life.
        place = (progress.phase, progress.steps_done)
        if place != self._last:
            self._watchdog.feed()
        self._last = place
        self._watch(progress)


def _named(kind: str | None) -> str:
    return f"{kind!r}" if kind else "an event without content"


class _Watchdog:
    """Cancels a call in which nothing has moved for too long."""

    def __init__(self, call: Any, seconds: float) -> None:
        self.fired = False
        self._call = call
        self._seconds = seconds
        self._fed = time.monotonic()
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def feed(self) -> None:
        self._fed = time.monotonic()

    def hurry(self, seconds: float) -> None:
        """From now on that long at most."""
        self._seconds = min(self._seconds, seconds)
        self.feed()

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(min(1.0, self._seconds / 4)):
            if time.monotonic() - self._fed > self._seconds:
                self.fired = True
                self._call.cancel()
                return


def _translate(error: Any) -> RunnerError:
    code, details = error.code(), error.details() or ""
    metadata = dict(error.trailing_metadata() or ())
    reason = str(metadata.get(REASON_KEY, code.name))
    if code in _REFUSALS:
        unsupported = code == grpc.StatusCode.UNIMPLEMENTED
        return TrialRefused(details, reason=f"UNSUPPORTED {reason}" if unsupported else reason)
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return RunnerError("the trial did not end in the time allowed", reason="TIMEOUT")
    return RunnerError(f"the connection to the runner was lost ({code.name.lower()}: {details})", reason="RUNNER_LOST")


def _device(message: Any) -> Device:
    return Device(message.kind, message.index, message.uuid, message.name, message.pci_bus_id)


def _started(message: Any) -> Started:
    return Started(
        workload_digest=message.workload_digest,
        data_digest=message.data_digest,
        weights_digest=message.weights_digest,
        device=_device(message.device),
        parameter_count=message.parameter_count,
        steps_per_epoch=message.steps_per_epoch,
        warmup_steps=message.warmup_steps,
        measured_steps=message.measured_steps,
    )


def _progress(message: Any) -> Progress:
    return Progress(message.phase, message.steps_done, message.steps_total, message.samples_per_second)


def _outcome(message: Any, started: Started | None) -> Outcome:
    failure = None
    if message.HasField("failure"):
        failure = Failure(message.failure.reason, message.failure.message, message.failure.log_tail)
    return Outcome(message.state, started, measurement_of(message), failure, dict(message.facts))


def measurement_of(message: Any) -> Measurement | None:
    """What a Finished message measured; None for one that did not succeed."""
    if message.HasField("failure") or message.state != "succeeded":
        return None
    return Measurement(
        phases={phase.name: phase.seconds for phase in message.phases},
        measured_seconds=message.measured_seconds,
        step_seconds=tuple(message.step_seconds),
        epoch_seconds=tuple(message.epoch_seconds),
        losses=tuple(message.losses),
        loss_steps=tuple(message.loss_steps),
        sample_count=message.sample_count,
        test_loss=message.test_loss,
        test_accuracy=message.test_accuracy,
        test_sample_count=message.test_sample_count,
        memory=tuple(
            Memory(entry.kind, entry.bytes if entry.HasField("bytes") else None, entry.reason)
            for entry in message.memory
        ),
        telemetry=dict(message.telemetry),
        telemetry_absent=dict(message.telemetry_absent),
        conditions=dict(message.conditions),
    )


def _probe(message: Any) -> Probe:
    return Probe(
        workload_digest=message.workload_digest,
        data_digest=message.data_digest,
        weights_digest=message.weights_digest,
        device=_device(message.device),
        parameter_count=message.parameter_count,
        sample_count=message.sample_count,
        losses=tuple(message.losses),
        gradient_norm=message.gradient_norm,
        parameters=tuple(_parameter(entry) for entry in message.parameters),
        outputs=tuple(OutputNorm(entry.layer, entry.norm, entry.ramp) for entry in message.activations),
    )


def _parameter(entry: Any) -> ParameterChange:
    gradient = entry.gradient if entry.HasField("gradient") else None
    return ParameterChange(entry.layer, entry.parameter, entry.initial, entry.final, entry.moved, entry.ramp, gradient)


def identity(description: Description, started: Started, facts: dict[str, str]) -> Identity:
    """What a trial was, from what the runner described, what it started, and what it read back in the end."""
    return Identity(
        workload_digest=started.workload_digest,
        data_digest=started.data_digest,
        weights_digest=started.weights_digest,
        service_digest=description.service_digest,
        parameter_count=started.parameter_count,
        device=started.device,
        versions=description.versions,
        facts={**description.facts, **facts},
    )
