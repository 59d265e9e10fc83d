"""The gRPC service of every runner.

It imports no framework: each Train or Probe runs in a training process of its own (trainer.py), so the service
answers at any time, and sees from outside how that process ends.
"""

import json
import os
import sys
import threading
from concurrent import futures

import grpc
import trainyard
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from trainyard.source import source_digest
from trainyard.v1 import runner_pb2, runner_pb2_grpc

import runners
from runners.core import check, datasets, failures, wire
from runners.core.child import Child
from runners.core.failures import Refused
from runners.core.session import GRACE_SECONDS, Broken, Session

SERVICE = "trainyard.v1.Runner"
REASON_KEY = "trainyard-reason"
MAX_MESSAGE_BYTES = 16 * 2 ** 20
_MAX_REASON = 200
# Every call holds a thread; arrays that come slowly must not take them all, so that the others are still answered.
_MAX_CALLS, _MAX_TRANSFERS = 16, 4


class Service(runner_pb2_grpc.RunnerServicer):
    """One runner. ``new_session`` starts a training process; the first is ready before the service is SERVING."""

    def __init__(self, new_session, blobs, first):
        self._new_session = new_session
        self._blobs = blobs
        self._idle = first
        self._current = first
        self._busy = threading.Lock()
        self._taking = threading.Lock()
        self._closed = False
        self._transfers = threading.BoundedSemaphore(_MAX_TRANSFERS)
        self._described = runner_pb2.DescribeResponse()
        self._described.CopyFrom(first.description)
        self._described.service_digest = source_digest(
            {module.__name__: os.path.dirname(module.__file__) for module in (runners, trainyard)})

    def Describe(self, request, context):
        return self._described

    def HasBlob(self, request, context):
        try:
            return runner_pb2.HasBlobResponse(present=self._blobs.has(request.sha256))
        except Refused as error:
            _abort(context, error)

    def PutBlob(self, request_iterator, context):
        if not self._transfers.acquire(blocking=False):
            message = "{} arrays are being received already".format(_MAX_TRANSFERS)
            _abort(context, Refused("RESOURCE_EXHAUSTED", "TRANSFERS", message))
        try:
            return runner_pb2.PutBlobResponse(size_bytes=self._receive(request_iterator))
        except Refused as error:
            _abort(context, error)
        finally:
            self._transfers.release()

    def _receive(self, messages):
        first = next(messages, None)
        if first is None:
            raise Refused("INVALID_ARGUMENT", "sha256", "the first message must name the array")
        self._blobs.put(first.sha256, first.size_bytes, _chunks(first, messages))
        return first.size_bytes

    def Train(self, request, context):
        session = self._begin(request, context)
        session.start(wire.TRAIN, request)
        batch_size = check.parse(request.workload).workload.schedule.batch_size
        for kind, payload in session.frames():
            if kind is None:
                payload.samples_per_second *= batch_size
                yield runner_pb2.TrainEvent(progressed=payload)
            elif kind == wire.REFUSED:
                _abort(context, _refusal(payload))
            elif kind == wire.EVENT:
                event = runner_pb2.TrainEvent.FromString(payload)
                _complete(event, session)
                yield event
                if event.HasField("finished"):
                    return
        yield runner_pb2.TrainEvent(finished=runner_pb2.Finished(state="failed", failure=session.failure()))

    def Probe(self, request, context):
        session = self._begin(request, context)
        session.start(wire.PROBE, request)
        kind, payload = session.result()
        if kind == wire.PROBED:
            return runner_pb2.ProbeResponse.FromString(payload)
        if kind == wire.REFUSED:
            _abort(context, _refusal(payload))
        failure = session.failure()
        _abort(context, Refused("INTERNAL", failure.reason, failure.message))

    def close(self):
        """Ends the training process, by force after the grace period; no other is started any more."""
        with self._taking:
            self._closed = True
        self._current.end()

    def _begin(self, request, context):
        """Checks the request, takes the runner, and returns a session that ends with the call."""
        try:
            self._check(request)
        except Refused as error:
            _abort(context, error)
        # A trial that has given its result may still need a moment to be gone.
        if not self._busy.acquire(timeout=2 * GRACE_SECONDS if self._current.ending else 0.0):
            _abort(context, Refused("ABORTED", "RUNNER_BUSY", "another trial is running on this runner"))
        session = self._take(context)
        # Called however the call ends; a cancelled handler is never resumed, so nothing else may be relied on.
        if not context.add_callback(lambda: self._release(session)):
            self._release(session)
        try:
            session.ready()
        except Broken as error:
            _abort(context, Refused("INTERNAL", "RUNNER_BROKEN", str(error)))
        return session

    def _take(self, context):
        try:
            with self._taking:
                if self._closed:
                    raise Refused("UNAVAILABLE", "STOPPING", "this runner is being stopped")
                self._current, self._idle = self._idle or self._new_session(), None
                return self._current
        except Refused as error:
            self._busy.release()
            _abort(context, error)
        except OSError as error:
            self._busy.release()
            message = "no training process can be started: {}".format(error)
            _abort(context, Refused("INTERNAL", "RUNNER_BROKEN", message))

    def _check(self, request):
        check.check_execution(request.execution)
        check.check_supported(self._described, check.parse(request.workload), request.execution)
        datasets.check_present(self._blobs, request.arrays)

    def _release(self, session):
        session.ending = True
        threading.Thread(target=self._end, args=(session,), daemon=True).start()

    def _end(self, session):
        session.end()
        self._busy.release()


