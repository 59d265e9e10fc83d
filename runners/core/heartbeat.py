"""How far the training process is, in a few bytes of shared memory: one store per step, no call, no message.

The server reads it from its own process, so progress costs the measured loop nothing that could be seen.
"""

import mmap
import os

PHASES = ("process_start", "import", "device", "data", "build", "first_step", "warmup", "measure", "evaluate")
_BYTES = 64


class Heartbeat(object):
    """``cells``: an int64 memoryview of [phase number, steps done, steps in the phase]."""

    def __init__(self, path):
        descriptor = os.open(path, os.O_RDWR)
        try:
            self._map = mmap.mmap(descriptor, _BYTES)
        finally:
            os.close(descriptor)
        self.cells = memoryview(self._map).cast("q")

    def enter(self, phase, steps=0):
        """A phase begins."""
        self.cells[1] = 0
        self.cells[2] = steps
        self.cells[0] = PHASES.index(phase)

    def read(self):
        """(phase, steps done, steps in the phase)."""
        number, done, total = self.cells[0], self.cells[1], self.cells[2]
        return PHASES[number if 0 <= number < len(PHASES) else 0], done, total

    def close(self):
        self.cells.release()
        self._map.close()


def create(path):
    """Makes the file that both processes map."""
    with open(path, "wb") as file:
        file.write(b"\0" * _BYTES)
