"""A training process as the operating system sees it: its start, its frames, its log and its certain end.

Only the standard library is imported here: the first training process starts before the server has imported gRPC, so
that both import at the same time.
"""

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque

from runners.core import heartbeat, telemetry, wire

ENDED = "ended"
_LOG_LINES = 40


class Child(object):
    """Starts a training process at once. ``frames`` is a queue of (kind, payload); the last one's kind is ENDED.
    ``process_start_seconds`` is there with the first frame."""

    def __init__(self, adapter, blobs):
        descriptor, self._beat_path = tempfile.mkstemp(prefix="trainyard-beat-")
        os.close(descriptor)
        heartbeat.create(self._beat_path)
        self.beat = heartbeat.Heartbeat(self._beat_path)
        self.frames = queue.Queue()
        self._log = deque(maxlen=_LOG_LINES)
        self._kills_before = telemetry.out_of_memory_kills()
        self.process_start_seconds = None
        self._begun = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "runners.core.trainer", "--adapter", adapter, "--blobs", blobs,
             "--heartbeat", self._beat_path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **_own_group())
        self._log_thread = self._thread(self._read_log)
        self._thread(self._read_frames)
        self._thread(self._reap)

    @staticmethod
    def _thread(target):
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        return thread

    def exit_code(self):
        """Waits until the process has ended, and until its last words were read."""
        code = self.process.wait()
        self._log_thread.join(1.0)
        return code

    def out_of_memory_kills(self):
        """How many processes the system has killed for want of memory since this one was started."""
        return telemetry.out_of_memory_kills() - self._kills_before

    def log_tail(self):
        """The last lines that the process printed."""
        return "\n".join(self._log)

    def end(self, grace):
        """Closes its input, which asks it to end, and kills it with all its children if it is still there after
        ``grace`` seconds."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            self.process.wait(grace)
        except subprocess.TimeoutExpired:
            pass
        _kill_group(self.process)
        self.process.wait()
        self.forget_beat()

    def forget_beat(self):
        """Removes the heartbeat's name. Both sides keep their map; a system that cannot do that now does it later."""
        try:
            os.unlink(self._beat_path)
        except OSError:
            pass

    def _read_frames(self):
        try:
            while True:
                frame = wire.read_frame(self.process.stdout.fileno())
                if frame is None:
                    break
                if self.process_start_seconds is None:
                    self.process_start_seconds = time.monotonic() - self._begun
                self.frames.put(frame)
        except (OSError, ValueError):
            pass
        self.process.wait()
        self.frames.put((ENDED, b""))

    def _reap(self):
        # Loader workers that outlive the process would hold its pipes open.
        self.process.wait()
        _kill_group(self.process)

    def _read_log(self):
        for line in iter(self.process.stderr.readline, b""):
            text = line.decode("utf-8", "replace").rstrip()
            self._log.append(text)
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


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
