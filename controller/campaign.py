"""Walks a comparison from request to stored trials: data, environments, then every trial in its planned place."""

import itertools
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import controller
from controller import hosts, paths
from controller.catalog import runners as runner_catalog
from controller.catalog import workloads as workload_catalog
from controller.catalog.runners import RunnerSpec
from controller.client import Progress, Started
from controller.datasets import prepare as datasets
from controller.errors import ControllerError, HostError
from controller.events import BuildProgress, Note, Observer, TrialDone, TrialProgress
from controller.execution import Settings, Work, impossible, now, run_trial
from controller.plan import PlannedTrial, interleave
from controller.results import (
    UNSUPPORTED,
    Campaign,
    Cell,
    Environment,
    Failure,
    Trial,
    Variant,
    WorkloadSummary,
)
from controller.runtimes import choice
from controller.runtimes.base import PreparedRunner, Runtime
from controller.runtimes.interpreter import InterpreterRuntime
from controller.runtimes.service import stage
from controller.runtimes.venv import VenvRuntime
from controller.store import Store


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """What was asked, checked and complete. ``workloads`` are Workload messages with all overrides applied;
    ``runners`` empty: the default ones that this machine can have. ``interpreters``: runner name to Python.
    ``runtime``, ``host`` and ``limits`` as in ``runtimes.choice.Wish``."""

    workloads: tuple[Any, ...]
    runners: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = (Variant(),)
    device: str = "cpu"
    gpu_index: int | None = None
    trials: int = 5
    order_seed: int = 0
    threads: int = 1
    data_dir: Path | None = None
    interpreters: Mapping[str, Path] = field(default_factory=dict)
    command: str = ""
    runtime: str = choice.AUTO
    host: str = choice.LOCAL
    limits: Mapping[str, str] = field(default_factory=dict)


class CampaignInterrupted(KeyboardInterrupt):
    """Ctrl-C after the campaign began; what had finished is stored under ``campaign``."""

    def __init__(self, campaign: Campaign) -> None:
        super().__init__()
        self.campaign = campaign


def run(request: CompareRequest, observe: Observer, store: Store) -> Campaign:
    """Carries a comparison out and returns its campaign; the trials are in the store.

    Raises ControllerError where nothing could be compared at all, CampaignInterrupted on Ctrl-C during trials."""
    gpu = _gpu(request)
    runtime, notes = _managed(request, gpu)
    specs = _chosen(request, runtime, observe, notes)
    works, summaries = _prepare_data(request, observe, notes)
    prepared = _prepare_runners(specs, request, runtime, observe)
    cells = _cells(specs, summaries, request)
    campaign = Campaign(
        id=_new_id(),
        created_at=now(),
        controller_version=controller.__version__,
        command=request.command,
        machine=hosts.machine(),
        order_seed=request.order_seed,
        trial_count=request.trials,
        threads=request.threads,
        cells=cells,
        workloads=summaries,
        notes=tuple(notes),
    )
    logs = paths.state_folder() / "logs" / campaign.id
    logs.mkdir(parents=True, exist_ok=True)
    store.add_campaign(campaign)
    staged = stage()
    settings = Settings(campaign.id, request.device, gpu.uuid if gpu else "", request.threads, logs, staged.digest)
    try:
        _Walk(campaign, prepared, works, settings, observe, store).run()
    except KeyboardInterrupt:
        raise CampaignInterrupted(campaign) from None
    return campaign


def _new_id() -> str:
    return f"{now()[:10]}-{uuid.uuid4().hex[:8]}"


def new_seed() -> int:
    """A seed for the order of trials when none is given; it is stored."""
    return random.SystemRandom().randrange(2**31)


# --- what is compared --------------------------------------------------------------------------------------


def _gpu(request: CompareRequest) -> hosts.Gpu | None:
    if request.device != "gpu":
        return None
    if request.host != choice.LOCAL:
        raise HostError(f"GPUs of {request.host} cannot be used yet", "run controller on that machine")
    return hosts.gpu(request.gpu_index or 0)


def _managed(request: CompareRequest, gpu: hosts.Gpu | None) -> tuple[Runtime, list[str]]:
    """How runners are had that are not the user's own interpreters, and what is to be said about it."""
    wish = choice.Wish(request.runtime, request.host, request.device, gpu, request.limits)
    specs = runner_catalog.select((*request.runners, *_extra_interpreters(request)))
    managed = [spec for spec in specs if spec.name not in request.interpreters]
    docker = choice.containers(wish, managed)
    if docker is None:
        return VenvRuntime(), []
    return docker, [f"containers on {docker.engine.text()}; limits: {docker.limits.text()}"]


def _chosen(request: CompareRequest, runtime: Runtime, observe: Observer, notes: list[str]) -> list[RunnerSpec]:
    """The runners to compare. A default runner that this machine cannot have is left out with a note; one that was
    asked for by name stays, and becomes a row that says why it failed."""
    specs = runner_catalog.select((*request.runners, *_extra_interpreters(request)))
    if request.runners:
        return specs
    usable = []
    for spec in specs:
        own = InterpreterRuntime(dict(request.interpreters)) if spec.name in request.interpreters else None
        answer = (own or runtime).availability(spec, request.device)
        if answer.ok:
            usable.append(spec)
        else:
            notes.append(f"{spec.name} is left out: {answer.reason}" + (f" ({answer.remedy})" if answer.remedy else ""))
            observe(Note(notes[-1]))
    if not usable:
        raise HostError("this machine can have none of the default runners: " + "; ".join(notes))
    return usable


