"""Facts of hosts that are not here, from what their systems print, and the search for a GPU on this one."""

import subprocess
import types
from pathlib import Path

import pytest

from controller import hosts
from controller.errors import HostError

WSL2 = "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@941d701f84f1) (gcc (GCC) 11.2.0) #1 SMP Fri Mar 29 2024"
DEBIAN = "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0)"
XEON = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)  CPU @ 2.00GHz\nstepping\t: 3\n"
RASPBERRY = "processor\t: 0\nBogoMIPS\t: 108.00\n\nHardware\t: BCM2835\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n"
ARM = "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"
TWO_GPUS = (
    "0, GPU-0f8c7e1b-5a3d-4d1e-9a53-1d2c3b4a5f60, NVIDIA GeForce GTX 1070 Ti, 00000000:01:00.0, 8192, 471.41, WDDM\n"
    "1, GPU-aa8c7e1b-5a3d-4d1e-9a53-1d2c3b4a5f61, NVIDIA GeForce RTX 3090, 00000000:02:00.0, [N/A], 471.41, [N/A]\n"
)
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n"
)
CGROUP_1 = "4:memory:/docker/abc\n3:cpuset:/docker/abc\n1:cpu,cpuacct:/docker/abc/inner\n0::/unified\n"
CGROUP_2 = "0::/user.slice/user-1000.slice/session-2.scope\n"


@pytest.mark.parametrize(
    ("text", "model"),
    [(XEON, "Intel(R) Xeon(R) CPU @ 2.00GHz"), (RASPBERRY, "Raspberry Pi 4 Model B Rev 1.4"), (ARM, ""), ("", "")],
)
def test_cpu_model(text, model):
    assert hosts.parse_cpu_model(text) == model


@pytest.mark.parametrize(
    ("text", "cores"),
    [("200000 100000\n", 2.0), ("150000 100000", 1.5), ("max 100000", None), ("-1\n 100000\n", None), ("", None),
     ("1000 0", None)],
)  # fmt: skip
def test_cpu_quota(text, cores):
    assert hosts.parse_cpu_max(text) == cores


@pytest.mark.parametrize(
    ("text", "limit"), [("536870912\n", 2**29), ("max\n", None), ("9223372036854771712\n", None), ("", None)]
)
def test_memory_limit(text, limit):
    assert hosts.parse_memory_max(text) == limit


@pytest.mark.parametrize(
    ("text", "controller", "path"),
    [
        (CGROUP_1, "cpu", "/docker/abc/inner"),
        (CGROUP_1, "memory", "/docker/abc"),
        (CGROUP_1, "pids", "/unified"),
        (CGROUP_2, "cpu", "/user.slice/user-1000.slice/session-2.scope"),
        ("", "cpu", None),
    ],
)
def test_control_group(text, controller, path):
    assert hosts.parse_cgroup(text, controller) == path


@pytest.fixture
def control_groups(tmp_path, monkeypatch):
    """A tree of version 2: the outer group allows 1.5 cores, the inner one three."""
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "outer" / "cpu.max").write_text("150000 100000\n")
    (inner / "cpu.max").write_text("300000 100000\n")
    (inner / "memory.max").write_text("1048576\n")
    monkeypatch.setattr(hosts, "_CGROUPS", tmp_path)
    real = hosts._read
    monkeypatch.setattr(hosts, "_read", lambda path: "0::/outer/inner\n" if "self/cgroup" in str(path) else real(path))


def test_the_tightest_limit_of_all_groups_above_counts(control_groups, monkeypatch):
    monkeypatch.setattr(hosts.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert hosts.cpu_quota() == 1.5
    assert hosts.usable_cpus() == 1
    assert hosts.usable_memory() == 1048576


def test_without_a_quota_the_affinity_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "_CGROUPS", tmp_path)
    monkeypatch.setattr(hosts.os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    assert hosts.usable_cpus() == 3


def test_this_machine():
    found = hosts.machine()
    assert found.cpu and found.system
    assert found.cpu_count >= 1
    assert found.memory_bytes > 2**20


# --- GPUs --------------------------------------------------------------------------------------------------


def test_nvidia_smi_answers():
    first, second = hosts.parse_nvidia_smi(TWO_GPUS)
    assert first == hosts.Gpu(
        0,
        "GPU-0f8c7e1b-5a3d-4d1e-9a53-1d2c3b4a5f60",
        "NVIDIA GeForce GTX 1070 Ti",
        "00000000:01:00.0",
        8 * 2**30,
        "471.41",
        driver_model="WDDM",
    )
    assert (second.index, second.memory_bytes, second.driver_model) == (1, 0, "")
    assert hosts.parse_nvidia_smi(NO_DRIVER) == ()
    assert hosts.parse_nvidia_smi("No devices were found\n") == ()


@pytest.fixture
def machine(monkeypatch):
    """A machine without anything, to which a test gives NVML or nvidia-smi."""
    state = types.SimpleNamespace(nvml=None, smi=None, kernel=DEBIAN)

    def find_module(name):
        if name == "pynvml" and state.nvml is not None:
            return state.nvml
        raise ImportError(name)

    def run(command, **options):
        return subprocess.CompletedProcess(command, *state.smi)

    monkeypatch.setattr(hosts, "importlib", types.SimpleNamespace(import_module=find_module))
    monkeypatch.setattr(hosts.shutil, "which", lambda name: None if state.smi is None else "/usr/bin/" + name)
    monkeypatch.setattr(hosts.subprocess, "run", run)
    monkeypatch.setattr(hosts, "_library", lambda: "libnvidia-ml.so.1 is not there")
    monkeypatch.setattr(hosts, "_read", lambda path: state.kernel)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(()))
    hosts.find_gpus.cache_clear()
    yield state
    hosts.find_gpus.cache_clear()


