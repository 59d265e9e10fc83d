"""Runtime of a host that serves its runners (``controller serve``): it builds and starts them, this side only asks.

A runner lives as long as its StartRunner call. What the host sends and measures is what a runner of this machine would:
the calls of the Runner service pass through it as they are.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple

import grpc
from trainyard.v1 import host_pb2, host_pb2_grpc

from controller.catalog.runners import RunnerSpec
from controller.errors import ControllerError, HostError, RunnerError
from controller.events import BuildProgress, Observer
from controller.hosts import Gpu
from controller.results import Calibration, Environment, Failure, Machine
from controller.runtimes.base import Availability, PreparedRunner, StartOptions
from controller.runtimes.links import KEEPALIVE_TIMEOUT_SECONDS, REASON_KEY, SESSION_KEY, SHORT_SECONDS, Link
from controller.runtimes.sending import Sender

NAME = "served"
# Another controller's trial may have to end first.
TURN_SECONDS = 900.0
PREPARE_SECONDS = 7200.0
CALIBRATE_SECONDS = 300.0
_LAST_WORDS_SECONDS = 5.0
RUNNER_LOST = "RUNNER_LOST"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a host says of itself. ``offers``: by runner and device; ``told``: further facts, as the host words them."""

    machine: Machine
    gpus: tuple[Gpu, ...]
    no_gpu: str
    engine: str
    service_digest: str
    controller_version: str
    offers: Mapping[tuple[str, str], Availability]
    limits: Mapping[str, int]
    told: Mapping[str, str]


def describe(link: Link, seconds: float = SHORT_SECONDS) -> Facts:
    """Asks a host what it is. Raises ControllerError."""
    return facts_of(
        link.ask(lambda stub: stub.DescribeHost(host_pb2.DescribeHostRequest(), timeout=seconds), "asking what it is")
    )


def facts_of(reply: Any) -> Facts:
    """From a DescribeHostResponse."""
    gpus = tuple(
        Gpu(gpu.index, gpu.uuid, gpu.name, gpu.pci_bus_id, gpu.memory_bytes, gpu.driver, gpu.capability)
        for gpu in reply.gpus
    )
    machine = Machine(
        reply.name, reply.system, reply.cpu, reply.cpu_count, reply.memory_bytes, tuple(gpu.text() for gpu in gpus)
    )
    offers = {
        (offer.runner, offer.device): Availability(offer.ok, offer.reason, offer.remedy) for offer in reply.runners
    }
    return Facts(
        machine, gpus, reply.no_gpu, reply.engine, reply.service_digest, reply.controller_version,
        offers, dict(reply.limits), dict(reply.facts),
    )  # fmt: skip


class RemoteRuntime:
    """See ``base.Runtime``."""

    name = NAME

    def __init__(self, link: Link, facts: Facts, gpu: Gpu | None = None) -> None:
        self._link = link
        self._facts = facts
        self._gpu = gpu
        self._sender = Sender(link)

    def availability(self, spec: RunnerSpec, device: str = "cpu") -> Availability:
        unknown = Availability(False, f"host {self._link.address.name} does not have it")
        return self._facts.offers.get((spec.name, device), unknown)

    def prepare(
        self, specs: Sequence[RunnerSpec], device: str, observe: Observer
    ) -> Mapping[str, PreparedRunner | ControllerError]:
        """Has the host build what is missing; see ``base.Runtime``. Raises ControllerError where it does not answer."""
        request = host_pb2.PrepareRunnersRequest(
            runners=[spec.name for spec in specs], device=device, gpu_uuid=self._gpu.uuid if self._gpu else ""
        )
        by_name = {spec.name: spec for spec in specs}
        results: dict[str, PreparedRunner | ControllerError] = {}
        with self._link.channel() as channel:
            try:
                events = host_pb2_grpc.HostStub(channel).PrepareRunners(request, timeout=PREPARE_SECONDS)
                for event in events:
                    if event.HasField("progressed"):
                        observe(self._progress(event.progressed))
                    elif event.prepared.runner in by_name:
                        results[event.prepared.runner] = self._prepared(by_name, event.prepared)
            except grpc.RpcError as error:
                raise self._link.translated(error, "preparing runners") from error
        missing = HostError(f"host {self._link.address.name} said nothing of it", "look at its log")
        return {name: results.get(name, missing) for name in by_name}

    def _progress(self, step: Any) -> BuildProgress:
        fraction = step.fraction if step.HasField("fraction") else None
        return BuildProgress(f"{step.runner} on {self._link.address.name}", step.state, step.stage, fraction)

    def _prepared(self, specs: Mapping[str, RunnerSpec], found: Any) -> PreparedRunner | ControllerError:
        if found.error:
            return RunnerError(found.error, reason="NO_ENVIRONMENT", log_tail=found.log_tail)
        environment = Environment(found.runtime, found.digest, found.location)
        return RemoteRunner(specs[found.runner], environment, self._link, self._sender)

    def settle(self, campaign: str, gpu_uuid: str, seconds: float) -> str:
        """Waits until the host is as quiet as in the beginning; what it was not back at. Raises ControllerError."""
        request = host_pb2.SettleRequest(campaign=campaign, gpu_uuid=gpu_uuid, seconds=seconds)
        return str(self._link.ask(lambda stub: stub.Settle(request, timeout=seconds + SHORT_SECONDS), "settling").text)

    def calibrate(self) -> Calibration:
        """How fast the host is without any framework. Raises ControllerError."""
        request = host_pb2.CalibrateRequest()
        found = self._link.ask(lambda stub: stub.Calibrate(request, timeout=CALIBRATE_SECONDS), "calibrating")
        return Calibration(self._link.address.name, NAME, dict(found.values), dict(found.absent))


