"""Runs one long command of a build: its lines as they come, its log kept, ended at once when the build is cancelled."""

import codecs
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from controller.runtimes.trees import Tree

_POLL_SECONDS = 0.1


class CancelledError(Exception):
    """The build was given up, as by Ctrl-C; never shown."""


class Command:
    """What is needed to run commands for one build. ``keep`` are file descriptors that the commands shall hold."""

    def __init__(self, log: Path, folder: Path, cancel: threading.Event, keep: Sequence[int] = ()) -> None:
        self.log = log
        self._folder = folder
        self._cancel = cancel
        self._keep = keep

    def run(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        line: Callable[[str], None] = lambda text: None,
        written: Callable[[int], None] = lambda count: None,
        seconds: float = 3600.0,
    ) -> tuple[int | None, str]:
        """Runs to the end and returns (exit code, all output); the code is None when it took over ``seconds``.

        ``line`` gets each line of output, ``written`` now and then the bytes that the process has written to disk.
        Raises CancelledError, and OSError when the program cannot be started; in every case nothing is left running.
        """
        output = _Output(self.log, line)
        output.note("$ " + " ".join(arguments))
        tree = Tree(arguments, environment, self._folder, self.log, self._keep)
        try:
            code = self._follow(tree, output, written, time.monotonic() + seconds)
        finally:
            tree.stop(grace=1.0)
        output.read()
        return code, output.text()

    def _follow(self, tree: Tree, output: "_Output", written: Callable[[int], None], deadline: float) -> int | None:
        while (code := tree.wait(_POLL_SECONDS)) is None:
            if self._cancel.is_set():
                raise CancelledError
            if time.monotonic() > deadline:
                return None
            output.read()
            written(_bytes_written(tree.pid))
        return code


class _Output:
    """The part of the log that one command adds, read as it grows."""

    def __init__(self, log: Path, line: Callable[[str], None]) -> None:
        self._log = log
        self._line = line
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        self._position = log.stat().st_size
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._lines: list[str] = []

    def note(self, text: str) -> None:
        """Adds a line to the log that is not the command's own."""
        with self._log.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        self._position = self._log.stat().st_size

    def read(self) -> None:
        with self._log.open("rb") as file:
            file.seek(self._position)
            fresh = file.read()
        self._position += len(fresh)
        *whole, self._pending = (self._pending + self._decoder.decode(fresh)).split("\n")
        for text in whole:
            self._lines.append(text.rstrip("\r"))
            self._line(self._lines[-1])

    def text(self) -> str:
        return "\n".join([*self._lines, self._pending])


def _bytes_written(pid: int) -> int:
    try:
        counters = psutil.Process(pid).io_counters()
        return int(getattr(counters, "write_chars", counters.write_bytes))
    except (psutil.Error, OSError, AttributeError):  # Not on macOS, not allowed everywhere.
        return 0
