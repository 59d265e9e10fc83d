"""What a container engine's own error texts mean: each becomes one line that names the cause and the next step."""

import re
from typing import Any

from controller.errors import HostError

NVIDIA_REMEDY = (
    "install the NVIDIA Container Toolkit and run: sudo nvidia-ctk runtime configure --runtime=docker && "
    "sudo systemctl restart docker; or use --runtime venv"
)
NO_NVIDIA_RUNTIME = "the Docker engine has no NVIDIA runtime, so no container can have a GPU"

# Pattern of the engine's text, what it means, and what to do. The first that fits wins. Recorded from engines 20.10 to
# 28 and from NVIDIA's toolkit 1.14; tests/unit/controller/engine_texts.py holds the recordings.
_MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"could not select device driver .*capabilities: \[\[.*gpu|unknown runtime specified nvidia"
        r"|unknown or invalid runtime name: nvidia|nvidia-container-runtime: (executable file )?not found",
        NO_NVIDIA_RUNTIME,
        NVIDIA_REMEDY,
    ),
    (
        r"nvidia-container-cli: requirement error: unsatisfied condition: (?P<detail>[\w.>=<]+)",
        "the NVIDIA driver is too old for this image (it wants {detail})",
        "install a newer driver",
    ),
    (
        r"nvidia-container-cli: .*(driver not loaded|driver rpc error|nvml error)|failed to initialize nvml",
        "the NVIDIA driver of the engine's machine does not work",
        "run nvidia-smi there and repair the driver",
    ),
    (
        r"libnvidia-ml\.so\.1: cannot open shared object|load library failed: libcuda\.so",
        "the engine's machine has no NVIDIA driver libraries",
        "install the NVIDIA driver there",
    ),
    (
        r"nvidia-container-cli: device error: (?P<detail>[\w-]+): unknown device|unresolvable CDI devices (?P<cdi>\S+)",
        "the engine does not know the GPU {detail}",
        "compare with nvidia-smi -L on the engine's machine",
    ),
    (
        r"permission denied.*(docker\.sock|docker daemon socket|connect)|permissionerror",
        "you may not use the Docker engine",
        "add yourself to the group docker (sudo usermod -aG docker $USER, then log in again)",
    ),
    (r"no space left on device", "the engine's disk is full", "docker system df shows what takes it"),
    (
        r"exec format error|no matching manifest for|does not match the (specified|detected host) platform",
        "the image is for another kind of processor",
        "build it on this engine: controller build",
    ),
    (
        r"client version .* is too (new|old)|api versions below",
        "the Docker engine is too old",
        "install Docker 20.10 or newer",
    ),
    (
        r"connection refused|no such file or directory.*sock|filenotfounderror|connection aborted"
        r"|cannot connect to the docker daemon|error while fetching server api version|max retries exceeded|timed out",
        "the Docker engine does not answer",
        "start it, or use --runtime venv",
    ),
    (
        r"cgroups?: .*(not mounted|not supported|cannot)|your kernel does not support .* limit",
        "the engine cannot limit containers (its control groups are not set up)",
        "docker info shows what is missing",
    ),
)
_NETWORK = re.compile(
    r"no such host|temporary failure in name resolution|network is unreachable|i/o timeout|tls handshake timeout"
    r"|connection (refused|reset)|context deadline exceeded|proxyconnect|certificate",
    re.IGNORECASE,
)


def translated(error: Exception | str, what: str) -> HostError:
    """The engine's error as one of ours: ``what`` was tried, such as "starting pytorch-1.9.1"."""
    text = said(error)
    for pattern, meaning, remedy in _MEANINGS:
        if match := re.search(pattern, text, re.IGNORECASE):
            found = {name: value or "" for name, value in match.groupdict().items()}
            detail = found.get("detail") or found.get("cdi") or ""
            return HostError(f"{what}: {meaning.format(detail=detail)}", remedy)
    return HostError(f"{what}: the Docker engine said: {text}")


def is_network(error: Exception | str) -> bool:
    """Whether a registry could not be reached, rather than that it has no such image."""
    return bool(_NETWORK.search(said(error)))


def said(error: Exception | str) -> str:
    """The engine's own words, in one line of at most 400 characters."""
    explanation: Any = getattr(error, "explanation", None) or str(error)
    text = explanation.decode("utf-8", "replace") if isinstance(explanation, bytes) else str(explanation)
    return " ".join(text.split())[:400]
