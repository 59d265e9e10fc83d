"""What is checked before anything is built: drivers, architectures, the engine; and who gets containers."""

import platform
import sys
import types

import pytest

from controller import doctor, hosts, preflight
from controller.catalog.runners import Locks
from controller.cli.main import run
from controller.errors import HostError, UsageError
from controller.hosts import Gpu, GpuSearch
from controller.preflight import FAILED, OK, WARNING
from controller.runtimes import choice
from controller.runtimes import engine as engines
from controller.runtimes.choice import Wish
from tests.unit.controller.fake_engine import engine
from tests.unit.controller.image_files import house_of_images  # noqa: F401

A100 = Gpu(0, "GPU-a", "NVIDIA A100-SXM4-40GB", "00000000:07:00.0", 40 * 2**30, "470.82.01", "8.0")
V100 = Gpu(0, "GPU-v", "Tesla V100-SXM2-16GB", "00000000:00:1E.0", 16 * 2**30, "418.87.00", "7.0")
OLD_TORCH = ("sm_37", "sm_50", "sm_60", "sm_70")
TENSORFLOW = ("sm_35", "sm_50", "sm_60", "sm_70", "sm_75", "compute_80")


@pytest.mark.parametrize(
    ("built", "capability", "fit"),
    [
        (OLD_TORCH, "7.0", "code"),
        (OLD_TORCH, "7.5", "code"),
        (OLD_TORCH, "8.0", ""),
        (OLD_TORCH, "3.5", ""),
        (TENSORFLOW, "8.0", "ptx"),
        (TENSORFLOW, "9.0", "ptx"),
        (("sm_80", "sm_86"), "8.9", "code"),
        (("sm_86",), "8.0", ""),
        (("sm_90a",), "9.0", "code"),
        (("sm_90a",), "10.0", ""),
        (("sm_100", "sm_120"), "12.0", "code"),
    ],
)
def test_code_fits_its_own_major_architecture_and_ptx_all_newer_ones(built, capability, fit):
    assert preflight.fit(built, capability) == fit


def _gpu_states(house, gpu, **changed):
    spec = house.spec(prepare=None, **changed)
    return {check.state: check.line() for check in preflight.gpu_checks(spec, gpu)}


def test_a_build_that_does_not_know_the_gpu_is_refused(house_of_images):  # noqa: F811
    found = _gpu_states(house_of_images, A100, cuda="10.2", gpu_architectures=OLD_TORCH)
    assert "built for sm_37, sm_50, sm_60, sm_70, not for NVIDIA A100-SXM4-40GB (sm_80)" in found[FAILED]


def test_ptx_is_a_warning(house_of_images):  # noqa: F811
    found = _gpu_states(house_of_images, A100, cuda="11.2", gpu_architectures=TENSORFLOW)
    assert "compiles for minutes" in found[WARNING]


def test_a_driver_that_is_too_old_is_refused(house_of_images):  # noqa: F811
    found = _gpu_states(house_of_images, V100, cuda="10.2", gpu_architectures=OLD_TORCH)
    assert "needs driver 440.33 or newer; this is 418.87.00; install a newer NVIDIA driver" in found[FAILED]
    assert preflight.minimum_driver("11.8") == preflight.minimum_driver("11.2") == 450.80
    assert preflight.minimum_driver("") is None


def test_a_runner_without_a_gpu_build_says_so(house_of_images):  # noqa: F811
    found = _gpu_states(house_of_images, A100, locks=Locks(cpu="locks/1.txt"))
    assert "has no build for GPUs" in found[WARNING]


@pytest.mark.parametrize(
    ("info", "device", "text"),
    [
        ({"OSType": "windows"}, "cpu", "runs windows containers"),
        ({"MemTotal": 10**9}, "cpu", "the engine has 1.0 GB of memory"),
        ({"Name": platform.node()}, "gpu", "the Docker engine has no NVIDIA runtime"),
    ],
)
def test_an_engine_that_is_not_fit_is_one_line_with_a_remedy(info, device, text, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(engines, "_SYSTEM_PATH", str(tmp_path))
    with pytest.raises(HostError, match=text) as caught:
        preflight.require(engine(**info), device)
    assert caught.value.hint


def test_a_full_disk_is_told_before_anything_is_built(tmp_path, monkeypatch):
    own = engine(Name=platform.node(), DockerRootDir=str(tmp_path))
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda _: types.SimpleNamespace(free=10**9))
    with pytest.raises(HostError, match="has 1 GB free; an image needs up to 4 GB"):
        raise HostError(_line(own))