@dataclass(frozen=True, slots=True)
class RemoteRunner:
    """A runner that a host starts; see ``base.PreparedRunner``."""

    spec: RunnerSpec
    environment: Environment
    link: Link
    sender: Sender

    def start(self, options: StartOptions) -> "RemoteRunning":
        self.sender.send(options.blobs, options.arrays)
        request = host_pb2.StartRunnerRequest(
            runner=self.spec.name,
            device="gpu" if options.gpu_uuid else "cpu",
            gpu_uuid=options.gpu_uuid,
            threads=options.threads,
            campaign=options.campaign,
            trial=options.trial,
            wait_seconds=TURN_SECONDS,
        )
        running = RemoteRunning(self, request)
        try:
            running.wait_until_serving(TURN_SECONDS + options.start_seconds)
        except BaseException:
            running.stop()
            raise
        return running


class RemoteRunning:
    """A runner that a host has started; see ``base.RunningRunner``."""

    pid = None

    def __init__(self, runner: RemoteRunner, request: Any) -> None:
        self._runner = runner
        self._channel = runner.link.channel()
        self._call = host_pb2_grpc.HostStub(self._channel).StartRunner(request, wait_for_ready=False)
        self._session = ""
        self._failure: Failure | None = None
        self._moved = threading.Condition()
        self._over = False
        threading.Thread(target=self._follow, name="remote-runner", daemon=True).start()

    @property
    def target(self) -> Any:
        return grpc.intercept_channel(self._runner.link.channel(), _Session(self._session))

    def alive(self) -> bool:
        return not self._over

    def exit_reason(self) -> Failure | None:
        with self._moved:
            self._moved.wait_for(lambda: self._over, _LAST_WORDS_SECONDS + KEEPALIVE_TIMEOUT_SECONDS)
            return self._failure if self._over else None

    def stop(self) -> None:
        self._call.cancel()
        self._channel.close()

    def __enter__(self) -> "RemoteRunning":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait_until_serving(self, seconds: float) -> None:
        """Raises RunnerError where the host does not start it."""
        deadline = monotonic() + seconds
        with self._moved:
            while not (self._session or self._over) and monotonic() < deadline:
                self._moved.wait(0.5)  # in steps, so that Ctrl-C is felt on every system
            if self._session and not self._over:
                return
            name = self._runner.spec.name
            if self._failure is None:
                raise RunnerError(f"{name}: the host did not start it within {seconds:.0f} s", reason="START_TIMEOUT")
            failure = self._failure
            raise RunnerError(f"{name}: {failure.message}", reason=failure.reason, log_tail=failure.log_tail)

    def _follow(self) -> None:
        """Reads the call that the runner lives by, to its end."""
        failure = None
        try:
            for event in self._call:
                if event.HasField("serving"):
                    self._note(session=event.serving.session)
                elif event.HasField("ended"):
                    failure = Failure(event.ended.reason, event.ended.message, event.ended.log_tail)
        except grpc.RpcError as error:
            failure = failure or self._lost(error)
        self._note(over=True, failure=failure or Failure(RUNNER_LOST, "the host ended it"))

    def _note(self, session: str = "", over: bool = False, failure: Failure | None = None) -> None:
        with self._moved:
            self._session = session or self._session
            self._failure = failure or self._failure
            self._over = self._over or over
            self._moved.notify_all()

    def _lost(self, error: Any) -> Failure:
        if error.code() == grpc.StatusCode.CANCELLED:
            return Failure("CANCELLED", "it was stopped")
        found = self._runner.link.translated(error, "running it")
        reason = dict(error.trailing_metadata() or ()).get(REASON_KEY, RUNNER_LOST)
        return Failure(str(reason), found.line())


class _Details(NamedTuple):
    method: str
    timeout: float | None
    metadata: Any
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class _Session(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]
    """Says with each call which runner it is for."""

    def __init__(self, session: str) -> None:
        self._metadata = (SESSION_KEY, session)

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(self._marked(details), request)

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(self._marked(details), request)

    def _marked(self, details: Any) -> _Details:
        metadata = [*(details.metadata or ()), self._metadata]
        compression = getattr(details, "compression", None)
        return _Details(
            details.method, details.timeout, metadata, details.credentials, details.wait_for_ready, compression
        )
