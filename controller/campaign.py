"""Walks a comparison from request to stored trials: data, environments, then every trial in its planned place."""

import itertools
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainyard.v1.workload_pb2 import Workload

import controller
from controller import hosts, paths
from controller.catalog import runners as runner_catalog
from controller.catalog import workloads as workload_catalog
from controller.catalog.runners import RunnerSpec
from controller.datasets import prepare as datasets
from controller.errors import ControllerError, HostError
from controller.events import BuildProgress, Note, Observer, TrialDone
from controller.execution import Settings, Work, impossible, now, run_trial
from controller.plan import PlannedTrial, interleave
from controller.probing import Form, Runner, form_of
from controller.results import (
    FAIL,
    UNSUPPORTED,
    Campaign,
    Cell,
    CellCertificate,
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
from controller.verification import REFERENCE, Verified, verify_cells
from controller.watching import Clock, Watch

UNVERIFIED = "the rows are not verified (--no-verify): nothing proves that they did the same work"


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """What was asked, checked and complete. ``workloads`` are Workload messages with all overrides applied;
    ``runners`` empty: the default ones that this machine can have, or with ``every_runner`` all of them.
    ``interpreters``: runner name to Python. ``runtime``, ``host`` and ``limits`` as in ``runtimes.choice.Wish``.
    ``verify``: whether cells are certified first; with ``fresh`` no earlier probe counts."""

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
    every_runner: bool = False
    verify: bool = True
    fresh: bool = False


class CampaignInterrupted(KeyboardInterrupt):
    """Ctrl-C after the campaign began; what had finished is stored under ``campaign``."""

    def __init__(self, campaign: Campaign) -> None:
        super().__init__()
        self.campaign = campaign


def run(request: CompareRequest, observe: Observer, store: Store) -> Campaign:
    """Carries a comparison out and returns its campaign; the trials are in the store.

    Raises ControllerError where nothing could be compared at all, CampaignInterrupted on Ctrl-C during trials."""
    ready = _prepare(request, observe)
    verified = _verified(ready, request, observe, store) if request.verify else Verified((), (UNVERIFIED,))
    campaign = Campaign(
        id=ready.settings.campaign,
        created_at=now(),
        controller_version=controller.__version__,
        command=request.command,
        machine=hosts.machine(),
        order_seed=request.order_seed,
        trial_count=request.trials,
        threads=request.threads,
        cells=ready.cells,
        workloads=ready.summaries,
        notes=(*ready.notes, *verified.notes),
        certificates=verified.certificates,
    )
    store.add_campaign(campaign)
    try:
        _Walk(campaign, ready.runners, ready.works, ready.settings, observe, store).run()
    except KeyboardInterrupt:
        raise CampaignInterrupted(campaign) from None
    return campaign


@dataclass(frozen=True, slots=True)
class Verification:
    """Cells without trials: their certificates, and what stands in the way of the others (``absent``: runner name to
    why it does not stand)."""

    cells: tuple[Cell, ...]
    certificates: tuple[CellCertificate, ...]
    absent: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether every cell has a certificate, and none is a failure."""
        found = {entry.cell: entry.certificate.state for entry in self.certificates}
        return all(cell in found and found[cell] != FAIL for cell in self.cells)


def verify(request: CompareRequest, observe: Observer, store: Store) -> Verification:
    """Certifies what ``run`` would train, and trains none of it. Raises ControllerError as ``run`` does."""
    ready = _prepare(request, observe)
    verified = _verified(ready, request, observe, store)
    absent = {name: found.line() for name, found in ready.runners.items() if isinstance(found, ControllerError)}
    return Verification(ready.cells, verified.certificates, absent, (*ready.notes, *verified.notes))


def _new_id() -> str:
    return f"{now()[:10]}-{uuid.uuid4().hex[:8]}"


def new_seed() -> int:
    """A seed for the order of trials when none is given; it is stored."""
    return random.SystemRandom().randrange(2**31)


# --- what is compared --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ready:
    """All that is there before the first probe or trial. ``works``: by the digest of the cells' workload."""

    cells: tuple[Cell, ...]
    summaries: tuple[WorkloadSummary, ...]
    works: Mapping[str, Work]
    runners: Mapping[str, PreparedRunner | ControllerError]
    runtime: Runtime
    settings: Settings
    notes: tuple[str, ...]


def _prepare(request: CompareRequest, observe: Observer) -> _Ready:
    gpu = _gpu(request)
    runtime, notes = _managed(request, gpu)
    specs = _chosen(request, runtime, observe, notes)
    works, summaries = _prepare_data(request, observe, notes)
    runners = _prepare_runners(specs, request, runtime, observe)
    name = _new_id()
    logs = paths.state_folder() / "logs" / name
    logs.mkdir(parents=True, exist_ok=True)
    uuid_ = gpu.uuid if gpu else ""
    settings = Settings(name, request.device, uuid_, request.threads, logs, stage().digest)
    return _Ready(_cells(specs, summaries, request), summaries, works, runners, runtime, settings, tuple(notes))


def _verified(ready: _Ready, request: CompareRequest, observe: Observer, store: Store) -> Verified:
    """Certificates of all cells, before anything is timed."""
    forms = {digest: _form(work, observe) for digest, work in ready.works.items()}
    return verify_cells(
        ready.cells,
        ready.runners,
        forms,
        ready.settings,
        reference=_reference(ready, observe),
        observe=observe,
        store=store,
        fresh=request.fresh,
    )


def _form(work: Work, observe: Observer) -> Form:
    """What is cut down has made-up data, which no file of the user's is needed for."""
    return form_of(
        Workload.FromString(work.message),
        work,
        lambda workload: datasets.prepare(workload, data_dir=None, cache=paths.cache_folder(), observer=observe),
    )


def _reference(ready: _Ready, observe: Observer) -> Runner:
    """The reference runner, had like the others when it is first needed. It computes on the CPU."""

    def reference() -> PreparedRunner | ControllerError:
        try:
            specs = runner_catalog.select([REFERENCE])
            return ready.runtime.prepare(specs, "cpu", observe)[REFERENCE]
        except ControllerError as error:
            return error

    return reference


def _gpu(request: CompareRequest) -> hosts.Gpu | None:
    if request.device != "gpu":
        return None
    if request.host != choice.LOCAL:
        raise HostError(f"GPUs of {request.host} cannot be used yet", "run controller on that machine")
    return hosts.gpu(request.gpu_index or 0)


def _managed(request: CompareRequest, gpu: hosts.Gpu | None) -> tuple[Runtime, list[str]]:
    """How runners are had that are not the user's own interpreters, and what is to be said about it."""
    wish = choice.Wish(request.runtime, request.host, request.device, gpu, request.limits)
    specs = _asked(request)
    managed = [spec for spec in specs if spec.name not in request.interpreters]
    docker = choice.containers(wish, managed)
    if docker is None:
        return VenvRuntime(), []
    return docker, [f"containers on {docker.engine.text()}; limits: {docker.limits.text()}"]


def _chosen(request: CompareRequest, runtime: Runtime, observe: Observer, notes: list[str]) -> list[RunnerSpec]:
    """The runners to compare. A default runner that this machine cannot have is left out with a note; one that was
    asked for by name stays, and becomes a row that says why it failed."""
    specs = _asked(request)
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


def _asked(request: CompareRequest) -> list[RunnerSpec]:
    """The specs that the request means. The reference takes part only if it is named: it is what others are held to."""
    if request.every_runner and not request.runners:
        return [spec for spec in runner_catalog.load().values() if spec.name != REFERENCE]
    return runner_catalog.select((*request.runners, *_extra_interpreters(request)))


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
        self._clock = Clock()

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
        watch = Watch(planned, len(plan), self._observe, self._clock, left)
        self._clock.begin()
        watch.show("starting")
        trial = run_trial(planned, runner, self._works[planned.cell.workload_digest], self._settings, watch)
        self._clock.end(planned.cell)
        if trial.state == UNSUPPORTED:
            self._skipped.add(planned.cell)
        return trial
