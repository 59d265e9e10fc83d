"""Windows, WSL and NVIDIA's driver, from what real machines printed: systeminfo, /proc/version, nvidia-smi, NVML."""

import re
from types import SimpleNamespace

import pynvml
import pytest

from controller import platforms
from tests.unit import fake_nvml

SYSTEMINFO = """
Host Name:                 {host}
OS Name:                   Microsoft {name}
OS Version:                {version} N/A Build {build}
OS Manufacturer:           Microsoft Corporation
OS Configuration:          {configuration}
OS Build Type:             Multiprocessor Free
"""
WORKSTATION, SERVER, MEMBER = "Standalone Workstation", "Standalone Server", "Member Server"


def systeminfo(host, name, build, configuration):
    version = f"10.0.{build}"
    return SYSTEMINFO.format(host=host, name=name, version=version, build=build, configuration=configuration)


DELL = systeminfo("DESKTOP-62FF1GB", "Windows 10 Pro", 19045, WORKSTATION)
CLIENT = systeminfo("CLIENTWK220", "Windows 11 Pro", 22621, WORKSTATION)
ALIENWARE = systeminfo("ANDURIL", "Windows 11 Home", 22631, WORKSTATION)
EC2 = systeminfo("EC2AMAZ-9JRLFG5", "Windows Server 2019 Datacenter", 17763, SERVER)
WEB = systeminfo("WEB02", "Windows Server 2022 Standard", 20348, MEMBER)

KERNELS = {
    "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com) (gcc version 5.4.0 (GCC) ) #1237-Microsoft Sat Sep "
    "11 14:32:00 PST 2021": "WSL1",
    "Linux version 4.19.104-microsoft-standard (oe-user@oe-host) (gcc version 8.2.0 (GCC)) #1 SMP Wed Feb 19 06:37:35 "
    "UTC 2020": "WSL2",
    "Linux version 5.15.90.1-microsoft-standard-WSL2 (oe-user@oe-host) (x86_64-msft-linux-gcc (GCC) 9.3.0, GNU ld (GNU "
    "Binutils) 2.34.0.20200220) #1 SMP Fri Jan 27 02:56:13 UTC 2023": "WSL2",
    "Linux version 6.6.87.2-microsoft-standard-WSL2 (root@439a258ad544) (gcc (GCC) 11.2.0, GNU ld (GNU Binutils) 2.37) "
    "#1 SMP PREEMPT_DYNAMIC Thu Jun  5 18:30:46 UTC 2025": "WSL2",
    "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0)": "",
    "": "",
}

# nvidia-smi -q: a GTX 1650 Ti seen from WSL2, and an H200 under Linux.
IN_WSL2 = """
Driver Version                            : 510.06
CUDA Version                              : 11.6

Attached GPUs                             : 1
GPU 00000000:01:00.0
    Product Name                          : NVIDIA GeForce GTX 1650 Ti with Max-Q Design
    Accounting Mode                       : Disabled
    Accounting Mode Buffer Size           : 4000
    Driver Model
        Current                           : WDDM
        Pending                           : WDDM
    Serial Number                         : N/A
"""
UNDER_LINUX = """
Attached GPUs                             : 1
GPU 00000000:03:00.0
    Product Name                          : NVIDIA H200
    Driver Model
        Current                           : N/A
        Pending                           : N/A
"""
BLOCKED = (
    "Failed to initialize NVML: GPU access blocked by the operating system\n"
    "Failed to properly shut down NVML: GPU access blocked by the operating system\n"
)
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\nFailed to properly shut down NVML: Driver Not Loaded\n"
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126\n"

# /proc/mounts of WSL2, and a drive of WSL1.
MOUNTS = r"""
/dev/sdd / ext4 rw,relatime,discard,errors=remount-ro,data=ordered 0 0
none /mnt/wsl tmpfs rw,relatime 0 0
drivers /usr/lib/wsl/drivers 9p ro,dirsync,nosuid,nodev,noatime,aname=drivers;fmask=222;dmask=222 0 0
C:\134 /mnt/c 9p rw,noatime,dirsync,aname=drvfs;path=C:\;uid=1000;gid=1000;symlinkroot=/mnt/,access=client 0 0
D:\134 /mnt/my\040data 9p rw,noatime,dirsync,aname=drvfs;path=D:\;uid=1000;gid=1000,access=client,trans=fd 0 0
/dev/sde /mnt/c/linux ext4 rw 0 0
E: /mnt/e drvfs rw,relatime 0 0
"""


