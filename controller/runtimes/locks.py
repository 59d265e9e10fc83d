"""A lock between processes on one file, released by the system when its last holder ends, however it ends."""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

_POLL_SECONDS = 0.1


class FileLock:
    """Exclusive. On POSIX a child that is given ``descriptor`` holds the lock with its parent: a build that goes on
    after its controller was killed keeps others out until it ends too."""

    def __init__(self, path: Path, waiting: Callable[[], None]) -> None:
        """``waiting`` is called again and again while another holds the lock; what it raises ends the waiting."""
        self._path = path
        self._waiting = waiting
        self.descriptor = -1

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            while not _try_lock(self.descriptor):
                self._waiting()
                time.sleep(_POLL_SECONDS)
        except BaseException:
            os.close(self.descriptor)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # No explicit unlock: on POSIX it would take the lock from a child that still holds the descriptor.
        with contextlib.suppress(OSError):
            os.close(self.descriptor)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
