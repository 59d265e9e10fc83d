"""What Windows, WSL and NVIDIA's driver say of themselves, as words: functions of what was printed or returned, so that
they are tested with recorded outputs of machines that are not here."""

import re
from collections.abc import Iterable
from typing import Any

# Build numbers with which a name begins (Microsoft, "Windows 11 release information", "Windows Server release
# information"). Windows 11 still calls itself version 10.0: only the build tells.
_CLIENTS = {10240: "Windows 10", 22000: "Windows 11"}
_SERVERS = {
    14393: "Windows Server 2016",
    17763: "Windows Server 2019",
    20348: "Windows Server 2022",
    26100: "Windows Server 2025",
}
# NVML's numbers; WDM is what everybody calls TCC.
_DRIVER_MODELS = {0: "WDDM", 1: "TCC", 2: "MCDM"}
# Where nvidia-smi is when PATH does not say so: WSL2 under systemd or sudo, Windows with drivers before 2019.
SMI_PLACES = ("/usr/lib/wsl/lib/nvidia-smi", r"C:\Program Files\NVIDIA Corporation\NVSMI\nvidia-smi.exe")


def windows_words(version: str, edition: str = "") -> str:
    """``Windows 10, 10.0.19045, Professional`` of a version such as ``10.0.19045`` and ``platform.win32_edition()``."""
    match = re.match(r"10\.0\.(\d+)", version)
    names = _SERVERS if edition.startswith("Server") else _CLIENTS
    fitting = [name for build, name in names.items() if match and build <= int(match[1])]
    name = fitting[-1] if fitting else "Windows"
    return ", ".join(part for part in (name, version, edition) if part)


def wsl_version(proc_version: str) -> str:
    """``WSL1``, ``WSL2`` or empty, from the kernel's own version text (/proc/version)."""
    if "microsoft" not in proc_version.lower():
        return ""
    return "WSL2" if "WSL2" in proc_version or "-microsoft-standard" in proc_version else "WSL1"


def on_windows_drive(path: str, mounts: str) -> bool:
    """Whether an absolute path of WSL is on a drive of Windows, from /proc/mounts: those are ``drvfs`` under WSL1, and
    under WSL2 as an option of 9p or virtiofs."""
    found = ("", False)
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[1])
        if path == point or path.startswith(point.rstrip("/") + "/"):
            found = max(
                found, (point, fields[2] == "drvfs" or "aname=drvfs" in fields[3]), key=lambda each: len(each[0])
            )
    return found[1]


def driver_model(nvml: Any, handle: Any) -> str:
    """``WDDM``, ``TCC`` or ``MCDM``: how Windows drives a GPU, under WSL2 too; empty elsewhere, where NVML refuses."""
    try:
        found = nvml.nvmlDeviceGetDriverModel(handle)
    except (AttributeError, nvml.NVMLError):
        return ""
    current = found[0] if isinstance(found, list | tuple) else found
    return _DRIVER_MODELS.get(current, "")


def driver_model_word(text: str) -> str:
    """The same from nvidia-smi's ``driver_model.current``, which is ``[N/A]`` where there is none."""
    return text if text in _DRIVER_MODELS.values() else ""


def gpu_remedy(said: Iterable[str], wsl: str) -> str:
    """What to do about a GPU that is not usable, from what NVML and nvidia-smi said; empty where nothing is known."""
    text = " ".join(said).lower()
    is_without_driver = "driver not loaded" in text or "couldn't communicate" in text
    if wsl == "WSL1":
        return "WSL1 has no GPU: make it WSL2 with wsl --set-version"
    if "version mismatch" in text:
        return "the driver was updated under way: restart the machine"
    if wsl and (is_without_driver or "blocked" in text):
        return (
            "WSL2 has the GPU from Windows: install no driver in it, update NVIDIA's driver for Windows, run wsl "
            "--shutdown there, and leave TCC mode (nvidia-smi -dm 0)"
        )
    return "install or load NVIDIA's driver" if is_without_driver else ""