def _line(own):
    with pytest.raises(HostError) as caught:
        preflight.require(own, "cpu")
    return caught.value.line()


# --- a fake NVML ---------------------------------------------------------------------------------------------


class FakeNvml(types.ModuleType):
    """The calls that are made of nvidia-ml-py, for one A100."""

    class NVMLError(Exception):
        pass

    def __init__(self):
        super().__init__("pynvml")

    def __getattr__(self, name):
        answers = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetUUID": b"GPU-a",
            "nvmlDeviceGetName": b"NVIDIA A100-SXM4-40GB",
            "nvmlDeviceGetPciInfo": types.SimpleNamespace(busId=b"00000000:07:00.0"),
            "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(total=40 * 2**30),
            "nvmlSystemGetDriverVersion": b"470.82.01",
            "nvmlDeviceGetCudaComputeCapability": (8, 0),
        }
        if name not in answers:
            raise AttributeError(name)
        return lambda *_: answers[name]


@pytest.fixture
def nvml(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    hosts.find_gpus.cache_clear()
    yield
    hosts.find_gpus.cache_clear()


def test_nvml_tells_the_capability(nvml):
    assert hosts.gpu(0) == A100


@pytest.fixture
def no_engine(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")


def test_doctor_knows_what_is_missing(no_engine, nvml):
    found = {(check.subject, check.state): check.line() for check in doctor.checks()}
    assert "no Docker engine" in found["Docker engine", WARNING]
    assert "driver 470.82.01, compute capability 8.0" in found["GPU", OK]


def test_doctor_is_content_with_a_machine_that_has_neither(no_engine, monkeypatch, capsys):
    monkeypatch.setattr(hosts, "find_gpus", lambda: GpuSearch((), ("NVML (not there)",)))
    assert run(["doctor"]) == 0
    assert "use --device cpu" in capsys.readouterr().out


def test_a_gpu_without_the_nvidia_runtime_is_one_line(nvml, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(engines, "_SYSTEM_PATH", str(tmp_path))
    monkeypatch.setattr(engines, "find", lambda context="": engine(Name=platform.node()))
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    assert run(["compare", "--gpu", "0", "--runner", "reference"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: the Docker engine has no NVIDIA runtime")
    assert error.count("\n") == 1


# --- who gets containers -------------------------------------------------------------------------------------


@pytest.fixture
def answering(monkeypatch):
    """An engine of another machine answers; the images that it has are put into the list."""
    images = {}
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setattr(engines, "find", lambda context="": engine(images))
    monkeypatch.setattr(engines, "connect", lambda context="": engine(images))
    return images


def test_without_an_engine_auto_is_environments(no_engine, house_of_images):  # noqa: F811
    assert choice.containers(Wish(), [house_of_images.spec()]) is None
    with pytest.raises(HostError, match="no Docker engine"):
        choice.containers(Wish(runtime="docker"), [house_of_images.spec()])


def test_auto_takes_containers_once_all_images_are_there(answering, house_of_images):  # noqa: F811
    specs = [house_of_images.spec(), house_of_images.spec(name="lab-2")]
    answering["trainyard/lab-1:cpu"] = {"Id": "sha256:1"}
    assert choice.containers(Wish(), specs) is None
    answering["trainyard/lab-2:cpu"] = {"Id": "sha256:2"}
    assert choice.containers(Wish(), specs) is not None
    assert choice.containers(Wish(runtime="venv"), specs) is None
    assert choice.containers(Wish(runtime="docker"), [house_of_images.spec(name="lab-3")]) is not None


def test_auto_takes_containers_for_a_gpu(answering, house_of_images):  # noqa: F811
    assert choice.containers(Wish(device="gpu", gpu=A100), [house_of_images.spec()]) is not None


def test_what_only_containers_have_is_not_passed_over(no_engine, house_of_images):  # noqa: F811
    for wish in (Wish(limits={"memory": "1g"}), Wish(runtime="venv", host="docker:lab")):
        with pytest.raises(UsageError, match="needs containers"):
            choice.containers(wish, [house_of_images.spec()])
    with pytest.raises(UsageError, match="is no host"):
        choice.containers(Wish(host="lab"), [])


def test_a_build_unfit_for_the_gpu_is_a_row_that_says_why(answering, house_of_images):  # noqa: F811
    spec = house_of_images.spec(cuda="10.2", gpu_architectures=OLD_TORCH, prepare=None)
    runtime = choice.containers(Wish(device="gpu", gpu=A100), [spec])
    answer = runtime.availability(spec, "gpu")
    assert not answer.ok
    assert "not for NVIDIA A100" in answer.reason
