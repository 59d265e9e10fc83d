"""Ctrl-C that is never lost: Python drops a KeyboardInterrupt that is raised while a callback of C code runs.

The handler raises as usual and remembers that it did; long loops ask ``check`` and raise again if it had no effect.
A terminal that closes and a polite kill are the same wish.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_asked = threading.Event()
_postponing = threading.Event()


def install() -> None:
    """Takes over SIGINT, SIGTERM and SIGHUP of this process; only in its main thread."""
    names = ["SIGINT", "SIGTERM"] + ([] if sys.platform == "win32" else ["SIGHUP"])
    for name in names:
        number = getattr(signal, name)
        # What was started with nohup, or in the background of a shell without job control, stays as it was asked for.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)


def check() -> None:
    """Raises KeyboardInterrupt if one was asked for."""
    if _asked.is_set():
        raise KeyboardInterrupt


@contextmanager
def postponed() -> Iterator[None]:
    """Keeps what must not be torn apart together, such as starting a process and knowing of it: Ctrl-C is raised
    after it. Not for what may wait. It is raised in the main thread alone, so elsewhere there is nothing to do."""
    if threading.current_thread() is not threading.main_thread() or _postponing.is_set():
        yield
        return
    _postponing.set()
    try:
        yield
    finally:
        _postponing.clear()
    check()


def _handle(number: int, frame: Any) -> None:
    _asked.set()
    if not _postponing.is_set():
        raise KeyboardInterrupt
