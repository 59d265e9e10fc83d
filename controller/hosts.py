"""Facts about this machine: system, processor, cores and memory that may be used, GPUs.

What the operating system prints is turned into facts by pure functions of text, so that machines that are not here
can be tested from their recorded outputs.
"""

import ctypes
import functools
import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller import platforms
from controller.errors import HostError
from controller.paths import CACHE_VARIABLE, cache_folder
from controller.platforms import wsl_version
from controller.results import Machine

_QUERY = "index,uuid,name,pci.bus_id,memory.total,driver_version,driver_model.current"
SLOW_CACHE = "slow cache"
_QUERY_SECONDS = 20.0
_CGROUPS = Path("/sys/fs/cgroup")
# Version 1 says "no limit" with the largest multiple of a page.
_NO_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the driver numbers it (by PCI bus). Memory in bytes; 0 where it is not told. ``capability`` is its
    compute capability, such as "8.6"; ``driver_model`` is WDDM, TCC or MCDM; empty where they are not told."""

    index: int
    uuid: str
    name: str
    pci_bus_id: str = ""
    memory_bytes: int = 0
    driver: str = ""
    capability: str = ""
    driver_model: str = ""

    def text(self) -> str:
        """For tables."""
        return f"gpu:{self.index} {self.name} {self.uuid}"


@dataclass(frozen=True, slots=True)
class GpuSearch:
    """GPUs found, and each place that was looked at with what was there; ``remedy`` is for a machine without any."""

    gpus: tuple[Gpu, ...] = ()
    looked_at: tuple[str, ...] = field(default=())
    remedy: str = "use --device cpu"


def machine() -> Machine:
    """This machine, with the cores and the memory that this process may use."""
    return Machine(
        name=platform.node(),
        system=system_text(),
        cpu=cpu_model(),
        cpu_count=usable_cpus(),
        memory_bytes=usable_memory(),
        gpus=tuple(gpu.text() for gpu in find_gpus().gpus),
    )


def facts() -> dict[str, str]:
    """What else is told of this machine to controllers elsewhere: WSL, driver and its model, Python."""
    found = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "wsl": wsl_version(_read("/proc/version")),
        SLOW_CACHE: slow_cache(),
    }
    gpus = find_gpus().gpus
    if gpus:
        found["driver"] = gpus[0].driver
        found["driver_model"] = gpus[0].driver_model
    return {name: text for name, text in found.items() if text}


def slow_cache() -> str:
    """Why environments and arrays load slowly here; empty where they do not."""
    if wsl_version(_read("/proc/version")) and platforms.on_windows_drive(str(cache_folder()), _read("/proc/mounts")):
        return f"the cache is on a drive of Windows, far slower than WSL's own: set {CACHE_VARIABLE}"
    return ""


# --- system and processor ----------------------------------------------------------------------------------


def system_text() -> str:
    """Such as ``Debian GNU/Linux 12 (bookworm), Linux 6.1.0-18-amd64``; says when it is WSL."""
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    if sys.platform == "win32":
        return platforms.windows_words(platform.version(), platform.win32_edition() or "")
    kernel = f"{platform.system()} {platform.release()}"
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = ""
    wsl = wsl_version(_read("/proc/version"))
    return ", ".join(part for part in (name, kernel, wsl) if part)


def cpu_model() -> str:
    """The processor's name, or its architecture where the system does not tell."""
    if sys.platform == "darwin":
        return _run(["sysctl", "-n", "machdep.cpu.brand_string"]).strip() or platform.machine()
    if sys.platform == "win32":
        return _registered_cpu() or platform.processor() or platform.machine()
    return parse_cpu_model(_read("/proc/cpuinfo")) or platform.processor() or platform.machine()


def _registered_cpu() -> str:
    """Windows' platform.processor() is a family and a stepping; the name is in the registry."""
    if sys.platform != "win32":
        return ""
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0") as key:
            return " ".join(str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).split())
    except OSError:
        return ""


def parse_cpu_model(cpuinfo: str) -> str:
    """Name in Linux's /proc/cpuinfo; ARM has none there."""
    match = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return " ".join(match.group(1).split()) if match else ""


# --- limits ------------------------------------------------------------------------------------------------


def usable_cpus() -> int:
    """Cores that this process may use: its affinity, and the quota of its cgroup rounded down, at least 1."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # Windows, macOS
        count = os.cpu_count() or 1
    quota = cpu_quota()
    return max(1, min(count, int(quota)) if quota is not None else count)


def usable_memory() -> int:
    """Bytes of memory, or of the cgroup's limit where that is less."""
    import psutil

    total = int(psutil.virtual_memory().total)
    limits = [limit for folder in _cgroup_folders("memory") if (limit := _memory_limit(folder)) is not None]
    return min([total, *limits])


def cpu_quota() -> float | None:
    """Cores that the control groups of this process allow, or None without a limit."""
    quotas = [quota for folder in _cgroup_folders("cpu") if (quota := _cpu_quota(folder)) is not None]
    return min(quotas, default=None)


def _cpu_quota(folder: Path) -> float | None:
    quota = parse_cpu_max(_read(folder / "cpu.max"))
    if quota is None:
        quota = parse_cpu_max(f"{_read(folder / 'cpu.cfs_quota_us')} {_read(folder / 'cpu.cfs_period_us')}")
    return quota


def parse_cpu_max(text: str) -> float | None:
    """Cores from ``quota period`` in microseconds; ``max`` and -1 mean no limit."""
    parts = text.split()
    if len(parts) != 2 or not parts[0].isdigit() or not parts[1].isdigit() or int(parts[1]) == 0:
        return None
    return int(parts[0]) / int(parts[1])


