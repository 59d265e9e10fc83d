"""Whether the runners of a comparison are had as containers: what was asked for, and what "auto" means.

"auto" takes containers where an engine answers and either the device is a GPU or every runner that is compared has
an image there already (``controller build`` has been run); else managed environments. All runners of a comparison
are had in the same way, so that no difference is one between a container and a process. On a machine without an
engine's socket nothing is waited for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.catalog.runners import RunnerSpec
from controller.errors import UsageError
from controller.hosts import Gpu

if TYPE_CHECKING:
    from controller.runtimes.docker import DockerRuntime
    from controller.runtimes.engine import Engine

AUTO, DOCKER, VENV = "auto", "docker", "venv"
LOCAL = "local"
_HOST_PREFIX = "docker:"


@dataclass(frozen=True, slots=True)
class Wish:
    """``runtime`` is AUTO, DOCKER or VENV; ``host`` LOCAL or "docker:CONTEXT"; ``limits`` as from ``limits.parse``."""

    runtime: str = AUTO
    host: str = LOCAL
    device: str = "cpu"
    gpu: Gpu | None = None
    limits: Mapping[str, str] = field(default_factory=dict)


def context_of(host: str) -> str:
    """The Docker context that a host names; empty for this machine. Raises UsageError for another kind of host."""
    if host == LOCAL:
        return ""
    if not host.startswith(_HOST_PREFIX) or host == _HOST_PREFIX:
        raise UsageError(
            f"--host {host!r} is no host", "write local, or docker:CONTEXT with a name of docker context ls"
        )
    return host.removeprefix(_HOST_PREFIX)


def containers(wish: Wish, specs: Sequence[RunnerSpec]) -> "DockerRuntime | None":
    """The runtime of containers, checked to be fit for what is wished; None for managed environments. Raises
    HostError with the one thing that has to be mended, UsageError."""
    context = context_of(wish.host)
    if wish.runtime == VENV:
        _refuse_containers(wish)
        return None
    engine = _engine(wish, context, specs)
    if engine is None:
        _refuse_containers(wish)
        return None
    from controller import preflight
    from controller.runtimes.docker import DockerRuntime
    from controller.runtimes.limits import limits

    preflight.require(engine, wish.device)
    return DockerRuntime(engine, limits(engine, dict(wish.limits)), wish.gpu)


def _refuse_containers(wish: Wish) -> None:
    """What only containers have must not be passed over in silence."""
    if wish.host != LOCAL:
        raise UsageError(f"--host {wish.host} needs containers", "leave out --runtime venv")
    if wish.limits:
        raise UsageError("--limit needs containers", "add --runtime docker")


def _engine(wish: Wish, context: str, specs: Sequence[RunnerSpec]) -> "Engine | None":
    from controller.runtimes import engine_address

    if wish.runtime == DOCKER or context:
        from controller.runtimes import engine as engines

        return engines.connect(context)
    if not engine_address.find().may_answer():
        return None
    from controller.runtimes import engine as engines

    engine = engines.find()
    if engine is None or wish.device == "gpu" or wish.limits:
        return engine
    return engine if _have_images(engine, specs, wish.device) else None


def _have_images(engine: "Engine", specs: Sequence[RunnerSpec], device: str) -> bool:
    from controller.images import bases
    from controller.images.recipes import reference

    return bool(specs) and all(bases.identifier(engine, reference(spec.name, device)) for spec in specs)
