"""The front's lines, of which strangers can cause any number: so many in a while are said, the rest are counted."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable

WINDOW_SECONDS = 10.0
LINES = 20
LINES_OF_ONE = 10


class Journal:
    """For one event loop alone. Of one address at most LINES_OF_ONE lines are said in a window, of all LINES; when the
    window ends one line says how many were left out."""

    def __init__(self, say: Callable[[str], None], window_seconds: float = WINDOW_SECONDS) -> None:
        self._say = say
        self._window_seconds = window_seconds
        self._said: Counter[str] = Counter()
        self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None

    def stranger(self, address: str, line: str) -> None:
        """A line that anyone can cause."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._window_seconds, self.flush)
        if self._said.total() >= LINES or self._said[address] >= LINES_OF_ONE:
            self._left_out += 1
            return
        self._said[address] += 1
        self.line(f"{address}: {line}")

    def line(self, text: str) -> None:
        """A line of the front itself."""
        with contextlib.suppress(Exception):  # a closed terminal must not end the front
            self._say(text)

    def flush(self) -> None:
        """Ends the window."""
        if self._timer:
            self._timer.cancel()
        self._timer = None
        if self._left_out:
            some = "connection was" if self._left_out == 1 else "connections were"
            self.line(f"{self._left_out} more {some} refused or ended in these {self._window_seconds:g} s")
        self._said.clear()
        self._left_out = 0
