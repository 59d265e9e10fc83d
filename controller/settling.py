"""The pause between trials: until the machine is as quiet, cool and empty as it was before the first one.

A trial leaves things behind: processes that end, device memory that is given back, a warm chip. What is waited for is
bounded: a machine that does not come back is taken as it is from then on, and the campaign says so.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from controller import interrupts
from controller.telemetry import nvml, processors

# What still counts as back: a share of all processors, bytes, degrees.
LOAD_MARGIN = 0.10
MEMORY_MARGIN = 64 * 2**20
TEMPERATURE_MARGIN = 5.0
FIRST_SECONDS = 0.5
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class State:
    """``load``: share of all processors in use, over a moment. None where there is no GPU, or it does not tell."""

    load: float
    gpu_memory: float | None = None
    gpu_temperature: float | None = None


Look = Callable[[float], State]
"""Takes the seconds over which to look."""


def look_at(gpu_uuid: str) -> Look:
    """This machine; its GPU too unless the UUID is empty."""

    def look(seconds: float) -> State:
        before, begin = processors.read(), time.monotonic()
        time.sleep(seconds)
        after, end = processors.read(), time.monotonic()
        state = State((after.busy - before.busy) / ((end - begin) * after.count))
        if not gpu_uuid:
            return state
        with nvml.Gpu(gpu_uuid) as gpu:
            values = gpu.read().values
        return replace(state, gpu_memory=values.get("memory_bytes"), gpu_temperature=values.get("temperature_c"))

    return look


class Pause:
    """Of one campaign. ``seconds``: the longest wait before a trial; 0: none at all."""

    def __init__(self, seconds: float, look: Look, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._look = look
        self._clock = clock
        self._baseline = look(FIRST_SECONDS) if seconds > 0 else None

    def wait(self, is_wanted: Callable[[], bool] = lambda: True) -> str:
        """Returns when the machine is back at its baseline, or nobody waits any more; or what it was not back at when
        that took too long: then this is the baseline from now on."""
        baseline, deadline = self._baseline, self._clock() + self._seconds
        while baseline is not None and is_wanted():
            interrupts.check()
            state = self._look(LOOK_SECONDS)
            over = _over(state, baseline)
            if not over:
                return ""
            if self._clock() >= deadline:
                self._baseline = _raised(baseline, state)
                return f"after {self._seconds:g} s of waiting before a trial, {' and '.join(over)}"
        return ""


def _over(state: State, baseline: State) -> list[str]:
    """What is not back, in words."""
    words = []
    if state.load > baseline.load + LOAD_MARGIN:
        words.append(f"{state.load:.0%} of the processors were in use, {baseline.load:.0%} in the beginning")
    if _exceeds(state.gpu_memory, baseline.gpu_memory, MEMORY_MARGIN):
        words.append(f"{_mebibytes(state)} of GPU memory were in use, {_mebibytes(baseline)} in the beginning")
    if _exceeds(state.gpu_temperature, baseline.gpu_temperature, TEMPERATURE_MARGIN):
        words.append(f"the GPU was at {state.gpu_temperature:g} °C, {baseline.gpu_temperature:g} in the beginning")
    return words


def _exceeds(value: float | None, base: float | None, margin: float) -> bool:
    return value is not None and base is not None and value > base + margin


def _mebibytes(state: State) -> str:
    return f"{(state.gpu_memory or 0.0) / 2**20:,.0f} MiB"


def _raised(baseline: State, state: State) -> State:
    """The higher of each: what went down is waited for no less."""
    return State(
        max(baseline.load, state.load),
        _higher(baseline.gpu_memory, state.gpu_memory),
        _higher(baseline.gpu_temperature, state.gpu_temperature),
    )


def _higher(first: float | None, second: float | None) -> float | None:
    return max((value for value in (first, second) if value is not None), default=None)
