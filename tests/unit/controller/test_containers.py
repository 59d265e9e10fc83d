"""What a container is asked for, and what is read back from inside."""

import pytest

from controller.errors import HostError, UsageError
from controller.images import recipes
from controller.runtimes import containers, limits
from controller.runtimes.base import StartOptions
from controller.runtimes.containers import Place, Request
from controller.runtimes.docker import death
from controller.runtimes.limits import Limits
from tests.unit.controller.fake_engine import engine
from tests.unit.controller.image_files import house_of_images  # noqa: F401


def _arguments(house, tmp_path, gpu="", where=True, **changed):
    spec = house.spec(writable=("{environment}/cache",), **changed)
    options = StartOptions(3, tmp_path, tmp_path / "log", gpu, campaign="c1", trial="t1")
    place = Place(tmp_path, tmp_path / "run") if where else Place("volume")
    kept = Limits(cpus=1.5, cpuset="0-1", memory=2**30, shm=2**28)
    request = Request(recipes.plan(spec, "cpu", house.staged), "sha256:abc", place, kept, options, "me/1/2")
    return containers.arguments(request)


def test_every_container_is_confined(house_of_images, tmp_path):  # noqa: F811
    found = _arguments(house_of_images, tmp_path)
    assert found["network_mode"] == "none"
    assert found["read_only"] is True
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges"]
    assert found["init"] is True
    assert found["user"] == "10001:10001"
    assert (found["mem_limit"], found["memswap_limit"]) == (2**30, 2**30)
    assert (found["nano_cpus"], found["cpuset_cpus"], found["shm_size"]) == (1_500_000_000, "0-1", 2**28)
    assert found["pids_limit"] == 4096
    assert "privileged" not in found
    assert "device_requests" not in found


def test_data_is_mounted_read_only_and_only_declared_folders_are_writable(house_of_images, tmp_path):  # noqa: F811
    data, run, cache = _arguments(house_of_images, tmp_path)["mounts"]
    assert (data["Type"], data["Source"], data["ReadOnly"]) == ("bind", str(tmp_path), True)
    assert (run["Type"], run["Target"]) == ("bind", containers.RUN)
    assert (cache["Type"], cache["Target"], cache["Source"]) == ("volume", "/opt/environment/cache", None)


def test_an_engine_elsewhere_gets_a_volume_and_no_folder(house_of_images, tmp_path):  # noqa: F811
    found = _arguments(house_of_images, tmp_path, where=False)
    assert (found["mounts"][0]["Type"], found["mounts"][0]["Source"]) == ("volume", "volume")
    assert found["command"][:2] == ["--listen", f"unix://{containers.INNER_SOCKET}"]
    assert found["network_mode"] == "none"


def test_a_gpu_is_asked_for_by_its_uuid_and_hidden_otherwise(house_of_images, tmp_path):  # noqa: F811
    with_gpu = _arguments(house_of_images, tmp_path, gpu="GPU-1")
    assert with_gpu["device_requests"][0]["DeviceIDs"] == ["GPU-1"]
    assert with_gpu["environment"]["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    without = _arguments(house_of_images, tmp_path)["environment"]
    assert (without["CUDA_VISIBLE_DEVICES"], without["NVIDIA_VISIBLE_DEVICES"]) == ("", "void")
    for found in (with_gpu["environment"], without):
        assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert (found["OMP_NUM_THREADS"], found["OMP_WAIT_POLICY"]) == ("3", "passive")
        assert found["MALLOC_MMAP_THRESHOLD_"] == "33554432"


def test_labels_say_whose_a_container_is(house_of_images, tmp_path):  # noqa: F811
    labels = _arguments(house_of_images, tmp_path)["labels"]
    assert labels["org.trainyard.campaign"] == "c1"
    assert labels["org.trainyard.trial"] == "t1"
    assert labels["org.trainyard.owner"] == "me/1/2"


def test_what_is_not_so_inside_is_named():
    kept = Limits(cpus=2.0, cpuset="3,0-1", memory=2**30, shm=2**28, pids=100)
    expected = containers.expected_facts(kept)
    assert expected["cpuset"] == "0-1,3"
    assert containers.unmet(expected, expected | {"more": "x"}) == ""
    without_limit = {name: value for name, value in expected.items() if name != "memory_limit_bytes"}
    assert containers.unmet(expected, without_limit) == f"memory_limit_bytes is not known, not {2**30}"
    assert containers.unmet(expected, expected | {"network": "eth0"}) == "network is eth0, not none"
    assert "root_read_only is 0, not 1" in containers.unmet(expected, expected | {"root_read_only": "0"})


def test_limits_are_expected_as_the_kernel_counts_them():
    odd = containers.expected_facts(Limits(cpus=2.03, memory=5 * 2**20 + 1, shm=2_469_606_195))
    assert odd["memory_limit_bytes"] == str(5 * 2**20)
    assert odd["shm_bytes"] == "2469609472"  # as a tmpfs of that size says of itself
    assert odd["cpu_quota"] == "2.03"
    assert containers.expected_facts(Limits(cpus=1.2345678))["cpu_quota"] == "1.23456"


# --- limits ----------------------------------------------------------------------------------------------------


def test_limits_are_read_and_the_rest_is_what_the_engine_can_give():
    asked = limits.parse(["memory=1.5g", "cpus=2", "cpuset=0-3,6", "shm=512m"])
    found = limits.limits(engine(), asked)
    assert (found.memory, found.cpus, found.cpuset, found.shm) == (3 * 2**29, 2.0, "0-3,6", 2**29)
    default = limits.limits(engine(), {})
    assert 0.85 * 64e9 < default.memory < 64e9
    assert default.cpuset == ""  # another machine's processors are not ours


@pytest.mark.parametrize(
    "text", ["memory", "memory=", "memory=lots", "ram=1g", "cpus=0", "cpus=-1", "cpuset=a", "pids=1.5"]
)
def test_a_limit_that_is_none_is_refused(text):
    with pytest.raises(UsageError):
        limits.parse([text])


def test_an_engine_that_cannot_limit_is_told_only_when_asked():
    rootless = engine(MemoryLimit=False, CPUSet=False)
    assert limits.limits(rootless, {}).memory is None
    with pytest.raises(HostError, match="cannot limit memory"):
        limits.limits(rootless, {"memory": "1g"})


@pytest.mark.parametrize(("numbers", "text"), [([0, 1, 2], "0-2"), ([0, 2], "0,2"), ([5], "5"), ([], "")])
def test_processors_are_written_as_the_kernel_writes_them(numbers, text):
    assert limits.ranges(numbers) == text


# --- how it ended ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "reason", "text"),
    [
        ({"OOMKilled": True, "ExitCode": 137}, "OUT_OF_MEMORY", "over its memory limit"),
        ({"OOMKilled": False, "ExitCode": 137}, "PROCESS_DIED", "SIGKILL (9)"),
        ({"OOMKilled": False, "ExitCode": 139}, "PROCESS_DIED", "SIGSEGV (11)"),
        ({"OOMKilled": False, "ExitCode": 3}, "PROCESS_DIED", "exited with code 3"),
        (
            {"ExitCode": 128, "Error": 'could not select device driver "" with capabilities: [[gpu]]'},
            "CONTAINER_NOT_STARTED",
            "no NVIDIA runtime",
        ),
    ],
)
def test_a_container_that_died_says_why(state, reason, text):
    failure = death(state, "last words")
    assert failure.reason == reason
    assert text in failure.message
    assert failure.log_tail == "last words"
