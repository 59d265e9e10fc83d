"""Ctrl-C that is never lost: Python drops a KeyboardInterrupt that is raised while a callback of C code runs.

The handler raises as usual and remembers that it did; long loops ask ``check`` and raise again if it had no effect.
A terminal that closes and a polite kill are the same wish.
"""

import signal
import sys
import threading
from typing import Any

_asked = threading.Event()


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


def _handle(number: int, frame: Any) -> None:
    _asked.set()
    raise KeyboardInterrupt
