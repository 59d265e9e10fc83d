"""The training process: imports one framework on its main thread, carries out one request, and ends.

Started by the server as ``python -m runners.core.trainer``. It has no gRPC in it, so loader workers may be forked,
frameworks may hold the interpreter's lock or install signal handlers, and the stopwatch shares the process with
nothing but one thread that sleeps in a read until the server cancels or is gone.
"""

import argparse
import importlib
import json
import os
import sys
import threading
import time
import traceback

from trainyard import graph
from trainyard.v1 import runner_pb2

from runners.core import check, facts, failures, heartbeat, probe, wire
from runners.core.adapter import Unsupported
from runners.core.datasets import Blobs
from runners.core.failures import Cancelled, Refused
from runners.core.trial import Trial, device_message

# How long a native step may go on after the server is gone before this process ends itself.
_ORPHAN_GRACE_SECONDS = 10.0


class Channel(object):
    """The two ends of the pipe to the server. ``cancelled`` is empty until the server cancels or is gone."""

    def __init__(self):
        # Everything that a framework prints goes to the log: descriptor 1 is the server's no more.
        self._out = os.dup(1)
        os.dup2(2, 1)
        self._in = os.dup(0)
        self.cancelled = []

    def send(self, kind, payload=b""):
        wire.write_frame(self._out, kind, payload)

    def receive(self):
        """(kind, payload) of the one request, or None when the server is gone."""
        request = wire.read_frame(self._in)
        threading.Thread(target=self._watch, name="cancel", daemon=True).start()
        return request

    def _watch(self):
        # The server closes the pipe to cancel, and so does its death.
        while os.read(self._in, 1):
            pass
        self.cancelled.append(True)
        time.sleep(_ORPHAN_GRACE_SECONDS)
        os._exit(1)


def main():
    options = _options()
    channel = Channel()
    channel.send(wire.HELLO)
    beat = heartbeat.Heartbeat(options.heartbeat)
    try:
        adapter, description = _import(options.adapter, beat)
    except Exception as error:
        traceback.print_exc()
        channel.send(wire.BROKEN, json.dumps({"message": "{}: {}".format(
            type(error).__name__, failures.one_line(error))}).encode("utf-8"))
        return 3
    channel.send(wire.DESCRIBED, description.SerializeToString())
    request = channel.receive()
    if request is not None:
        _serve(channel, adapter, description, Blobs(options.blobs), beat, *request)
    return 0


def _options():
    parser = argparse.ArgumentParser(prog="runners.core.trainer")
    parser.add_argument("--adapter", required=True)
    parser.add_argument("--blobs", required=True)
    parser.add_argument("--heartbeat", required=True)
    return parser.parse_args()


def _import(module, beat):
    """The adapter and its DescribeResponse; importing the adapter's module imports the framework."""
    beat.enter("import")
    start = time.perf_counter()
    adapter = importlib.import_module(module).ADAPTER()
    seconds = time.perf_counter() - start
    found = adapter.describe()
    description = runner_pb2.DescribeResponse(
        framework=found.framework, layers=found.layers, losses=found.losses, optimizers=found.optimizers,
        variants=["{}={}".format(option, value) for option in sorted(found.variants)
                  for value in found.variants[option]],
        gpu_architectures=found.gpu_architectures, devices=[device_message(item) for item in adapter.devices()])
    for source in (facts.versions(), found.versions):
        description.versions.update(source)
    description.facts.update(facts.process_facts())
    description.phases["import"] = seconds
    return adapter, description


def _serve(channel, adapter, description, blobs, beat, kind, payload):
    """Carries out one request; whatever happens is one frame for the server."""
    try:
        if kind == wire.TRAIN:
            _train(channel, adapter, description, blobs, beat, payload)
        else:
            _probe(channel, adapter, description, blobs, payload)
    except Refused as error:
        _refuse(channel, error.code, error.reason, error.message)
    except graph.WorkloadError as error:
        _refuse(channel, "INVALID_ARGUMENT", error.field, str(error))
    except Unsupported as error:
        _refuse(channel, "UNIMPLEMENTED", error.what, "{}: {}".format(description.framework, error))


def _refuse(channel, code, reason, message):
    channel.send(wire.REFUSED, json.dumps({"code": code, "reason": reason, "message": message}).encode("utf-8"))


def _checked(description, request):
    model = check.parse(request.workload)
    check.check_execution(request.execution)
    check.check_supported(description, model, request.execution)
    return model


def _train(channel, adapter, description, blobs, beat, payload):
    request = runner_pb2.TrainRequest.FromString(payload)
    model = _checked(description, request)
    started = []

    def emit(event):
        started.append(True)
        channel.send(wire.EVENT, event.SerializeToString())

    trial = Trial(adapter, request, model, blobs, beat, channel.cancelled, emit)
    try:
        finished = trial.run()
    except Exception as error:
        # Before `Started` the trial could not start, and that is a status; after it, it is a result.
        if not started and isinstance(error, (Refused, Unsupported, graph.WorkloadError)):
            raise
        finished = _failed(trial, error)
    for name, seconds in trial.phases.seconds:
        finished.phases.add(name=name, seconds=seconds)
    channel.send(wire.EVENT, runner_pb2.TrainEvent(finished=finished).SerializeToString())


def _failed(trial, error):
    trial.phases.leave()
    if isinstance(error, Cancelled):
        return runner_pb2.Finished(state="cancelled")
    traceback.print_exc()
    reason, message = failures.reason_of(error)
    return runner_pb2.Finished(state="failed", failure=runner_pb2.Failure(reason=reason, message=message))


def _probe(channel, adapter, description, blobs, payload):
    request = runner_pb2.ProbeRequest.FromString(payload)
    model = _checked(description, request)
    try:
        response = probe.run(adapter, request, model, blobs)
    except (Refused, Unsupported, graph.WorkloadError):
        raise
    except Exception as error:
        traceback.print_exc()
        reason, message = failures.reason_of(error)
        raise Refused("INTERNAL", reason, message)
    channel.send(wire.PROBED, response.SerializeToString())


if __name__ == "__main__":
    sys.exit(main())
