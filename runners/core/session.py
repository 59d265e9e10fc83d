"""One training process seen from the server: start, request, events, cancel, and its end."""

import json
import queue
import threading
import time

from trainyard.v1 import runner_pb2

from runners.core import failures, wire
from runners.core.child import ENDED

GRACE_SECONDS = 5.0
PROGRESS_SECONDS = 0.25


class Broken(Exception):
    """The training process ended before it could take a request."""


class Session(object):
    """Of a ``Child`` that was just started. ``ready`` blocks until the framework is imported; then one ``start`` and
    its ``frames``; ``end`` may be called at any time, from any thread, more than once."""

    def __init__(self, child):
        self._child = child
        self._lock = threading.Lock()
        self._ended = False
        self.ending = False
        self.process_start_seconds = None
        self.description = None

    def ready(self):
        """Waits for the framework; returns its DescribeResponse. Raises Broken."""
        while self.description is None:
            kind, payload = self._child.frames.get()
            if kind == wire.HELLO:
                self.process_start_seconds = self._child.process_start_seconds
            elif kind == wire.DESCRIBED:
                self._child.forget_beat()
                self.description = runner_pb2.DescribeResponse.FromString(payload)
                self.description.phases["process_start"] = self.process_start_seconds
            elif kind == wire.BROKEN:
                raise Broken(json.loads(payload.decode("utf-8"))["message"])
            else:
                raise Broken(failures.reason_of_exit(self._child.process.poll())[1])
        return self.description

    def start(self, kind, request):
        """Hands over the request (a message)."""
        try:
            wire.write_frame(self._child.process.stdin.fileno(), kind, request.SerializeToString())
        except (OSError, ValueError):
            pass  # It has died, or ``end`` has closed its input; its end is the next frame.

    def result(self):
        """Blocks for the one frame that answers a probe: (kind, payload); kind is ``None`` if the process died."""
        kind, payload = self._child.frames.get()
        return (None, None) if kind == ENDED else (kind, payload)

    def frames(self):
        """Yields (kind, payload) and, in between, (None, Progressed): at most one per PROGRESS_SECONDS. Ends when
        the process has."""
        progress = _Progress(self._child.beat)
        while True:
            try:
                kind, payload = self._child.frames.get(timeout=PROGRESS_SECONDS)
            except queue.Empty:
                message = progress.read()
                if message is not None:
                    yield None, message
                continue
            if kind == ENDED:
                return
            yield kind, payload

    def failure(self):
        """The Failure of a process that ended without a result."""
        reason, message = failures.reason_of_exit(self._child.exit_code(), self.out_of_memory_kills())
        return runner_pb2.Failure(reason=reason, message=message, log_tail=self.log_tail())

    def out_of_memory_kills(self):
        """How many processes the system has killed for want of memory since this one was started."""
        return self._child.out_of_memory_kills()

    def log_tail(self):
        """The last lines that the training process printed."""
        return self._child.log_tail()

    def end(self, grace=GRACE_SECONDS):
        """Cancels what runs, and kills the process with all its children if it is still there after ``grace``
        seconds. Returns when nothing is left."""
        self.ending = True
        # Held to the end: who comes second, such as a server that stops, waits until nothing is left.
        with self._lock:
            if not self._ended:
                self._child.end(grace)
            self._ended = True


class _Progress(object):
    def __init__(self, beat):
        self._beat = beat
        self._phase = None
        self._since = None
        self._last = None

    def read(self):
        """A Progressed message, or None when nothing has moved."""
        state = self._beat.read()
        if state == self._last:
            return None
        self._last = state
        phase, done, total = state
        if phase != self._phase:
            self._phase, self._since = phase, (time.monotonic(), done)
        seconds = time.monotonic() - self._since[0]
        rate = (done - self._since[1]) / seconds if seconds > 0 else 0.0
        return runner_pb2.Progressed(phase=phase, steps_done=done, steps_total=total, samples_per_second=rate)
