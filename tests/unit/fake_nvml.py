"""NVML as it answers on three platforms: a data centre's GPU under Linux, a desktop's under WSL2 and under Windows.

Written after its documentation and what users report of it; no recording. Stands in for the module ``pynvml``.
"""

from types import SimpleNamespace

GIBIBYTE = 2**30
NOT_AVAILABLE = 2**32 - 1


class NVMLError(Exception):
    def __init__(self, text="Not Supported"):
        super().__init__(text)


class FakeNvml:
    """``values`` by the last part of a function's name; an exception among them is raised. A list is one value a
    reading, the last for ever."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_DRIVER_WDDM = 1, 2, 0, 0
    NVMLError = NVMLError

    def __init__(self, uuid, **values):
        self.uuid = uuid
        self.values = values
        self.open = 0

    def nvmlInit(self):
        self._value("Init", None)
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid != self.uuid:
            raise NVMLError("Not Found")
        return "handle"

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(used=self._value("used"), total=self._value("total"))

    def nvmlDeviceGetUtilizationRates(self, handle):
        return SimpleNamespace(gpu=self._value("gpu"), memory=3)

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return self._value("sm" if kind == self.NVML_CLOCK_SM else "mem")

    def nvmlDeviceGetTemperature(self, handle, kind):
        return self._value("temperature")

    def nvmlDeviceGetPowerUsage(self, handle):
        return self._value("power")

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        return self._value("energy")

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return self._value("reasons")

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in self._value("processes")]

    def nvmlDeviceGetDriverModel(self, handle):
        return self._value("model")

    def _value(self, name, *default):
        value = self.values.get(name, *default)
        if isinstance(value, list) and name != "processes":
            value = value.pop(0) if len(value) > 1 else value[0]
        if isinstance(value, Exception):
            raise value
        return value


def data_centre(uuid, **changes):
    """A40 under Linux: everything is told."""
    return FakeNvml(uuid, **{
        "used": 3 * GIBIBYTE, "total": 48 * GIBIBYTE, "gpu": 97, "sm": 1740, "mem": 7250, "temperature": 61,
        "power": 271_430, "energy": 4_000_000_000, "reasons": 0x04, "processes": [], "model": NVMLError(), **changes,
    })  # fmt: skip


def desktop_wsl2(uuid, **changes):
    """GeForce under WSL2: no energy, no processes, a sentinel for power."""
    return data_centre(uuid, **{
        "total": 8 * GIBIBYTE, "power": NOT_AVAILABLE, "energy": NVMLError(), "processes": [], **changes,
    })  # fmt: skip


def desktop_wddm(uuid, **changes):
    """GeForce under Windows: the desktop's programs are listed, none with its memory."""
    return data_centre(uuid, **{
        "total": 8 * GIBIBYTE, "energy": NVMLError(), "processes": [4, 1280, 9312], "model": [0, 0], **changes,
    })  # fmt: skip
