"""Whether this machine can have a runner, and what to do when it cannot: checked without building anything."""

import shutil

from controller.catalog.runners import RunnerSpec
from controller.errors import UsageError
from controller.runtimes.base import Availability
from controller.runtimes.pythons import PLACES, Pythons, may_fetch, remedy


def check(spec: RunnerSpec, device: str, pythons: Pythons | None) -> Availability:
    """Platform, build for the device, programs on PATH and, unless ``pythons`` is None, the Python.

    A Python that only uv can fetch counts as available; ``reason`` then says so.
    """
    if fault := spec.platform_fault(device):
        return Availability(False, fault)
    try:
        spec.lock(device)
    except UsageError as error:
        return Availability(False, error.message, error.hint)
    missing = [name for name in spec.commands if shutil.which(name) is None]
    if missing:
        return Availability(False, f"not on PATH: {', '.join(missing)}", _install(spec, missing))
    return _check_python(spec, pythons) if pythons else Availability(True)


def _install(spec: RunnerSpec, missing: list[str]) -> str:
    if spec.debian_packages and shutil.which("apt-get"):
        return "apt-get install " + " ".join(spec.debian_packages)
    return "install " + ", ".join(missing)


def _check_python(spec: RunnerSpec, pythons: Pythons) -> Availability:
    if pythons.find(spec.python):
        return Availability(True)
    missing = f"Python {spec.python} was not found ({PLACES})"
    if may_fetch(spec.python):
        return Availability(True, f"{missing}; uv will fetch it")
    return Availability(False, missing, remedy(spec.python))