@pytest.mark.parametrize(
    ("text", "edition"),
    [(DELL, "Professional"), (CLIENT, "Professional"), (ALIENWARE, "Core"), (EC2, "ServerDatacenter"),
     (WEB, "ServerStandard")],
)  # fmt: skip
def test_windows_is_called_as_it_calls_itself(text, edition):
    name = re.search(r"OS Name: +Microsoft (.+)", text)[1]
    version = re.search(r"OS Version: +(\S+)", text)[1]
    first, *rest = platforms.windows_words(version, edition).split(", ")
    assert name.startswith(f"{first} ")
    assert rest == [version, edition]


def test_an_unknown_windows_keeps_its_number():
    assert platforms.windows_words("6.1.7601", "Professional") == "Windows, 6.1.7601, Professional"
    assert platforms.windows_words("10.0.26200") == "Windows 11, 10.0.26200"
    assert platforms.windows_words("10.0.9999", "ServerStandard").startswith("Windows, ")


@pytest.mark.parametrize("text", KERNELS)
def test_wsl_is_known_by_its_kernel(text):
    assert platforms.wsl_version(text) == KERNELS[text]


@pytest.mark.parametrize(
    ("path", "is_slow"),
    [("/home/me/.cache/trainyard", False), ("/mnt/c/cache", True), ("/mnt/c", True), ("/mnt/cache", False),
     ("/mnt/my data/x", True), ("/mnt/c/linux/cache", False), ("/mnt/e/x", True), ("/usr/lib/wsl/drivers/x", False)],
)  # fmt: skip
def test_drives_of_windows_are_known(path, is_slow):
    assert platforms.on_windows_drive(path, MOUNTS) is is_slow


@pytest.mark.parametrize(("text", "model"), [(IN_WSL2, "WDDM"), (UNDER_LINUX, "")])
def test_driver_model_of_nvidia_smi(text, model):
    assert platforms.driver_model_word(re.search(r"Driver Model\s+Current +: (\S+)", text)[1]) == model


@pytest.mark.parametrize(
    ("answer", "model"),
    [((0, 0), "WDDM"), ((1, 0), "TCC"), (2, "MCDM"), ((7, 7), ""), (fake_nvml.NVMLError("Not Supported"), "")],
)
def test_driver_model_of_nvml(answer, model):
    assert platforms.driver_model(fake_nvml.data_centre("GPU-1", model=answer), "handle") == model
    assert (
        platforms.driver_model(SimpleNamespace(NVMLError=fake_nvml.NVMLError), "handle") == ""
    )  # a release that does not know the question


def nvml_error(code):
    """As nvidia-ml-py words it."""
    return f"NVML ({pynvml.NVMLError(code)})"


@pytest.mark.parametrize(
    ("said", "wsl", "remedy"),
    [
        (BLOCKED, "WSL2", "wsl --shutdown"),
        (nvml_error(pynvml.NVML_ERROR_OPERATING_SYSTEM), "WSL2", "leave TCC mode"),
        (NO_DRIVER, "WSL2", "install no driver in it"),
        (nvml_error(pynvml.NVML_ERROR_DRIVER_NOT_LOADED), "WSL2", "driver for Windows"),
        (NO_DRIVER, "WSL1", "WSL1 has no GPU"),
        (NO_DRIVER, "", "install or load NVIDIA's driver"),
        (nvml_error(pynvml.NVML_ERROR_DRIVER_NOT_LOADED), "", "install or load NVIDIA's driver"),
        (MISMATCH, "", "restart the machine"),
        (nvml_error(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH), "", "restart the machine"),
        (nvml_error(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND), "", ""),
        (BLOCKED, "", ""),
    ],
)
def test_what_to_do_about_a_gpu_that_is_not_usable(said, wsl, remedy):
    found = platforms.gpu_remedy([said], wsl)
    assert remedy in found and bool(remedy) == bool(found)
