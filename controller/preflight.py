"""What must be so before anything is pulled, built or started: each check is one line with its remedy."""

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.catalog.runners import RunnerSpec
from controller.errors import HostError, UsageError
from controller.hosts import Gpu
from controller.runtimes.engine import Engine
from controller.runtimes.engine_errors import NO_NVIDIA_RUNTIME, NVIDIA_REMEDY

OK, WARNING, FAILED = "ok", "warning", "failed"
# The oldest Linux driver for each CUDA, from NVIDIA's release notes ("CUDA Toolkit and Minimum Required Driver
# Version for CUDA Minor Version Compatibility"): within 11, 12 and 13 every minor release runs on the first one's.
_DRIVERS = {"9.0": 384.81, "9.1": 390.46, "9.2": 396.26, "10.0": 410.48, "10.1": 418.39, "10.2": 440.33}
_MAJOR_DRIVERS = {"11": 450.80, "12": 525.60, "13": 580.65}
_IMAGE_BYTES = {"cpu": 4 * 10**9, "gpu": 12 * 10**9}
_MEMORY_BYTES = 2 * 10**9


@dataclass(frozen=True, slots=True)
class Check:
    """``subject`` such as "NVIDIA runtime"; ``text`` says what is so, ``remedy`` what to do about it."""

    subject: str
    state: str
    text: str
    remedy: str = ""

    def line(self) -> str:
        return f"{self.text}; {self.remedy}" if self.remedy else self.text


def require(engine: Engine, device: str) -> None:
    """Raises HostError with the first of the engine's checks that failed."""
    for check in engine_checks(engine, device):
        if check.state == FAILED:
            raise HostError(check.text, check.remedy)


def engine_checks(engine: Engine, device: str) -> Iterator[Check]:
    """What no runner could do without, the most basic first."""
    yield Check("Docker engine", OK, engine.text())
    yield _kind(engine)
    yield _memory(engine)
    yield _disk(engine, device)
    if device == "gpu":
        yield nvidia_runtime(engine)


def _kind(engine: Engine) -> Check:
    kind = str(engine.info.get("OSType", "linux"))
    if kind != "linux":
        remedy = "switch Docker Desktop to Linux containers, or use --runtime venv"
        return Check("Docker engine", FAILED, f"{engine.text()} runs {kind} containers", remedy)
    return Check("Docker engine", OK, f"runs {kind} containers for {engine.info.get('Architecture', 'unknown')}")


def _memory(engine: Engine) -> Check:
    size = engine.memory_bytes
    if 0 < size < _MEMORY_BYTES:
        return Check("memory", FAILED, f"the engine has {size / 1e9:.1f} GB of memory", "give it at least 2 GB")
    return Check("memory", OK, f"the engine has {size / 1e9:.1f} GB and {engine.cpu_count} processors")


def _disk(engine: Engine, device: str) -> Check:
    """Only where the engine's folder can be seen: another machine's disk is not told."""
    folder = engine.data_folder
    if folder is None:
        return Check("disk", OK, "the engine does not tell how much room it has")
    free, needed = shutil.disk_usage(folder).free, _IMAGE_BYTES[device]
    text = f"{folder} has {free / 1e9:.0f} GB free"
    if free < needed:
        remedy = (
            f"an image needs up to {needed / 1e9:.0f} GB while it is built: docker system prune frees what is unused"
        )
        return Check("disk", FAILED, text, remedy)
    return Check("disk", OK, text)


def nvidia_runtime(engine: Engine) -> Check:
    """A warning where only trying would tell."""
    found = engine.has_nvidia_runtime()
    if found is False:
        return Check("NVIDIA runtime", FAILED, NO_NVIDIA_RUNTIME, NVIDIA_REMEDY)
    if found is None:
        return Check("NVIDIA runtime", WARNING, "whether the engine can give a GPU shows when a container starts")
    return Check("NVIDIA runtime", OK, "the engine can give containers a GPU")


def gpu_checks(spec: RunnerSpec, gpu: Gpu) -> Iterator[Check]:
    """Whether this runner's build can compute on this GPU with this driver."""
    try:
        spec.lock("gpu")
    except UsageError as error:
        yield Check(spec.name, WARNING, error.message, error.hint)
        return
    yield driver_check(spec, gpu)
    yield architecture_check(spec, gpu)


def driver_check(spec: RunnerSpec, gpu: Gpu) -> Check:
    needed = minimum_driver(spec.cuda)
    found = _number(gpu.driver)
    if needed is None or found is None:
        return Check(spec.name, OK, f"{spec.name}: driver {gpu.driver or 'not told'}, CUDA {spec.cuda or 'not told'}")
    if found < needed:
        text = f"{spec.name} has CUDA {spec.cuda}, which needs driver {needed:.2f} or newer; this is {gpu.driver}"
        return Check(spec.name, FAILED, text, "install a newer NVIDIA driver")
    return Check(spec.name, OK, f"{spec.name}: driver {gpu.driver} runs CUDA {spec.cuda}")


def minimum_driver(cuda: str) -> float | None:
    """The oldest Linux driver for that CUDA, such as 450.8 for "11.2"; None where it is not known."""
    return _DRIVERS.get(cuda) or _MAJOR_DRIVERS.get(cuda.partition(".")[0])


def architecture_check(spec: RunnerSpec, gpu: Gpu) -> Check:
    """A build runs on a GPU for which it has code: of the same major architecture and no newer minor one; or PTX of
    the GPU's or an older one, which the driver compiles at the first start (CUDA C++ Programming Guide, 3.1)."""
    if not gpu.capability or not spec.gpu_architectures:
        return Check(spec.name, OK, f"{spec.name}: the GPU's architecture cannot be compared with the build's")
    kind = fit(spec.gpu_architectures, gpu.capability)
    name = f"{gpu.name} (sm_{gpu.capability.replace('.', '')})"
    if kind == "code":
        return Check(spec.name, OK, f"{spec.name} has code for {name}")
    if kind == "ptx":
        return Check(
            spec.name, WARNING, f"{spec.name} has no code for {name}, only PTX: its first start compiles for minutes"
        )
    built = ", ".join(spec.gpu_architectures)
    remedy = "take a build with a newer CUDA (controller runners lists them)"
    return Check(spec.name, FAILED, f"{spec.name} is built for {built}, not for {name}", remedy)


def fit(architectures: Sequence[str], capability: str) -> str:
    """ "code", "ptx" or empty. ``capability`` such as "8.6"; architectures such as "sm_80" or "compute_70" (PTX)."""
    major, minor = (int(part) for part in capability.split("."))
    kinds = set()
    for text in architectures:
        match = re.match(r"(sm|compute)_(\d+)(\d)([a-z]?)$", text)
        if match is None:
            continue
        built = (int(match[2]), int(match[3]))
        if match[4]:  # Code with an architecture's own features runs on exactly that one.
            fits = built == (major, minor)
        else:
            fits = built <= (major, minor) and (match[1] == "compute" or built[0] == major)
        if fits:
            kinds.add("code" if match[1] == "sm" else "ptx")
    return "code" if "code" in kinds else "ptx" if kinds else ""


def _number(version: str) -> float | None:
    match = re.match(r"(\d+\.\d+)", version)
    return float(match[1]) if match else None
