"""Makes ready what a campaign needs before its first probe or trial: runners chosen, data there, environments built."""

import itertools
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller import hosts, paths
from controller.catalog import runners as runner_catalog
from controller.catalog import workloads as workload_catalog
from controller.catalog.runners import RunnerSpec
from controller.datasets import prepare as datasets
from controller.errors import ControllerError, HostError
from controller.events import BuildProgress, Note, Observer
from controller.execution import Settings, Work, now
from controller.results import Campaign, Cell, Variant, WorkloadSummary
from controller.runtimes import choice, interpreter
from controller.runtimes.base import PreparedRunner, Runtime
from controller.runtimes.interpreter import InterpreterRuntime
from controller.runtimes.service import stage
from controller.runtimes.venv import VenvRuntime
from controller.verification import REFERENCE


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """What was asked, checked and complete. ``workloads`` are Workload messages with all overrides applied;
    ``runners`` empty: the default ones that this machine can have, or with ``every_runner`` all of them.
    ``interpreters``: pairs of a runner's or framework's name and a Python, as ``runtimes.interpreter.resolve`` takes
    them. ``runtime``, ``host`` and ``limits`` as in ``runtimes.choice.Wish``.
    ``until_precision`` and ``max_trials`` as in results.Campaign.
    ``verify``: whether cells are certified first; with ``fresh`` no earlier probe counts.
    ``pause_seconds``: the longest wait before a trial for the machine to be quiet; ``calibrate``: whether the host is
    measured first.
    ``resumed``: the campaign that is continued, which the rest must be that of; with ``rerun`` none of its trials
    counts as done."""

    workloads: tuple[Any, ...]
    runners: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = (Variant(),)
    device: str = "cpu"
    gpu_index: int | None = None
    trials: int = 5
    until_precision: float | None = None
    max_trials: int = 0
    order_seed: int = 0
    threads: int = 1
    data_dir: Path | None = None
    interpreters: tuple[tuple[str, Path], ...] = ()
    command: str = ""
    runtime: str = choice.AUTO
    host: str = choice.LOCAL
    limits: Mapping[str, str] = field(default_factory=dict)
    every_runner: bool = False
    verify: bool = True
    fresh: bool = False
    pause_seconds: float = 0.0
    calibrate: bool = False
    resumed: Campaign | None = None
    rerun: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """All that is there before the first probe or trial. ``works``: by the digest of the cells' workload."""

    cells: tuple[Cell, ...]
    summaries: tuple[WorkloadSummary, ...]
    works: Mapping[str, Work]
    runners: Mapping[str, PreparedRunner | ControllerError]
    runtime: Runtime
    settings: Settings
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    """The runners that the request means, in the order of the table, and how each is had."""

    specs: tuple[RunnerSpec, ...]
    runtimes: Mapping[str, Runtime]
    managed: Runtime


def prepare(request: CompareRequest, observe: Observer) -> Ready:
    """Raises ControllerError where nothing could be compared at all; what only one runner lacks is its value."""
    notes: list[str] = []
    gpu = _gpu(request)
    chosen = _chosen(request, gpu, observe, notes)
    works, summaries = _prepare_data(request, observe, notes)
    runners = _prepare_runners(chosen, request, observe)
    name = request.resumed.id if request.resumed else new_id()
    logs = paths.state_folder() / "logs" / name
    logs.mkdir(parents=True, exist_ok=True)
    settings = Settings(name, request.device, gpu.uuid if gpu else "", request.threads, logs, stage().digest)
    return Ready(
        _cells(chosen.specs, summaries, request), summaries, works, runners, chosen.managed, settings, tuple(notes)
    )


def new_id() -> str:
    """A campaign's name: its day and eight random digits."""
    return f"{now()[:10]}-{uuid.uuid4().hex[:8]}"


def new_seed() -> int:
    """A seed for the order of trials when none is given; it is stored."""
    return random.SystemRandom().randrange(2**31)


def _gpu(request: CompareRequest) -> hosts.Gpu | None:
    if request.device != "gpu":
        return None
    if request.host != choice.LOCAL:
        raise HostError(f"GPUs of {request.host} cannot be used yet", "run controller on that machine")
    return hosts.gpu(request.gpu_index or 0)


# --- runners -----------------------------------------------------------------------------------------------