def _extra_interpreters(request: CompareRequest) -> tuple[str, ...]:
    """``--interpreter NAME=...`` asks for runner NAME by itself when runners are named one by one."""
    return tuple(name for name in request.interpreters if request.runners and name not in request.runners)


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


def _prepare_runners(
    specs: Sequence[RunnerSpec], request: CompareRequest, runtime: Runtime, observe: Observer
) -> dict[str, PreparedRunner | ControllerError]:
    """Environments of all runners, several built at once. Raises the one error if not a single one stands."""
    own = [spec for spec in specs if spec.name in request.interpreters]
    managed = [spec for spec in specs if spec.name not in request.interpreters]
    prepared: dict[str, PreparedRunner | ControllerError] = {}
    for group, way in ((own, InterpreterRuntime(dict(request.interpreters))), (managed, runtime)):
        if group:
            prepared.update(way.prepare(group, request.device, observe))
    for name, result in prepared.items():
        if isinstance(result, ControllerError):
            observe(BuildProgress(name, "failed", result.line()))
    failures = [result for result in prepared.values() if isinstance(result, ControllerError)]
    if len(failures) == len(prepared) == 1:
        raise failures[0]
    return prepared


def _cells(
    specs: Sequence[RunnerSpec], workloads: Sequence[WorkloadSummary], request: CompareRequest
) -> tuple[Cell, ...]:
    device = "cpu" if request.device == "cpu" else f"gpu:{request.gpu_index or 0}"
    return tuple(
        Cell(spec.name, workload.name, workload.digest, variant, request.host, device)
        for workload, spec, variant in itertools.product(workloads, specs, request.variants)
    )


# --- the walk ----------------------------------------------------------------------------------------------


class _Walk:
    """Runs the planned trials one after the other and stores each as it ends."""

    def __init__(
        self,
        campaign: Campaign,
        prepared: Mapping[str, PreparedRunner | ControllerError],
        works: Mapping[str, Work],
        settings: Settings,
        observe: Observer,
        store: Store,
    ) -> None:
        self._campaign = campaign
        self._prepared = prepared
        self._works = works
        self._settings = settings
        self._observe = observe
        self._store = store
        self._skipped: set[Cell] = set()
        self._clock = _Clock()

    def run(self) -> None:
        plan = interleave(self._campaign.cells, self._campaign.trial_count, self._campaign.order_seed)
        for planned in plan:
            if planned.cell not in self._skipped:
                trial = self._one(planned, plan)
                self._store.add_trial(trial)
                self._observe(TrialDone(planned.position + 1, len(plan), trial))

    def _one(self, planned: PlannedTrial, plan: Sequence[PlannedTrial]) -> Trial:
        runner = self._prepared[planned.cell.runner]
        if isinstance(runner, ControllerError):
            # There will be no more of them: one row that says why is enough.
            self._skipped.add(planned.cell)
            failure = Failure("NO_ENVIRONMENT", runner.line(), getattr(runner, "log_tail", ""))
            return impossible(planned, self._campaign.id, Environment("none"), failure)
        left = [later.cell for later in plan[planned.position :] if later.cell not in self._skipped]
        watch = _Watch(planned, len(plan), self._observe, self._clock, left)
        self._clock.begin()
        watch.show("starting")
        trial = run_trial(planned, runner, self._works[planned.cell.workload_digest], self._settings, watch)
        self._clock.end(planned.cell)
        if trial.state == UNSUPPORTED:
            self._skipped.add(planned.cell)
        return trial


class _Clock:
    """How long trials took, to say how long the rest will take."""

    def __init__(self) -> None:
        self._taken: dict[Cell, list[float]] = {}
        self._begun = 0.0

    def begin(self) -> None:
        self._begun = monotonic()

    def end(self, cell: Cell) -> None:
        self._taken.setdefault(cell, []).append(monotonic() - self._begun)

    def seconds_left(self, cells: Sequence[Cell]) -> float | None:
        """For ``cells``, the running one first; None before anything is known."""
        means = {cell: sum(taken) / len(taken) for cell, taken in self._taken.items()}
        if not means:
            return None
        overall = sum(means.values()) / len(means)
        expected = sum(means.get(cell, overall) for cell in cells)
        return max(0.0, expected - (monotonic() - self._begun))


class _Watch:
    """Turns what a runner reports into events."""

    def __init__(
        self, planned: PlannedTrial, total: int, observe: Observer, clock: _Clock, left: Sequence[Cell]
    ) -> None:
        self._planned = planned
        self._total = total
        self._observe = observe
        self._clock = clock
        self._left = left
        self._per_epoch = 0

    def __call__(self, event: Started | Progress) -> None:
        if isinstance(event, Started):
            self._per_epoch = event.steps_per_epoch
            self.show("started")
        else:
            self.show(event.phase, event.steps_done, event.steps_total, event.samples_per_second)

    def show(self, phase: str, done: int = 0, total: int = 0, rate: float = 0.0) -> None:
        self._observe(
            TrialProgress(
                number=self._planned.position + 1,
                total=self._total,
                cell=self._planned.cell,
                phase=phase,
                steps_done=done,
                steps_total=total,
                steps_per_epoch=self._per_epoch,
                samples_per_second=rate,
                campaign_seconds_left=self._clock.seconds_left(self._left),
            )
        )
