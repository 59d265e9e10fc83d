"""What one look at a GPU, or at the processors, gives."""

from dataclasses import dataclass

# Bits of the clocks' event reasons. Being idle, a user's own clocks and a display are no throttling; the power limit
# is how a GPU works at full load, so it is counted apart.
SLOWDOWN = 0x08 | 0x20 | 0x40 | 0x80  # hardware, thermal by software, thermal by hardware, power brake
POWER_CAP = 0x04


@dataclass(frozen=True, slots=True)
class GpuReading:
    """``values`` by name: ``memory_bytes`` in use on the whole device, ``utilisation`` (share of time in which a kernel
    ran), ``sm_clock_mhz``, ``memory_clock_mhz``, ``temperature_c``, ``power_w``, ``energy_j`` (since the driver was
    loaded), ``event_reasons`` (bits). ``processes``: their numbers, None where it is not told."""

    values: dict[str, float]
    processes: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class CpuReading:
    """Seconds since the start of the machine, over all ``count`` processors; ``stolen`` by a hypervisor (None where
    the system does not tell); ``own``: of the runner's processes, None where they themselves tell. ``mhz``: the mean
    of their clocks."""

    busy: float
    count: int
    stolen: float | None = None
    own: float | None = None
    mhz: float | None = None
