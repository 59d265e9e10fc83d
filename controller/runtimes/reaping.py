"""Containers whose controller is gone: found by their labels and removed, here and by ``controller clean``."""

import os
import platform
import shutil
import time
from pathlib import Path
from typing import Any

import psutil

from controller.images.states import engine_errors
from controller.runtimes import temporary
from controller.runtimes.containers import FOLDER_LABEL, OWNER_LABEL, ROLE_LABEL, RUNNER_LABEL, TRIAL_ROLE
from controller.runtimes.engine import Engine
from controller.runtimes.engine_errors import translated

FOLDER_PREFIX = "trainyard-container-"


def owner() -> str:
    """This process, told apart from a later one with the same number."""
    return f"{platform.node()}/{os.getpid()}/{psutil.Process().create_time():.2f}"


def is_alive(text: str) -> bool:
    """Whether the controller of that label still runs. One of another machine cannot be seen: it is taken to."""
    parts = text.rsplit("/", 2)
    if len(parts) != 3 or not parts[1].isdigit():
        return False
    if parts[0] != platform.node():
        return True
    try:
        return abs(psutil.Process(int(parts[1])).create_time() - float(parts[2])) < 1.0
    except (psutil.Error, ValueError):
        return False


def reap(engine: Engine, everything: bool = False) -> list[str]:
    """Removes the containers of controllers that are gone, and with ``everything`` those of running ones too; returns
    what each was. Raises HostError when the engine fails."""
    removed = []
    try:
        for found in engine.client.api.containers(all=True, filters={"label": f"{ROLE_LABEL}={TRIAL_ROLE}"}):
            labels = found.get("Labels") or {}
            if everything or not is_alive(str(labels.get(OWNER_LABEL, ""))):
                remove(engine, found["Id"])
                _remove_folder(str(labels.get(FOLDER_LABEL, "")))
                removed.append(f"{labels.get(RUNNER_LABEL, 'unknown runner')} ({found['Id'][:12]})")
    except engine_errors() as error:
        raise translated(error, "removing containers") from error
    return removed


def remove(engine: Engine, identifier: str) -> None:
    """Kills and removes a container with its volumes; returns when it is gone. One that is gone already is fine."""
    from docker.errors import APIError, NotFound

    for attempt in range(50):
        try:
            engine.client.api.remove_container(identifier, force=True, v=True)
        except NotFound:
            return
        except APIError as error:
            # 409: somebody else is removing it at this moment.
            if error.status_code != 409 or attempt == 49:
                raise
        if not _exists(engine, identifier):
            return


def _exists(engine: Engine, identifier: str) -> bool:
    from docker.errors import NotFound

    try:
        engine.client.api.inspect_container(identifier)
    except NotFound:
        return False
    time.sleep(0.1)
    return True


def _remove_folder(name: str) -> None:
    """The folder of its socket. Only one that has our own name: labels can be written by anybody."""
    path = Path(name)
    if name and path.name.startswith(FOLDER_PREFIX) and path.parent in set(temporary.places()):
        shutil.rmtree(path, ignore_errors=True)


def new_folder() -> Path:
    """A folder for a container's socket."""
    return temporary.new_folder(FOLDER_PREFIX)


def state(engine: Engine, identifier: str) -> dict[str, Any] | None:
    """``State`` of a container as the engine has it; None when there is no such container."""
    from docker.errors import NotFound

    try:
        return dict(engine.client.api.inspect_container(identifier)["State"])
    except NotFound:
        return None
