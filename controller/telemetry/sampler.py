"""Samples the machine from a thread of the controller, while a runner trains in a process of its own.

Nothing is added to the training process: it neither samples nor answers, so the measured section is what it would be
without. What it costs is a little of one core: a few calls of the driver ten times a second on a GPU, and two readings
of /proc a second. Which samples lie in the measured section is known when it is over: the runner tells how long
its last phases took, and they ended when its result arrived. Only durations cross, never the time of a clock.
"""

import platform
import threading
import time
from dataclasses import replace

from controller.results import Measurement, Memory
from controller.telemetry import nvml, processors, summary
from controller.telemetry.readings import CpuReading, GpuReading

GPU_SECONDS = 0.1
CPU_SECONDS = 0.5
# An hour at ten a second; then every second sample goes, and they are taken half as often.
MAX_SAMPLES = 36_000


class Sampler:
    """One trial's. ``gpu_uuid`` empty: no GPU is looked at; ``off``: why nothing is. A context manager, entered before
    the runner is started; ``begin`` when training does, ``measured`` when the result is there."""

    def __init__(self, gpu_uuid: str = "", off: str = "") -> None:
        self._off = off
        self._gpu = nvml.Gpu(gpu_uuid) if gpu_uuid and not off else None
        self._pid: int | None = None
        self._owners: dict[int, bool | None] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._gpu_samples: list[tuple[float, GpuReading]] = []
        self._cpu_samples: list[tuple[float, CpuReading]] = []
        self._before = GpuReading({})

    def __enter__(self) -> "Sampler":
        if self._gpu is not None:
            self._gpu.__enter__()
            self._before = self._gpu.read()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        if self._gpu is not None:
            self._gpu.__exit__()

    def begin(self, pid: int | None = None) -> None:
        """Starts sampling. ``pid``: the runner's server on this machine, where it has one."""
        self._pid = pid
        if self._thread is None and not self._off:
            self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
            self._thread.start()

    def measured(self, run: Measurement, arrived: float) -> Measurement:
        """The measurement with what was sampled in its measured section. ``arrived``: when the result did, on this
        process's monotonic clock."""
        self._end()
        if self._off:
            # A host that serves has measured itself.
            return run if run.telemetry_absent else replace(run, telemetry_absent={"all": self._off})
        start = arrived - run.phases.get("evaluate", 0.0) - run.phases.get("measure", run.measured_seconds)
        end = start + run.measured_seconds
        cpu = summary.processor(
            [each for each in self._cpu_samples if start <= each[0] <= end], run.telemetry, platform.system()
        )
        found, memory = cpu, run.memory
        if self._gpu is not None:
            samples = [each for each in self._gpu_samples if start <= each[0] <= end]
            context = summary.GpuContext(self._before, self._gpu.total_bytes, self._gpu.absent, self._owners.get)
            gpu = summary.gpu(samples, run.measured_seconds, run.memory, context)
            found = summary.Found({**cpu.values, **gpu.values}, {**cpu.absent, **gpu.absent})
            memory = _with_device(run.memory, found)
        conditions = {"governor": processors.governor(), "driver_model": self._gpu.driver_model if self._gpu else ""}
        if not conditions["governor"]:
            found.absent["governor"] = f"{platform.system()} does not tell it here"
        return replace(
            run,
            memory=memory,
            telemetry={**found.values, **run.telemetry},
            telemetry_absent=found.absent,
            conditions={name: text for name, text in conditions.items() if text},
        )

    def _end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        interval = GPU_SECONDS if self._gpu is not None else CPU_SECONDS
        due = 0.0
        while not self._stop.wait(interval):
            if self._gpu is not None:
                self._gpu_samples.append((time.monotonic(), self._gpu.read()))
                self._note_owners()
            if time.monotonic() >= due:
                self._cpu_samples.append((time.monotonic(), processors.read(self._pid)))
                due = time.monotonic() + CPU_SECONDS * 0.9
            if len(self._gpu_samples) + len(self._cpu_samples) > MAX_SAMPLES:
                self._gpu_samples, self._cpu_samples = self._gpu_samples[::2], self._cpu_samples[::2]
                interval *= 2

    def _note_owners(self) -> None:
        """Asks at once whose a new process is: it may be gone when the section has ended."""
        for pid in self._gpu_samples[-1][1].processes or ():
            if pid not in self._owners:
                self._owners[pid] = None if self._pid is None else _descends(pid, self._pid)


def _descends(pid: int, ancestor: int) -> bool | None:
    """Whether a process is ``ancestor`` or was started by it; None where that cannot be known."""
    import psutil

    try:
        return ancestor in (pid, *(parent.pid for parent in psutil.Process(pid).parents()))
    except psutil.Error:
        return None  # ended, or a number of another container's


def _with_device(memory: tuple[Memory, ...], found: summary.Found) -> tuple[Memory, ...]:
    """The device's own numbers beside those of the framework."""
    told = {entry.kind for entry in memory}
    more = []
    for kind, name in (("device_peak", "gpu_memory_peak_bytes"), ("device_baseline", "gpu_memory_baseline_bytes")):
        if kind not in told:
            value = found.values.get(name)
            more.append(Memory(kind, None if value is None else round(value), found.absent.get(name, "")))
    return (*memory, *more)