def _chunks(first, others):
    yield first.chunk
    for message in others:
        yield message.chunk


def _complete(event, session):
    """Adds what only the server knows: how long the process took to start, and the log of a failure."""
    if not event.HasField("finished"):
        return
    phases = [runner_pb2.Phase(name="process_start", seconds=session.process_start_seconds),
              runner_pb2.Phase(name="import", seconds=session.description.phases["import"])]
    phases.extend(event.finished.phases)
    del event.finished.phases[:]
    event.finished.phases.extend(phases)
    if event.finished.HasField("failure"):
        _explain(event.finished.failure, session)


def _explain(failure, session):
    """Adds the log's end to a Failure, and want of memory where the framework does not see it."""
    # What the kernel kills is often not the training process but a loader's worker, of which frameworks only say
    # that it has gone.
    if failure.reason == failures.FRAMEWORK_ERROR and session.out_of_memory_kills() > 0:
        failure.reason = failures.OUT_OF_MEMORY
        failure.message += " (the kernel had no memory left and killed a process meanwhile)"
    failure.log_tail = session.log_tail()


def _refusal(payload):
    fields = json.loads(payload.decode("utf-8"))
    return Refused(fields["code"], fields["reason"], fields["message"])


def _abort(context, error):
    """Ends a call. Both texts may quote the request: what no header can hold would leave the call without an end."""
    context.set_trailing_metadata(((REASON_KEY, _header(error.reason)),))
    context.abort(getattr(grpc.StatusCode, error.code), failures.one_line(error.message))


def _header(text):
    """A short text of printable ASCII."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text[:_MAX_REASON])


def serve(options, child, stop):
    """Serves until ``stop`` is set; ``child`` is the first training process. Returns the exit code."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=_MAX_CALLS), options=[
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES), ("grpc.so_reuseport", 0)])
    readiness = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(readiness, server)
    _report(readiness, health_pb2.HealthCheckResponse.NOT_SERVING)
    gate = _Gate()
    runner_pb2_grpc.add_RunnerServicer_to_server(gate, server)
    session = Session(child)
    _listen(server, options)
    blobs = datasets.Blobs(options.blobs)
    threading.Thread(target=_get_ready, args=(options, session, blobs, gate, readiness, stop), daemon=True).start()
    stop.wait()
    readiness.enter_graceful_shutdown()
    (gate.service.close if gate.service else session.end)()
    server.stop(0.5).wait()
    return gate.exit_code


class _Gate(runner_pb2_grpc.RunnerServicer):
    """Answers UNAVAILABLE until the runner is ready, then is it."""

    def __init__(self):
        self.service = None
        self.exit_code = 0

    def _ready(self, context):
        if self.service is None:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the framework is still being imported")
        return self.service

    def Describe(self, request, context):
        return self._ready(context).Describe(request, context)

    def HasBlob(self, request, context):
        return self._ready(context).HasBlob(request, context)

    def PutBlob(self, request_iterator, context):
        return self._ready(context).PutBlob(request_iterator, context)

    def Train(self, request, context):
        return self._ready(context).Train(request, context)

    def Probe(self, request, context):
        return self._ready(context).Probe(request, context)


def _get_ready(options, session, blobs, gate, readiness, stop):
    try:
        session.ready()
        gate.service = Service(lambda: Session(Child(options.adapter, blobs.folder)), blobs, session)
        _report(readiness, health_pb2.HealthCheckResponse.SERVING)
    except Broken as error:
        sys.stderr.write("error: {} cannot be imported: {}\n".format(options.adapter, error))
        gate.exit_code = 3
        stop.set()


def _report(readiness, status):
    for name in ("", SERVICE):
        readiness.set(name, status)


def _listen(server, options):
    port = server.add_insecure_port(options.listen)
    server.start()
    address = options.listen
    if not address.startswith("unix:"):
        address = "{}:{}".format(address.rpartition(":")[0], port)
    if options.address_file:
        temporary = options.address_file + ".new"
        with open(temporary, "w") as file:
            file.write(address)
        os.replace(temporary, options.address_file)
    sys.stderr.write("listening on {}\n".format(address))
    sys.stderr.flush()