def _chosen(request: CompareRequest, gpu: hosts.Gpu | None, observe: Observer, notes: list[str]) -> _Choice:
    """A default runner that this machine cannot have is left out with a note; one that was asked for by name stays,
    and becomes a row that says why it failed."""
    own = {entry.spec.name: entry for entry in interpreter.resolve(request.interpreters)}
    specs = {spec.name: spec for spec in (*_asked(request), *(entry.spec for entry in own.values()))}
    managed, said = _managed(request, gpu, [spec for name, spec in specs.items() if name not in own])
    notes += said
    mine = InterpreterRuntime({name: entry.path for name, entry in own.items()})
    runtimes: dict[str, Runtime] = {name: mine if name in own else managed for name in specs}
    if not request.runners:
        specs = _usable(specs, runtimes, request.device, observe, notes)
    return _Choice(tuple(specs.values()), runtimes, managed)


def _usable(
    specs: Mapping[str, RunnerSpec], runtimes: Mapping[str, Runtime], device: str, observe: Observer, notes: list[str]
) -> dict[str, RunnerSpec]:
    usable = {}
    for name, spec in specs.items():
        answer = runtimes[name].availability(spec, device)
        if answer.ok:
            usable[name] = spec
        else:
            notes.append(f"{name} is left out: {answer.reason}" + (f" ({answer.remedy})" if answer.remedy else ""))
            observe(Note(notes[-1]))
    if not usable:
        raise HostError("this machine can have none of the default runners: " + "; ".join(notes))
    return usable


def _asked(request: CompareRequest) -> list[RunnerSpec]:
    """The pinned runners that the request means. The reference takes part only if it is named: it is what others are
    held to."""
    if request.every_runner and not request.runners:
        return [spec for spec in runner_catalog.load().values() if spec.name != REFERENCE]
    return runner_catalog.select(request.runners)


def _managed(request: CompareRequest, gpu: hosts.Gpu | None, specs: Sequence[RunnerSpec]) -> tuple[Runtime, list[str]]:
    """How runners are had that are not the user's own interpreters, and what is to be said about it."""
    wish = choice.Wish(request.runtime, request.host, request.device, gpu, request.limits)
    docker = choice.containers(wish, specs)
    if docker is None:
        return VenvRuntime(gpu=gpu), []
    return docker, [f"containers on {docker.engine.text()}; limits: {docker.limits.text()}"]


def _prepare_runners(
    chosen: _Choice, request: CompareRequest, observe: Observer
) -> dict[str, PreparedRunner | ControllerError]:
    """Environments of all runners, several built at once. Raises the one error if not a single one stands."""
    prepared: dict[str, PreparedRunner | ControllerError] = {}
    groups: dict[int, tuple[Runtime, list[RunnerSpec]]] = {}
    for spec in chosen.specs:
        runtime = chosen.runtimes[spec.name]
        groups.setdefault(id(runtime), (runtime, []))[1].append(spec)
    for runtime, specs in groups.values():
        prepared.update(runtime.prepare(specs, request.device, observe))
    for name, result in prepared.items():
        if isinstance(result, ControllerError):
            observe(BuildProgress(name, "failed", result.line()))
    failures = [result for result in prepared.values() if isinstance(result, ControllerError)]
    if len(failures) == len(prepared) == 1:
        raise failures[0]
    return prepared


# --- work --------------------------------------------------------------------------------------------------


def _prepare_data(
    request: CompareRequest, observe: Observer, notes: list[str]
) -> tuple[dict[str, Work], tuple[WorkloadSummary, ...]]:
    works: dict[str, Work] = {}
    summaries = []
    for workload in request.workloads:
        data = datasets.prepare(workload, data_dir=request.data_dir, cache=paths.cache_folder(), observer=observe)
        if data.note and data.note not in notes:
            notes.append(data.note)
            observe(Note(data.note))
        summary = workload_catalog.summarise(data.workload)
        if summary.digest in works:
            continue
        message = workload_catalog.serialise(data.workload)
        works[summary.digest] = Work(message, summary.digest, dict(data.arrays), data.blobs)
        summaries.append(summary)
    return works, tuple(summaries)


def _cells(
    specs: Sequence[RunnerSpec], workloads: Sequence[WorkloadSummary], request: CompareRequest
) -> tuple[Cell, ...]:
    device = "cpu" if request.device == "cpu" else f"gpu:{request.gpu_index or 0}"
    return tuple(
        Cell(spec.name, workload.name, workload.digest, variant, request.host, device)
        for workload, spec, variant in itertools.product(workloads, specs, request.variants)
    )