def nvml(count, error=None, encode=False):
    """A stand-in for nvidia-ml-py; older releases give bytes."""

    class NVMLError(Exception):
        pass

    def initialise():
        if error:
            raise NVMLError(error)

    def word(text):
        return text.encode() if encode else text

    return types.SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=initialise,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda handle: word(f"GPU-{handle}"),
        nvmlDeviceGetName=lambda handle: word("NVIDIA H200"),
        nvmlDeviceGetPciInfo=lambda handle: types.SimpleNamespace(busId=word("00000000:01:00.0")),
        nvmlDeviceGetMemoryInfo=lambda handle: types.SimpleNamespace(total=2**37),
        nvmlSystemGetDriverVersion=lambda: word("570.0"),
    )


def test_no_gpu_says_what_was_looked_for_and_how_to_go_on(machine):
    with pytest.raises(HostError) as caught:
        hosts.gpu(0)
    assert caught.value.line() == (
        "no GPU on this machine: looked for NVML (nvidia-ml-py is not installed, libnvidia-ml.so.1 is not there); "
        "nvidia-smi (not on PATH); /dev/nvidia* (none); use --device cpu"
    )


def test_under_wsl_its_own_device_is_named_too(machine):
    machine.kernel = WSL2
    with pytest.raises(HostError, match=r"/dev/dxg \(not there\)"):
        hosts.gpu(0)


def test_a_driver_that_does_not_answer_is_quoted(machine):
    machine.nvml, machine.smi = nvml(0, error="Driver Not Loaded"), (9, NO_DRIVER, "")
    with pytest.raises(HostError) as caught:
        hosts.gpu(0)
    assert caught.value.hint == "install or load NVIDIA's driver; or use --device cpu"
    assert "NVML (Driver Not Loaded)" in caught.value.message
    assert "nvidia-smi (exit code 9: NVIDIA-SMI has failed because" in caught.value.message


@pytest.mark.parametrize("encode", [False, True])
def test_nvml_is_asked_first(machine, encode):
    machine.nvml, machine.smi = nvml(2, encode=encode), (0, TWO_GPUS, "")
    assert hosts.gpu(1) == hosts.Gpu(1, "GPU-1", "NVIDIA H200", "00000000:01:00.0", 2**37, "570.0")


def test_how_windows_drives_the_gpu_is_told(machine):
    machine.nvml = nvml(1)
    machine.nvml.nvmlDeviceGetDriverModel = lambda handle: [1, 0]
    assert (hosts.gpu(0).driver_model, hosts.facts()["driver_model"]) == ("TCC", "TCC")


def test_nvidia_smi_is_enough(machine):
    machine.smi = (0, TWO_GPUS, "")
    assert hosts.gpu(1).name == "NVIDIA GeForce RTX 3090"
    assert hosts.find_gpus().gpus[0].text() == (
        "gpu:0 NVIDIA GeForce GTX 1070 Ti GPU-0f8c7e1b-5a3d-4d1e-9a53-1d2c3b4a5f60"
    )


def test_a_number_that_does_not_exist_lists_those_that_do(machine):
    machine.smi = (0, TWO_GPUS, "")
    with pytest.raises(HostError) as caught:
        hosts.gpu(2)
    assert caught.value.line() == (
        "there is no GPU 2 on this machine: found 0 (NVIDIA GeForce GTX 1070 Ti), 1 (NVIDIA GeForce RTX 3090); "
        "use --gpu with one of these numbers"
    )


def test_a_cache_on_a_drive_of_windows_is_told(monkeypatch):
    texts = {"/proc/version": WSL2, "/proc/mounts": "C:\\134 /mnt/c 9p rw,noatime,aname=drvfs;path=C:\\;uid=1000 0 0\n"}
    monkeypatch.setattr(hosts, "_read", lambda path: texts.get(path, ""))
    monkeypatch.setenv("TRAINYARD_CACHE", "/mnt/c/cache")
    assert "is on a drive of Windows" in hosts.slow_cache() and hosts.SLOW_CACHE in hosts.facts()
    monkeypatch.setenv("TRAINYARD_CACHE", "/home/me/cache")
    assert hosts.slow_cache() == "" and hosts.SLOW_CACHE not in hosts.facts()
    texts["/proc/version"] = DEBIAN
    monkeypatch.setenv("TRAINYARD_CACHE", "/mnt/c/cache")
    assert hosts.slow_cache() == ""
