"""Samples to the numbers of a trial. Pure functions; what cannot be said is absent with a reason.

Of the GPU: ``gpu_memory_baseline_bytes`` (before the runner was started), ``gpu_memory_peak_bytes``,
``gpu_utilisation`` and ``gpu_utilisation_peak`` (shares), ``gpu_sm_clock_mhz``, ``gpu_sm_clock_min_mhz``,
``gpu_memory_clock_mhz``, ``gpu_temperature_max_c``, ``gpu_power_w``, ``gpu_energy_j`` (of the measured section),
``gpu_throttled_share`` and ``gpu_power_capped_share`` (of the samples), ``gpu_other_processes``,
``gpu_over_capacity_bytes`` (only where it is more than none), ``gpu_samples``.
Of the CPU: ``cpu_busy_share``, ``cpu_steal_share``, ``cpu_other_share`` (of all processors), ``cpu_mhz``,
``cpu_mhz_min``, ``cpu_samples``. Where the runner told a number itself, its own stands.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from controller.results import Memory
from controller.telemetry.readings import POWER_CAP, SLOWDOWN, CpuReading, GpuReading

TOO_SHORT = "the measured section was shorter than two samples are apart"


@dataclass(frozen=True, slots=True)
class Found:
    """``values`` and, of what is missing, ``absent``: why."""

    values: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuContext:
    """What stands beside the samples: the reading before the runner was started, the device's memory, why readings
    lack a value, and which processes are the runner's own (a function of their number; None: cannot be known)."""

    before: GpuReading
    total_bytes: float | None
    absent: Mapping[str, str]
    is_own: Callable[[int], bool | None]


# Name of the number, of the reading's value, and how the samples become one.
_GPU: tuple[tuple[str, str, Callable[[Sequence[float]], float]], ...] = (
    ("gpu_memory_peak_bytes", "memory_bytes", max),
    ("gpu_utilisation", "utilisation", fmean),
    ("gpu_utilisation_peak", "utilisation", max),
    ("gpu_sm_clock_mhz", "sm_clock_mhz", median),
    ("gpu_sm_clock_min_mhz", "sm_clock_mhz", min),
    ("gpu_memory_clock_mhz", "memory_clock_mhz", median),
    ("gpu_temperature_max_c", "temperature_c", max),
    ("gpu_power_w", "power_w", fmean),
    ("gpu_throttled_share", "event_reasons", lambda reasons: _share(reasons, SLOWDOWN)),
    ("gpu_power_capped_share", "event_reasons", lambda reasons: _share(reasons, POWER_CAP)),
)


def gpu(
    samples: Sequence[tuple[float, GpuReading]], measured: float, memory: Sequence[Memory], context: GpuContext
) -> Found:
    """``samples``: moments in seconds and readings within the ``measured`` seconds. ``memory`` is what the runner
    itself told."""
    found = Found({"gpu_samples": float(len(samples))})
    for name, source, combine in _GPU:
        series = [reading.values[source] for _, reading in samples if source in reading.values]
        _put(found, name, combine(series) if series else None, context.absent.get(source, TOO_SHORT))
    before = context.before.values.get("memory_bytes")
    _put(found, "gpu_memory_baseline_bytes", before, context.absent.get("memory_bytes", "not read before the trial"))
    _put(found, "gpu_energy_j", _energy(samples, measured), context.absent.get("energy_j", TOO_SHORT))
    _put(found, "gpu_other_processes", _others(samples, context), context.absent.get("processes", TOO_SHORT))
    over = _over_capacity(before, context.total_bytes, memory)
    if over > 0:
        found.values["gpu_over_capacity_bytes"] = over
    return found


def processor(samples: Sequence[tuple[float, CpuReading]], told: Mapping[str, float], system: str) -> Found:
    """``told``: the telemetry that the runner measured itself, exactly around its section. ``system``: its name, for
    reasons."""
    found = Found({"cpu_samples": float(len(samples))})
    clocks = [reading.mhz for _, reading in samples if reading.mhz is not None]
    why = f"{system} does not tell the clock here" if samples else TOO_SHORT
    _put(found, "cpu_mhz", median(clocks) if clocks else None, why)
    _put(found, "cpu_mhz_min", min(clocks) if clocks else None, why)
    shares = _shares(samples)
    for name in ("cpu_busy_share", "cpu_steal_share", "cpu_other_share"):
        if name not in told:
            why = f"{system} does not tell it here" if shares else TOO_SHORT
            _put(found, name, shares.get(name), why)
    return found


def _put(found: Found, name: str, value: float | None, why: str) -> None:
    if value is None:
        found.absent[name] = why
    else:
        found.values[name] = value


def _share(reasons: Sequence[float], bits: int) -> float:
    return sum(bool(int(each) & bits) for each in reasons) / len(reasons)


def _energy(samples: Sequence[tuple[float, GpuReading]], measured: float) -> float | None:
    """What the counter rose by between the first and the last sample, stretched to the whole section."""
    known = [(moment, reading.values["energy_j"]) for moment, reading in samples if "energy_j" in reading.values]
    if len(known) < 2 or known[-1][0] <= known[0][0]:
        return None
    (begin, first), (end, last) = known[0], known[-1]
    return (last - first) * measured / (end - begin)


def _others(samples: Sequence[tuple[float, GpuReading]], context: GpuContext) -> float | None:
    """The most processes at once that were there before the runner, or are known not to be its own."""
    counts = [
        sum(pid in (context.before.processes or ()) or context.is_own(pid) is False for pid in reading.processes)
        for _, reading in samples
        if reading.processes is not None
    ]
    return float(max(counts)) if counts else None


def _over_capacity(before: float | None, total: float | None, memory: Sequence[Memory]) -> float:
    """Bytes that the framework took beside what was in use before, over what the device has. Only a driver that
    spills into the host's memory, such as WDDM's, lets it come to that."""
    taken = [entry.size_bytes for entry in memory if entry.kind.startswith("allocator_") and entry.size_bytes]
    if before is None or total is None or not taken:
        return 0.0
    return max(0.0, before + max(taken) - total)


def _shares(samples: Sequence[tuple[float, CpuReading]]) -> dict[str, float]:
    """Of all processors' time between the first and the last sample."""
    if len(samples) < 2:
        return {}
    (begin, first), (end, last) = samples[0], samples[-1]
    available = (end - begin) * last.count
    shares = {"cpu_busy_share": (last.busy - first.busy) / available}
    if first.stolen is not None and last.stolen is not None:
        shares["cpu_steal_share"] = (last.stolen - first.stolen) / available
    if first.own is not None and last.own is not None:
        shares["cpu_other_share"] = max(0.0, (last.busy - first.busy - last.own + first.own) / available)
    return shares
