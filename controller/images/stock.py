"""The images of the catalog's runners on one engine: which there are, building, removing those of no use."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controller import preflight
from controller.catalog import runners as catalog
from controller.catalog.runners import FLAVOURS, RunnerSpec
from controller.errors import ControllerError, UsageError
from controller.events import BuildProgress, Observer
from controller.images import building
from controller.images.recipes import RUNNER_LABEL, ImagePlan, plan
from controller.images.states import ABSENT, READY, ImageState, engine_errors, look
from controller.runtimes import service
from controller.runtimes.engine import Engine
from controller.runtimes.engine_errors import translated


def plans(specs: Iterable[RunnerSpec], flavours: Sequence[str] = FLAVOURS) -> list[ImagePlan]:
    """The images that these runners can have; a runner without a build for GPUs has none for them."""
    staged = service.stage()
    found = []
    for spec in specs:
        for flavour in flavours:
            try:
                found.append(plan(spec, flavour, staged))
            except UsageError:
                continue
    return found


def states(engine: Engine, names: Sequence[str] = ()) -> list[ImageState]:
    """The state of every image of the named runners, or of all. Raises HostError, UnknownNameError."""
    specs = catalog.select(names) if names else catalog.load().values()
    return [look(engine, item) for item in plans(specs)]


def build(
    engine: Engine, names: Sequence[str], flavour: str, policy: str, observe: Observer
) -> tuple[list[ImageState], Mapping[str, ControllerError]]:
    """Builds what is missing or stale of the named runners, or of the default ones; returns the images that stand
    and the errors by runner. Raises UsageError for a runner without that build, HostError for an unfit engine."""
    staged = service.stage()
    wanted = [plan(spec, flavour, staged) for spec in catalog.select(names)]
    preflight.require(engine, "cpu")  # Building needs no GPU.
    missing = []
    for item in wanted:
        if look(engine, item).is_ready:
            observe(BuildProgress(item.spec.name, "ready", fraction=1.0))
        else:
            missing.append(item)
    built = building.build(engine, missing, policy, observe)
    failed = {name: error for name, error in built.items() if error is not None}
    return [look(engine, item) for item in wanted if item.spec.name not in failed], failed


def remove_useless(engine: Engine) -> list[str]:
    """Removes images of this tool that no comparison would use: stale ones, and those that a newer one has taken the
    name of. Returns what each was."""
    current = [item for item in states(engine) if item.kind != ABSENT]
    kept = {item.identifier for item in current if item.kind == READY}
    removed = []
    try:
        for found in engine.client.api.images(filters={"label": RUNNER_LABEL}):
            if found["Id"] not in kept and _remove(engine, found):
                removed.append((found.get("RepoTags") or [found["Id"][:19]])[0])
    except engine_errors() as error:
        raise translated(error, "removing images") from error
    return removed


def _remove(engine: Engine, found: Mapping[str, Any]) -> bool:
    """False for an image that a container uses."""
    from docker.errors import APIError, ImageNotFound

    try:
        for name in found.get("RepoTags") or [found["Id"]]:
            engine.client.api.remove_image(found["Id"] if name == "<none>:<none>" else name)
    except ImageNotFound:
        return False
    except APIError as error:
        if error.status_code == 409:
            return False
        raise
    return True
