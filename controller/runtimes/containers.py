"""One trial's container as arguments for the engine, and what its process must find when it looks around inside."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.images.recipes import ENVIRONMENT, LABEL, USER, ImagePlan
from controller.runtimes.base import StartOptions, library_variables
from controller.runtimes.limits import Limits, ranges

ROLE_LABEL = LABEL + "role"
OWNER_LABEL = LABEL + "owner"
CAMPAIGN_LABEL = LABEL + "campaign"
TRIAL_LABEL = LABEL + "trial"
RUNNER_LABEL = LABEL + "runner"
FOLDER_LABEL = LABEL + "folder"
TRIAL_ROLE = "trial"

BLOBS = "/opt/trainyard/blobs"
RUN = "/opt/trainyard/run"
INNER_SOCKET = "/tmp/runner.sock"  # noqa: S108 - of the container, which has it to itself
# The kernel counts memory in pages, of a limit whole ones alone, of shared memory also the last one begun; and an
# engine gives processors as whole microseconds of a period.
_PAGE, _PERIOD = 4096, 100_000
_NO_GPU = {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the container finds its data and leaves its socket. ``folder``: a folder of this machine for the socket,
    None where none can be shared; ``blobs``: such a folder, or the name of a volume of the engine."""

    blobs: Path | str
    folder: Path | None = None

    @property
    def listen(self) -> str:
        return f"unix://{RUN}/runner.sock" if self.folder else f"unix://{INNER_SOCKET}"

    def mounts(self, blobs_read_only: bool = True) -> list[Any]:
        from docker.types import Mount

        kind = "bind" if isinstance(self.blobs, Path) else "volume"
        found = [Mount(BLOBS, str(self.blobs), type=kind, read_only=blobs_read_only)]
        if self.folder:
            found.append(Mount(RUN, str(self.folder), type="bind"))
        return found


@dataclass(frozen=True, slots=True)
class Request:
    """One container. ``image`` is an id, so that nobody can exchange what is behind a name."""

    plan: ImagePlan
    image: str
    place: Place
    limits: Limits
    options: StartOptions
    owner: str
    labels: Mapping[str, str] = field(default_factory=dict)
    blobs_read_only: bool = True


def arguments(request: Request) -> dict[str, Any]:
    """For ``client.containers.create``: all that protects the machine from what runs inside, and equal limits."""
    limits, place = request.limits, request.place
    found: dict[str, Any] = {
        "image": request.image,
        "command": ["--listen", place.listen, *_address_file(place), "--blobs", BLOBS],
        "environment": _environment(request.options),
        "hostname": "runner",
        "labels": _labels(request),
        "mounts": [*place.mounts(request.blobs_read_only), *_writable(request.plan)],
        # Without an init process Python is number 1, which ignores SIGTERM and hides how its children ended.
        "init": True,
        "network_mode": "none",
        "user": USER,
        "read_only": True,
        # Frameworks compile kernels into temporary files and load them: these may be executed.
        "tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={limits.tmp}"},  # noqa: S108
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "ipc_mode": "private",
        "shm_size": limits.shm,
        "log_config": _log_config(),
    }
    found.update(_limit_arguments(limits))
    if request.options.gpu_uuid:
        found["device_requests"] = [_device_request(request.options.gpu_uuid)]
    return found


def _address_file(place: Place) -> list[str]:
    return ["--address-file", f"{RUN}/address"] if place.folder else []


def _limit_arguments(limits: Limits) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if limits.memory:
        # The same for memory and swap together means: no swap, which would be slow and not be noticed.
        found |= {"mem_limit": limits.memory, "memswap_limit": limits.memory}
    if limits.cpus:
        found["nano_cpus"] = _nano_cpus(limits.cpus)
    if limits.cpuset:
        found["cpuset_cpus"] = limits.cpuset
    if limits.pids:
        found["pids_limit"] = limits.pids
    return found


def _environment(options: StartOptions) -> dict[str, str]:
    gpu = {"CUDA_VISIBLE_DEVICES": options.gpu_uuid} if options.gpu_uuid else _NO_GPU
    return library_variables(options.threads) | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} | gpu


def _labels(request: Request) -> dict[str, str]:
    found = {
        ROLE_LABEL: TRIAL_ROLE,
        OWNER_LABEL: request.owner,
        RUNNER_LABEL: request.plan.spec.name,
        CAMPAIGN_LABEL: request.options.campaign,
        TRIAL_LABEL: request.options.trial,
        **request.labels,
    }
    return {name: value for name, value in found.items() if value}


def _writable(plan: ImagePlan) -> list[Any]:
    """Folders that the runner writes: each a fresh copy of what the image has there, gone with the container."""
    from docker.types import Mount

    return [Mount(name.replace("{environment}", ENVIRONMENT), None, type="volume") for name in plan.spec.writable]


def _device_request(uuid: str) -> Any:
    from docker.types import DeviceRequest

    return DeviceRequest(device_ids=[uuid], capabilities=[["gpu", "compute", "utility"]])


def _log_config() -> Any:
    from docker.types import LogConfig

    # Whatever the engine's default is, this one can be read back; a runner that prints without end fills no disk.
    return LogConfig(type=LogConfig.types.JSON, config={"max-size": "10m", "max-file": "2"})


# --- read back -------------------------------------------------------------------------------------------------


def expected_facts(limits: Limits) -> dict[str, str]:
    """What ``Describe`` must tell of a container made with ``arguments``; names as in runners/core/confinement.py."""
    found = {
        "uid": USER.partition(":")[0],
        "capabilities": "0" * 16,
        "capabilities_bounding": "0" * 16,
        "no_new_privileges": "1",
        "root_read_only": "1",
        "network": "",
        "shm_bytes": str(-(-limits.shm // _PAGE) * _PAGE),
    }
    if limits.memory:
        found["memory_limit_bytes"] = str(limits.memory // _PAGE * _PAGE)
    if limits.cpus:
        found["cpu_quota"] = f"{_nano_cpus(limits.cpus) // (10**9 // _PERIOD) / _PERIOD:g}"
    if limits.cpuset:
        found["cpuset"] = ranges(_numbers(limits.cpuset))
    if limits.pids:
        found["pids_limit"] = str(limits.pids)
    return found


def unmet(expected: Mapping[str, str], facts: Mapping[str, str]) -> str:
    """What was asked for and is not so inside, in words; empty when all is."""
    wrong = [
        f"{name} is {facts.get(name, 'not known') or 'none'}, not {value or 'none'}"
        for name, value in expected.items()
        if facts.get(name) != value
    ]
    return "; ".join(wrong)


def _numbers(cpuset: str) -> list[int]:
    found: set[int] = set()
    for part in cpuset.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return sorted(found)


def _nano_cpus(cpus: float) -> int:
    """Rounded: 2.03 is a little less than that in binary, and would lose a unit of the quota."""
    return round(cpus * 1e9)
