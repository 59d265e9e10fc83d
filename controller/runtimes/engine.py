"""A container engine that answers: its client, what it tells of itself, and whether it shares our files."""

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.errors import HostError
from controller.runtimes import engine_address, ssh_tunnel
from controller.runtimes.engine_address import EngineAddress
from controller.runtimes.engine_errors import said, translated

# An engine that is asked for by name is waited for: one that commits a large layer answers late.
CONNECT_SECONDS, FIND_SECONDS = 30.0, 5.0
CALL_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Engine:
    """``client`` is a docker.DockerClient; ``info`` is what /info answered."""

    address: EngineAddress
    client: Any
    info: dict[str, Any]

    @property
    def version(self) -> str:
        return str(self.info.get("ServerVersion", "unknown"))

    @property
    def is_local(self) -> bool:
        """Whether a folder of this machine, with a Unix socket in it, can be mounted into a container: a Linux engine
        of this very machine, not one in a virtual machine (Docker Desktop) and not one that is merely reached here."""
        if self.address.scheme != "unix" or self.info.get("OperatingSystem") == "Docker Desktop":
            return False
        return str(self.info.get("Name")) == platform.node() and self.info.get("OSType", "linux") == "linux"

    @property
    def cpu_count(self) -> int:
        return int(self.info.get("NCPU") or 1)

    @property
    def memory_bytes(self) -> int:
        return int(self.info.get("MemTotal") or 0)

    @property
    def data_folder(self) -> Path | None:
        """Where its images lie, when that is a folder of this machine."""
        folder = str(self.info.get("DockerRootDir") or "")
        return Path(folder) if self.is_local and folder and Path(folder).is_dir() else None

    def has_nvidia_runtime(self) -> bool | None:
        """None where only trying would tell: engines list a registered runtime, but not a hook on their PATH."""
        import shutil

        if "nvidia" in (self.info.get("Runtimes") or {}):
            return True
        if any(str(device.get("ID", "")).startswith("nvidia.com/gpu") for device in self._discovered()):
            return True
        if not self.is_local:
            return None
        hooks = ("nvidia-container-runtime-hook", "nvidia-container-toolkit")
        return any(shutil.which(hook, path=_SYSTEM_PATH) or shutil.which(hook) for hook in hooks)

    def _discovered(self) -> list[dict[str, Any]]:
        return [device for device in self.info.get("DiscoveredDevices") or () if isinstance(device, dict)]

    def text(self) -> str:
        """For people."""
        where = "" if self.is_local else f" on {self.info.get('Name', 'another machine')}"
        return f"Docker {self.version}{where} at {self.address.text()}"


# A daemon's PATH, which a user's need not hold.
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def connect(context: str = "") -> Engine:
    """The engine of the context, or the one that Docker's own command line would use. Raises HostError in one line
    that says how to go on, UsageError for an unknown context."""
    address = engine_address.find(context)
    if not address.may_answer():
        raise HostError(
            f"no Docker engine: {address.socket} does not exist", "install and start Docker, or use --runtime venv"
        )
    return _connect(address, CONNECT_SECONDS)


def find(context: str = "") -> Engine | None:
    """As ``connect``, but None when there is none: at once where no socket exists, else within FIND_SECONDS."""
    address = engine_address.find(context)
    if not address.may_answer():
        return None
    try:
        return _connect(address, FIND_SECONDS)
    except HostError:
        return None


def client(address: EngineAddress, seconds: float = CALL_SECONDS) -> Any:
    """A new client; a thread that may be abandoned in a call has one of its own."""
    import docker

    url = ssh_tunnel.target(address.url) if address.scheme == "ssh" else address.url
    return docker.DockerClient(base_url=url, version="auto", timeout=seconds, tls=_tls(address))


def _connect(address: EngineAddress, seconds: float) -> Engine:
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        found = client(address, seconds)
        info = found.info()
        found.api.timeout = CALL_SECONDS
    except (DockerException, RequestException, OSError) as error:
        if address.scheme == "ssh":
            message = f"{address.text()}: no Docker engine answers over ssh: {ssh_tunnel.complaint() or said(error)}"
            raise HostError(message, "try: ssh HOST docker info") from error
        raise translated(error, address.text()) from error
    return Engine(address, found, dict(info))


def _tls(address: EngineAddress) -> Any:
    from docker.tls import TLSConfig

    folder = address.certificates
    if folder is None:
        return False
    own, authority = (folder / "cert.pem", folder / "key.pem"), folder / "ca.pem"
    return TLSConfig(
        client_cert=(str(own[0]), str(own[1])) if own[0].is_file() else None,
        ca_cert=str(authority) if authority.is_file() else None,
        verify=address.verified,
    )