def _memory_limit(folder: Path) -> int | None:
    text = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
    return parse_memory_max(text)


def parse_memory_max(text: str) -> int | None:
    """Bytes, or None without a limit."""
    text = text.strip()
    return int(text) if text.isdigit() and int(text) < _NO_LIMIT else None


def _cgroup_folders(controller: str) -> list[Path]:
    """Folders of this process's control group and of those above it, for either version of the interface."""
    path = parse_cgroup(_read("/proc/self/cgroup"), controller)
    if path is None:
        return []
    folders = []
    for root in (_CGROUPS, _CGROUPS / controller):
        inner = root / path.lstrip("/")
        folders.extend([inner, *(parent for parent in inner.parents if parent.is_relative_to(root))])
    return list(dict.fromkeys(folders))


def parse_cgroup(text: str, controller: str) -> str | None:
    """Path of the control group in /proc/self/cgroup: the line of the controller, else that of version 2."""
    unified = None
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if controller in names.split(","):
            return path
        if number == "0" and not names:
            unified = path
    return unified


# --- GPUs --------------------------------------------------------------------------------------------------


def gpu(index: int) -> Gpu:
    """The GPU of that number. Raises HostError that says what was looked for, or which ones there are."""
    search = find_gpus()
    if not search.gpus:
        raise HostError(f"no GPU on this machine: looked for {'; '.join(search.looked_at)}", search.remedy)
    for found in search.gpus:
        if found.index == index:
            return found
    listed = ", ".join(f"{found.index} ({found.name})" for found in search.gpus)
    raise HostError(f"there is no GPU {index} on this machine: found {listed}", "use --gpu with one of these numbers")


@functools.cache
def find_gpus() -> GpuSearch:
    """Asks NVML, then nvidia-smi; names what else would show that a GPU is there but not usable."""
    looked_at: list[str] = []
    for ask in (_ask_nvml, _ask_nvidia_smi):
        gpus, said = ask()
        looked_at.append(said)
        if gpus:
            return GpuSearch(gpus, tuple(looked_at))
    looked_at += _device_files()
    remedy = platforms.gpu_remedy(looked_at, wsl_version(_read("/proc/version")))
    return GpuSearch((), tuple(looked_at), f"{remedy}; or use --device cpu" if remedy else "use --device cpu")


def _ask_nvml() -> tuple[tuple[Gpu, ...], str]:
    try:
        pynvml = importlib.import_module("pynvml")
    except ImportError:
        return (), f"NVML (nvidia-ml-py is not installed, {_library()})"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return (), f"NVML ({error})"
    try:
        return tuple(_nvml_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())), "NVML"
    except pynvml.NVMLError as error:
        return (), f"NVML ({error})"
    finally:
        pynvml.nvmlShutdown()


def _nvml_gpu(pynvml: Any, index: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return Gpu(
        index=index,
        uuid=_decoded(pynvml.nvmlDeviceGetUUID(handle)),
        name=_decoded(pynvml.nvmlDeviceGetName(handle)),
        pci_bus_id=_decoded(pynvml.nvmlDeviceGetPciInfo(handle).busId),
        memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        driver=_decoded(pynvml.nvmlSystemGetDriverVersion()),
        capability=_capability(pynvml, handle),
        driver_model=platforms.driver_model(pynvml, handle),
    )


def _capability(pynvml: Any, handle: Any) -> str:
    try:
        return "{}.{}".format(*pynvml.nvmlDeviceGetCudaComputeCapability(handle))
    except (AttributeError, pynvml.NVMLError):  # older libraries and drivers do not tell
        return ""


def _decoded(value: bytes | str) -> str:
    """Older releases of nvidia-ml-py return bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _library() -> str:
    name = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    try:
        ctypes.CDLL(name)
    except OSError:
        return f"{name} is not there"
    return f"{name} is there"


def _ask_nvidia_smi() -> tuple[tuple[Gpu, ...], str]:
    program = shutil.which("nvidia-smi") or next(filter(os.path.isfile, platforms.SMI_PLACES), None)
    if program is None:
        return (), "nvidia-smi (not on PATH)"
    command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return (), f"nvidia-smi ({error})"
    gpus = parse_nvidia_smi(done.stdout) if done.returncode == 0 else ()
    said = " ".join((done.stdout + done.stderr).split())[:200]
    return gpus, "nvidia-smi" if gpus else f"nvidia-smi (exit code {done.returncode}: {said})"


def parse_nvidia_smi(text: str) -> tuple[Gpu, ...]:
    """GPUs from the comma-separated answer to the query above; lines of another form are no GPUs."""
    gpus = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 7 and parts[0].isdigit() and parts[1].startswith(("GPU-", "MIG-")):
            memory = int(parts[4]) * 1024 * 1024 if parts[4].isdigit() else 0
            model = platforms.driver_model_word(parts[6])
            gpus.append(Gpu(int(parts[0]), parts[1], parts[2], parts[3], memory, parts[5], driver_model=model))
    return tuple(gpus)


def _device_files() -> list[str]:
    if sys.platform in ("win32", "darwin"):
        return []
    found = sorted(path.name for path in Path("/dev").glob("nvidia*"))
    said = [f"/dev/nvidia* ({', '.join(found) or 'none'})"]
    if wsl_version(_read("/proc/version")):
        said.append(f"/dev/dxg ({'there' if Path('/dev/dxg').exists() else 'not there'})")
    return said


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _run(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
