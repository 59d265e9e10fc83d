"""Whether a runner's image stands on an engine, and whether it is what its recipe and the service's code are now."""

from dataclasses import dataclass
from typing import Any

from controller.images.recipes import LOCK_LABEL, RECIPE_LABEL, RUNNER_LABEL, SERVICE_LABEL, ImagePlan
from controller.runtimes.engine import Engine
from controller.runtimes.engine_errors import translated

READY, STALE, ABSENT = "ready", "stale", "absent"


@dataclass(frozen=True, slots=True)
class ImageState:
    """``kind`` is READY, STALE or ABSENT; ``reason`` says what makes it stale. ``identifier`` is the image's id, a
    digest of all its content; ``size_bytes`` includes the base."""

    plan: ImagePlan
    kind: str
    reason: str = ""
    identifier: str = ""
    size_bytes: int = 0
    created: str = ""

    @property
    def is_ready(self) -> bool:
        return self.kind == READY


def look(engine: Engine, plan: ImagePlan) -> ImageState:
    """Asks the engine. Raises HostError when it does not answer."""
    from docker.errors import ImageNotFound

    try:
        found = engine.client.api.inspect_image(plan.reference)
    except ImageNotFound:
        return ImageState(plan, ABSENT)
    except engine_errors() as error:
        raise translated(error, f"looking for {plan.reference}") from error
    return judged(plan, found)


def judged(plan: ImagePlan, found: dict[str, Any]) -> ImageState:
    """The state of an image from what the engine tells about it."""
    labels = dict((found.get("Config") or {}).get("Labels") or {})
    reason = staleness(plan, labels)
    return ImageState(
        plan,
        STALE if reason else READY,
        reason,
        str(found["Id"]),
        int(found.get("Size") or 0),
        str(found.get("Created") or "")[:19],
    )


def staleness(plan: ImagePlan, labels: dict[str, str]) -> str:
    """What has changed since an image with these labels was built; empty when nothing has."""
    if labels.get(RUNNER_LABEL) != plan.spec.name or not labels.get(RECIPE_LABEL):
        return "it was not built by this tool"
    if labels.get(LOCK_LABEL) != plan.lock_digest:
        return f"its lock {plan.lock.name} has changed"
    if labels.get(RECIPE_LABEL) != plan.recipe:
        return "its Dockerfile or its part of runner.toml has changed"
    if labels.get(SERVICE_LABEL) != plan.service:
        return "the service's code has changed"
    return ""


def engine_errors() -> tuple[type[Exception], ...]:
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    return (DockerException, RequestException, OSError)
