"""One training process seen from the server: start, request, events, cancel, and its certain end."""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque

from trainyard.v1 import runner_pb2

from runners.core import failures, heartbeat, telemetry, wire

GRACE_SECONDS = 5.0
PROGRESS_SECONDS = 0.25
_LOG_LINES = 40
_ENDED = "ended"


class Broken(Exception):
    """The training process ended before it could take a request."""


class Session(object):
    """Starts a training process at once. ``ready`` blocks until the framework is imported; then one ``start`` and
    its ``events``; ``end`` may be called at any time, from any thread, more than once."""

    def __init__(self, adapter, blobs):
        descriptor, self._beat_path = tempfile.mkstemp(prefix="trainyard-beat-")
        os.close(descriptor)
        heartbeat.create(self._beat_path)
        self._beat = heartbeat.Heartbeat(self._beat_path)
        self._frames = queue.Queue()
        self._log = deque(maxlen=_LOG_LINES)
        self._kills_before = telemetry.out_of_memory_kills()
        self._lock = threading.Lock()
        self._ended = False
        self.ending = False
        self._begun = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "runners.core.trainer", "--adapter", adapter, "--blobs", blobs,
             "--heartbeat", self._beat_path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **_own_group())
        self._log_thread = self._thread(self._read_log)
        self._thread(self._read_frames)
        self._thread(self._reap)
        self.process_start_seconds = None
        self.description = None

    @staticmethod
    def _thread(target):
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        return thread

    def ready(self):
        """Waits for the framework; returns its DescribeResponse. Raises Broken."""
        while self.description is None:
            kind, payload = self._frames.get()
            if kind == wire.HELLO:
                self.process_start_seconds = time.monotonic() - self._begun
            elif kind == wire.DESCRIBED:
                self._forget_beat()
                self.description = runner_pb2.DescribeResponse.FromString(payload)
                self.description.phases["process_start"] = self.process_start_seconds
            elif kind == wire.BROKEN:
                raise Broken(json.loads(payload.decode("utf-8"))["message"])
            else:
                raise Broken(failures.reason_of_exit(self._process.poll())[1])
        return self.description

    def start(self, kind, request):
        """Hands over the request (a message)."""
        try:
            wire.write_frame(self._process.stdin.fileno(), kind, request.SerializeToString())
        except OSError:
            pass  # It has died; its end is the next frame.

    def result(self):
        """Blocks for the one frame that answers a probe: (kind, payload); kind is ``None`` if the process died."""
        kind, payload = self._frames.get()
        return (None, None) if kind == _ENDED else (kind, payload)

    def frames(self):
        """Yields (kind, payload) and, in between, (None, Progressed): at most one per PROGRESS_SECONDS. Ends when
        the process has."""
        progress = _Progress(self._beat)
        while True:
            try:
                kind, payload = self._frames.get(timeout=PROGRESS_SECONDS)
            except queue.Empty:
                message = progress.read()
                if message is not None:
                    yield None, message
                continue
            if kind == _ENDED:
                return
            yield kind, payload

    def failure(self):
        """The Failure of a process that ended without a result."""
        code = self._process.wait()
        self._log_thread.join(1.0)
        reason, message = failures.reason_of_exit(code, telemetry.out_of_memory_kills() - self._kills_before)
        return runner_pb2.Failure(reason=reason, message=message, log_tail=self.log_tail())

    def log_tail(self):
        """The last lines that the training process printed."""
        return "\n".join(self._log)

    def end(self, grace=GRACE_SECONDS):
        """Cancels what runs, and kills the process with all its children if it is still there after ``grace``
        seconds. Returns when nothing is left."""
        self.ending = True
        # Held to the end: who comes second, such as a server that stops, waits until nothing is left.
        with self._lock:
            if not self._ended:
                self._end(grace)
            self._ended = True

    def _end(self, grace):
        try:
            self._process.stdin.close()
        except OSError:
            pass
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            pass
        _kill_group(self._process)
        self._process.wait()
        self._forget_beat()

    def _forget_beat(self):
        """Removes the heartbeat's name. Both sides keep their map; a system that cannot do that now does it later."""
        try:
            os.unlink(self._beat_path)
        except OSError:
            pass

    def _read_frames(self):
        try:
            while True:
                frame = wire.read_frame(self._process.stdout.fileno())
                if frame is None:
                    break
                self._frames.put(frame)
        except (OSError, ValueError):
            pass
        self._process.wait()
        self._frames.put((_ENDED, b""))

    def _reap(self):
        # Loader workers that outlive the process would hold its pipes open.
        self._process.wait()
        _kill_group(self._process)

    def _read_log(self):
        for line in iter(self._process.stderr.readline, b""):
            text = line.decode("utf-8", "replace").rstrip()
            self._log.append(text)
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


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


def _own_group():
    if os.name == "nt":
        return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    return {"start_new_session": True}


def _kill_group(process):
    """Kills the process and whatever it started (its loader workers)."""
    if os.name == "nt":
        subprocess.call(["taskkill", "/T", "/F", "/PID", str(process.pid)],
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
