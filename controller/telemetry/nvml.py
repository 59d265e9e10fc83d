"""One GPU as NVML tells of it. A value that the platform does not define is absent with a reason, never a zero."""

import importlib
from collections.abc import Callable
from typing import Any

from controller import platforms
from controller.telemetry.readings import GpuReading

# What NVML answers where it has no number, in 32 and 64 bits.
_SENTINELS = (2**32 - 1, 2**64 - 1)


class Gpu:
    """The GPU of that UUID; a context manager. ``absent`` says of each name why there is no value; ``driver_model`` as
    in ``platforms.driver_model``."""

    def __init__(self, uuid: str) -> None:
        self.absent: dict[str, str] = {}
        self.total_bytes: float | None = None
        self.driver_model = ""
        self._uuid = uuid
        self._nvml: Any = None
        self._handle: Any = None

    def __enter__(self) -> "Gpu":
        try:
            self._nvml = importlib.import_module("pynvml")
            self._nvml.nvmlInit()
        except ImportError as error:
            self._lost(str(error))
            return self
        except self._nvml.NVMLError as error:
            self._lost(str(error))
            return self
        try:
            self._handle = self._nvml.nvmlDeviceGetHandleByUUID(self._uuid)
            self.total_bytes = float(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).total)
            self.driver_model = platforms.driver_model(self._nvml, self._handle)
        except self._nvml.NVMLError as error:
            self._all_absent(str(error))
        return self

    def __exit__(self, *_: object) -> None:
        if self._nvml is not None:
            self._nvml.nvmlShutdown()

    def read(self) -> GpuReading:
        """All that it tells now. What it does not support is not asked for again."""
        if self._handle is None:
            return GpuReading({})
        values = {}
        for name, ask in _ASKED.items():
            value = self._value(name, ask)
            if value is not None:
                values[name] = value
        return GpuReading(values, self._processes())

    def _lost(self, why: str) -> None:
        self._nvml = None
        self._all_absent(why)

    def _all_absent(self, why: str) -> None:
        self.absent.update(dict.fromkeys((*_ASKED, "processes"), f"NVML: {why}"))

    def _value(self, name: str, ask: Callable[[Any, Any], float]) -> float | None:
        if name in self.absent:
            return None
        value = self._ask(name, ask)
        if value in _SENTINELS:
            self.absent[name] = "NVML: the driver's sign for a value that is not available"
            return None
        return None if value is None else float(value) * _UNITS.get(name, 1.0)

    def _processes(self) -> frozenset[int] | None:
        if "processes" in self.absent:
            return None
        if self.driver_model == "WDDM":
            self.absent["processes"] = "under WDDM the programs of the desktop are listed too"
            return None
        entries = self._ask("processes", lambda nvml, handle: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        return None if entries is None else frozenset(int(entry.pid) for entry in entries)

    def _ask(self, name: str, ask: Callable[[Any, Any], Any]) -> Any:
        try:
            return ask(self._nvml, self._handle)
        except AttributeError:
            self.absent[name] = "this release of nvidia-ml-py does not ask for it"
        except self._nvml.NVMLError as error:
            self.absent[name] = f"NVML: {error}"
        return None


def _event_reasons(nvml: Any, handle: Any) -> float:
    """Drivers before 535 know them as throttle reasons."""
    ask = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    try:
        if ask is not None:
            return float(ask(handle))
    except nvml.NVMLError:
        pass
    return float(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


_ASKED: dict[str, Callable[[Any, Any], float]] = {
    "memory_bytes": lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).used,
    "utilisation": lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    "sm_clock_mhz": lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
    "memory_clock_mhz": lambda nvml, handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
    "temperature_c": lambda nvml, handle: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
    "power_w": lambda nvml, handle: nvml.nvmlDeviceGetPowerUsage(handle),
    "energy_j": lambda nvml, handle: nvml.nvmlDeviceGetTotalEnergyConsumption(handle),
    "event_reasons": _event_reasons,
}
# NVML tells per cent, milliwatts and millijoules.
_UNITS = {"utilisation": 0.01, "power_w": 0.001, "energy_j": 0.001}
