"""The processors of this machine: how busy, how much of it stolen, how fast, and how they are governed."""

import sys
from pathlib import Path

from controller.telemetry.readings import CpuReading

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def read(pid: int | None = None) -> CpuReading:
    """Now. On Linux the training process itself knows its own processor time, children that ended included; elsewhere
    that of ``pid`` and what it started is asked for here."""
    import psutil

    times = psutil.cpu_times()
    # Windows counts interrupts within the system's time; what other systems do not have is 0 here.
    busy = sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
    stolen = getattr(times, "steal", None)
    own = _tree_seconds(pid) if pid is not None and not sys.platform.startswith("linux") else None
    return CpuReading(busy, psutil.cpu_count() or 1, stolen, own, _mhz())


def governor() -> str:
    """The policy by which the clock is chosen; empty where the system does not tell."""
    try:
        return _GOVERNOR.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _mhz() -> float | None:
    """psutil has 0 or nothing where it cannot be known, as in many virtual machines."""
    import psutil

    try:
        found = psutil.cpu_freq()
    except (OSError, NotImplementedError, AttributeError, RuntimeError):
        return None
    return float(found.current) if found is not None and found.current else None


def _tree_seconds(pid: int) -> float | None:
    import psutil

    total = 0.0
    try:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            times = process.cpu_times()
            total += times.user + times.system
    except psutil.Error:
        return None
    return total
