"""A child process together with all that it starts: started apart from the terminal, stopped for certain."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

from controller.results import Failure

# Carried in the environment of every descendant, so that one that left its parent's tree is found as well.
TAG_VARIABLE = "TRAINYARD_TREE"
GRACE_SECONDS = 5.0
_LOOK_SECONDS = 0.01
_WINDOWS = sys.platform == "win32"
_TAIL_BYTES, _TAIL_LINES = 16384, 20


class Tree:
    """One child process and its descendants. Its output goes to a file; its standard input is a pipe that ends
    when this process does, however it ends."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path, keep: Sequence[int] = ()
    ) -> None:
        """Starts ``command`` in ``folder``, appending to ``log``. ``keep``: descriptors that it holds (POSIX)."""
        self._tag = uuid.uuid4().hex
        self._log = log
        self._stopped = False
        self._out_of_memory_kills = _out_of_memory_kills()
        with log.open("ab") as output:
            self._log_start = output.tell()
            self._process = self._spawn(command, {**environment, TAG_VARIABLE: self._tag}, folder, output, keep)

    @staticmethod
    def _spawn(
        command: Sequence[str], environment: Mapping[str, str], folder: Path, output: IO[bytes], keep: Sequence[int]
    ) -> "subprocess.Popen[bytes]":
        # A session of its own: Ctrl-C in the terminal reaches the controller alone, which then stops the tree.
        flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) | getattr(subprocess, "CREATE_NO_WINDOW", 0)
        return subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            start_new_session=not _WINDOWS,
            creationflags=flags if _WINDOWS else 0,
            pass_fds=() if _WINDOWS else tuple(keep),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """As of Popen: negative is the signal that ended it; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None when it still runs after ``seconds``."""
        # Popen's own waiting looks more and more rarely, up to twenty times a second: an end would be seen late.
        deadline = time.monotonic() + seconds
        while self.exit_code() is None and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(_LOOK_SECONDS, left))
        return self.exit_code()

    def log_tail(self) -> str:
        """The last lines that this process printed."""
        return tail(self._log, self._log_start)

    def failure(self) -> Failure | None:
        """Why it ended; None while it runs."""
        code = self.exit_code()
        if code is None:
            return None
        kills = _out_of_memory_kills() > self._out_of_memory_kills
        if code == -9 and kills and not self._stopped:
            return Failure("OUT_OF_MEMORY", "the system ran out of memory and killed the process", self.log_tail())
        return Failure("PROCESS_DIED", f"the process {describe_exit(code)}", self.log_tail())

    def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Closes its input, asks it to end, waits ``grace`` seconds, then kills it and every descendant.

        A Ctrl-C that arrives meanwhile ends the waiting, not the killing.
        """
        self._stopped = self._stopped or self.exit_code() is None
        members: list[psutil.Process] = []
        try:
            members = self._descendants()
            self._ask()
            self.wait(grace)
        finally:
            self._kill(members)

    def _ask(self) -> None:
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        if not _WINDOWS:  # There, terminate() is a kill; the closed input is what asks.
            with contextlib.suppress(OSError):
                self._process.terminate()

    def _kill(self, members: Sequence[psutil.Process]) -> None:
        deadline = time.monotonic() + GRACE_SECONDS
        remaining = [*filter(_lives, members), *self._members()]
        while remaining and time.monotonic() < deadline:
            for process in remaining:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self._process.poll()
            psutil.wait_procs(remaining, timeout=0.2)
            remaining = self._members()  # A process that forked while it was being killed leaves a child.
        self.wait(GRACE_SECONDS)

    def _members(self) -> list[psutil.Process]:
        found = {process.pid: process for process in self._descendants()}
        for pid in _pids_with(f"{TAG_VARIABLE}={self._tag}"):
            if pid not in found:
                with contextlib.suppress(psutil.Error, OSError):
                    process = psutil.Process(pid)
                    # Once more: its number may have been given to another process since.
                    if process.environ().get(TAG_VARIABLE) == self._tag:
                        found[pid] = process
        return [process for process in found.values() if _lives(process)]

    def _descendants(self) -> list[psutil.Process]:
        """The process and what it started, as long as it runs itself."""
        if self.exit_code() is None:
            with contextlib.suppress(psutil.Error):
                root = psutil.Process(self.pid)
                return [root, *root.children(recursive=True)]
        return []


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _pids_with(setting: str) -> Iterator[int]:
    """Processes whose environment holds ``NAME=value``; another user's cannot be looked into."""
    if not sys.platform.startswith("linux"):
        name, _, value = setting.partition("=")
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(name) == value:
                    yield process.pid
        return
    # The same, read without taking every environment apart: it is asked at the end of each trial.
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if setting.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                yield pid


def describe_exit(code: int) -> str:
    """Such as "was ended by signal SIGKILL (9)" or "exited with code 1"."""
    if code < 0:
        try:
            return f"was ended by signal {signal.Signals(-code).name} ({-code})"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"exited with code {code:#x}" if code > 255 else f"exited with code {code}"


def tail(log: Path, start: int = 0, lines: int = _TAIL_LINES) -> str:
    """The last lines of a log file from byte ``start`` on."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-lines:])


def _out_of_memory_kills() -> int:
    """How many processes the kernel has killed for want of memory, containers' limits included; 0 if unknown."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
