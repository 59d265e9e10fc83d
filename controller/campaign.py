"""Carries a comparison out: all that it needs, then certificates, then every trial in its planned place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainyard.v1.workload_pb2 import Workload

import controller
from controller import hosts, interrupts, paths
from controller.catalog import runners as runner_catalog
from controller.comparison import compare
from controller.datasets import prepare as datasets
from controller.errors import ControllerError
from controller.events import Observer, TrialDone
from controller.execution import Settings, Work, impossible, now, run_trial
from controller.plan import PlannedTrial, interleave
from controller.preparation import CompareRequest, Ready, prepare
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
)
from controller.runtimes.base import PreparedRunner
from controller.store import Store
from controller.verification import REFERENCE, Verified, verify_cells
from controller.watching import Clock, Watch

UNVERIFIED = "the rows are not verified (--no-verify): nothing proves that they did the same work"


class CampaignInterrupted(KeyboardInterrupt):
    """Ctrl-C after the campaign began; what had finished is stored under ``campaign``."""

    def __init__(self, campaign: Campaign) -> None:
        super().__init__()
        self.campaign = campaign


def run(request: CompareRequest, observe: Observer, store: Store) -> Campaign:
    """Carries a comparison out and returns its campaign; the trials are in the store.

    Raises ControllerError where nothing could be compared at all, CampaignInterrupted on Ctrl-C during trials."""
    ready = prepare(request, observe)
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
        until_precision=request.until_precision,
        max_trials=request.max_trials,
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
    ready = prepare(request, observe)
    verified = _verified(ready, request, observe, store)
    absent = {name: found.line() for name, found in ready.runners.items() if isinstance(found, ControllerError)}
    return Verification(ready.cells, verified.certificates, absent, (*ready.notes, *verified.notes))


def _verified(ready: Ready, request: CompareRequest, observe: Observer, store: Store) -> Verified:
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


def _reference(ready: Ready, observe: Observer) -> Runner:
    """The reference runner, had like the others when it is first needed. It computes on the CPU."""

    def reference() -> PreparedRunner | ControllerError:
        try:
            specs = runner_catalog.select([REFERENCE])
            return ready.runtime.prepare(specs, "cpu", observe)[REFERENCE]
        except ControllerError as error:
            return error

    return reference


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
        campaign, count = self._campaign, self._campaign.trial_count
        plan = interleave(campaign.cells, count, campaign.order_seed)
        self._walk(plan, 0)
        while count < campaign.max_trials and self._is_too_rough():
            count += 1
            longer = interleave(campaign.cells, count, campaign.order_seed)
            self._walk(longer, len(plan))
            plan = longer

    def _walk(self, plan: Sequence[PlannedTrial], begin: int) -> None:
        for planned in plan[begin:]:
            interrupts.check()
            if planned.cell not in self._skipped:
                trial = self._one(planned, plan)
                self._store.add_trial(trial)
                self._observe(TrialDone(planned.position + 1, len(plan), trial))

    def _is_too_rough(self) -> bool:
        """Whether the time of a row that can be measured is not yet known as exactly as was asked."""
        campaign = self._campaign
        if campaign.until_precision is None:
            return False
        rows = compare(campaign, self._store.trials(campaign.id)).rows
        spreads = [row.seconds for row in rows if row.seconds is not None and row.cell not in self._skipped]
        return any(spread.precision is None or spread.precision > campaign.until_precision for spread in spreads)

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
