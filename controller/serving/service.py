"""The services of a host: Host, and Runner for the runner that a call's session names."""

from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import grpc
from trainyard.v1 import host_pb2, host_pb2_grpc, runner_pb2_grpc

from controller import calibration, paths
from controller.client import measurement_of
from controller.runtimes.base import StartOptions
from controller.runtimes.links import SESSION_KEY
from controller.serving.blob_store import BlobStore
from controller.serving.limits import Limits, Refusal, abort, check_label, check_request, invalid
from controller.serving.offers import Offers
from controller.serving.quiet import Quiet
from controller.serving.sessions import Session, Sessions, check_threads
from controller.serving.streams import Send, Wanted, pass_on, streamed
from controller.telemetry.sampler import Sampler

_DESCRIBE_SECONDS = 20.0
_BUILD_WAIT_SECONDS = 900.0
_CALIBRATE_WAIT_SECONDS = 240.0


class HostService(host_pb2_grpc.HostServicer):  # type: ignore[misc]
    """See host.proto. ``logs`` is where runners' logs go."""

    def __init__(self, offers: Offers, sessions: Sessions, blobs: BlobStore, logs: Path) -> None:
        self._offers = offers
        self._sessions = sessions
        self._blobs = blobs
        self._logs = logs
        self._quiet = Quiet()

    def DescribeHost(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC names it
        return self._offers.describe()

    def PrepareRunners(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        def work(send: Send, is_wanted: Wanted) -> None:
            with self._sessions.turn(_BUILD_WAIT_SECONDS, is_wanted):
                self._offers.prepare(request, send)

        return streamed(context, work)

    def BlobState(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            return self._state(request.sha256)
        except Refusal as refusal:
            abort(context, refusal)

    def SendBlob(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        try:
            return self._state(self._blobs.receive(request_iterator))
        except Refusal as refusal:
            abort(context, refusal)

    def _state(self, digest: str) -> Any:
        return host_pb2.BlobStateResponse(present=self._blobs.has(digest), received_bytes=self._blobs.received(digest))

    def StartRunner(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        def work(send: Send, is_wanted: Wanted) -> None:
            runner = self._offers.runner(request.runner, request.device, request.gpu_uuid)
            for event in self._sessions.run(runner, self._options(request), request.wait_seconds, is_wanted):
                send(event)

        return streamed(context, work)

    def _options(self, request: Any) -> StartOptions:
        campaign, trial = check_label(request.campaign, "campaign"), check_label(request.trial, "trial")
        return StartOptions(
            threads=check_threads(request.threads),
            blobs=self._blobs.folder,
            log=self._logs / (campaign or "none") / f"{request.runner}-{trial[:8] or 'none'}.log",
            gpu_uuid=request.gpu_uuid,
            campaign=campaign,
            trial=trial,
        )

    def Settle(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            campaign = check_label(request.campaign, "campaign")
            text = self._quiet.wait(campaign, request.gpu_uuid, request.seconds, context.is_active)
            return host_pb2.SettleResponse(text=text)
        except Refusal as refusal:
            abort(context, refusal)

    def Calibrate(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            with self._sessions.turn(_CALIBRATE_WAIT_SECONDS, context.is_active):
                found = calibration.of_host("local", "")
        except Refusal as refusal:
            abort(context, refusal)
        return host_pb2.CalibrateResponse(values=found.values, absent=found.absent)


class Forwarder(runner_pb2_grpc.RunnerServicer):  # type: ignore[misc]
    """Passes calls on to the runner of their session, and measures this machine while it trains."""

    def __init__(self, sessions: Sessions, blobs: BlobStore, limits: Limits) -> None:
        self._sessions = sessions
        self._blobs = blobs
        self._limits = limits

    def Describe(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._passed(context, lambda session: session.stub.Describe(request, timeout=_DESCRIBE_SECONDS))

    def Probe(self, request: Any, context: Any) -> Any:  # noqa: N802
        def ask(session: Session) -> Any:
            self._check(request)
            call = session.stub.Probe.future(request)
            context.add_callback(call.cancel)
            return call.result()

        return self._passed(context, ask)

    def Train(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        def work(send: Send, is_wanted: Wanted) -> None:
            session = self._session(context)
            self._check(request)
            call = session.stub.Train(request)
            context.add_callback(call.cancel)
            with Sampler(session.gpu_uuid) as sampler:
                _train(call, session, sampler, send)

        return streamed(context, work)

    def HasBlob(self, request: Any, context: Any) -> Any:  # noqa: N802
        abort(context, Refusal(grpc.StatusCode.UNIMPLEMENTED, "HasBlob", "ask Host.BlobState"))

    def PutBlob(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        abort(context, Refusal(grpc.StatusCode.UNIMPLEMENTED, "PutBlob", "use Host.SendBlob"))

    def _passed(self, context: Any, ask: Any) -> Any:
        try:
            return ask(self._session(context))
        except Refusal as refusal:
            abort(context, refusal)
        except grpc.FutureCancelledError:
            context.abort(grpc.StatusCode.CANCELLED, "the call was cancelled")
        except grpc.RpcError as error:
            pass_on(context, error)

    def _session(self, context: Any) -> Session:
        name = dict(context.invocation_metadata()).get(SESSION_KEY, "")
        return self._sessions.find(name if isinstance(name, str) else "")

    def _check(self, request: Any) -> None:
        found = {array.role: array.sha256 for array in request.arrays}
        digest = found.get("y_train", "")
        if len(request.workload) > self._limits.message_bytes:
            raise invalid("workload", "the workload is too large")
        labels = self._blobs.path(digest) if digest and self._blobs.has(digest) else None
        check_request(request.workload, labels, self._limits)


def _train(call: Any, session: Session, sampler: Sampler, send: Send) -> None:
    for event in call:
        if event.HasField("started"):
            sampler.begin(session.running.pid)
        if event.HasField("finished"):
            _add_telemetry(event.finished, sampler, monotonic())
        send(event)


def _add_telemetry(finished: Any, sampler: Sampler, arrived: float) -> None:
    """What this machine did in the measured section: a controller elsewhere cannot see it."""
    run = measurement_of(finished)
    if run is None:
        return
    sampled = sampler.measured(run, arrived)
    for name, value in sampled.telemetry.items():
        finished.telemetry[name] = value
    for name, text in sampled.telemetry_absent.items():
        finished.telemetry_absent[name] = text
    for name, text in sampled.conditions.items():
        finished.conditions[name] = text
    for entry in sampled.memory[len(run.memory) :]:
        finished.memory.add(kind=entry.kind, bytes=entry.size_bytes, reason=entry.reason)


def logs_folder() -> Path:
    """Where a host keeps the logs of the runners that it starts for others."""
    return paths.state_folder() / "logs" / "served"
