"""Carries a comparison out: all that it needs, then certificates, then every trial in its planned place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic, sleep

from trainyard.v1.workload_pb2 import Workload

import controller
from controller import calibration, hosts, interrupts, paths
from controller.addresses import LOCAL
from controller.catalog import runners as runner_catalog
from controller.comparison import compare
from controller.datasets import prepare as datasets
from controller.errors import ControllerError, RunnerError, StoreBusyError, UsageError
from controller.events import Note, Observer, TrialDone
from controller.execution import Work, connected, impossible, now, run_trial
from controller.places import Place, Quiet
from controller.plan import PlannedTrial, interleave
from controller.preparation import CompareRequest, Ready, prepare
from controller.probing import Form, Runner, form_of
from controller.results import (
    FAIL,
    UNSUPPORTED,
    Calibration,
    Campaign,
    Cell,
    CellCertificate,
    Environment,
    Failure,
    Trial,
)
from controller.resuming import Now, Sorted, check_host, note, sort_out
from controller.running import held
from controller.runtimes.base import PreparedRunner, StartOptions
from controller.store import Store
from controller.verification import Verified, verify_cells
from controller.watching import Clock, Watch
from controller.wishes import REFERENCE

_NO_ENVIRONMENT = "NO_ENVIRONMENT"
# How long a trial that cannot be stored is tried again, and how often.
_KEEP_SECONDS, _KEEP_PAUSE_SECONDS = 600.0, 2.0
UNVERIFIED = "the rows are not verified (--no-verify): nothing proves that they did the same work"


class CampaignInterrupted(KeyboardInterrupt):
    """Ctrl-C after the campaign began; what had finished is stored under ``campaign``."""

    def __init__(self, campaign: Campaign) -> None:
        super().__init__()
        self.campaign = campaign


def run(request: CompareRequest, observe: Observer, store: Store) -> Campaign:
    """Carries a comparison out and returns its campaign; the trials are in the store.

    Raises ControllerError where nothing could be compared at all, CampaignInterrupted on Ctrl-C during trials."""
    if request.resumed is not None:
        with held(request.resumed.id):
            return _continue(request.resumed, request, observe, store)
    ready = prepare(request, observe)
    with held(ready.campaign):
        verified = _verified_if_asked(ready, request, observe, store)
        campaign = _new(request, ready, verified, _calibrated_if_asked(ready, request, observe))
        store.add_campaign(campaign)
        return _walk(campaign, ready, request, observe, store, Sorted())


def _continue(campaign: Campaign, request: CompareRequest, observe: Observer, store: Store) -> Campaign:
    """The rest of an interrupted campaign, in its stored order."""
    check_host(campaign, {LOCAL: hosts.machine()})  # at once; of other hosts when they have answered
    ready = prepare(request, observe)
    check_host(campaign, ready.machines)
    if missing := [cell.placed() for cell in campaign.cells if cell not in ready.cells]:
        raise UsageError(f"campaign {campaign.id} cannot be continued: no {', '.join(missing)} here", "start a new one")
    environments = {
        place: None if isinstance(found, ControllerError) else found.environment
        for place, found in ready.runners.items()
    }
    devices = {name: settings.gpu_uuid for name, settings in ready.settings.items()}
    here = Now(environments, devices, ready.common.expected_service)
    kept = sort_out(store.trials(campaign.id), here, request.rerun, request.rerun_failed)
    said = note(kept, now())
    observe(Note(said))
    verified = _verified_if_asked(replace(ready, cells=campaign.cells), request, observe, store)
    notes = dict.fromkeys((*campaign.notes, *ready.notes, *verified.notes, said))
    changed = replace(campaign, notes=tuple(notes), certificates=verified.certificates)
    store.change_campaign(changed)
    return _walk(changed, ready, request, observe, store, kept)


def _new(request: CompareRequest, ready: Ready, verified: Verified, calibrations: tuple[Calibration, ...]) -> Campaign:
    machines = ready.machines
    return Campaign(
        id=ready.campaign,
        created_at=now(),
        controller_version=controller.__version__,
        command=request.command,
        machine=machines.get(LOCAL) or next(iter(machines.values()), None) or hosts.machine(),
        order_seed=request.order_seed,
        trial_count=request.trials,
        threads=ready.common.threads,
        cells=ready.cells,
        workloads=ready.summaries,
        notes=(*ready.notes, *verified.notes),
        certificates=verified.certificates,
        until_precision=request.until_precision,
        max_trials=request.max_trials,
        calibrations=calibrations,
        machines=machines if list(machines) != [LOCAL] else {},
    )


def _walk(
    campaign: Campaign, ready: Ready, request: CompareRequest, observe: Observer, store: Store, kept: Sorted
) -> Campaign:
    """Runs what is left; returns the campaign with what is to be said of how it went."""
    pauses = {name: place.pause(campaign.id, request.pause_seconds) for name, place in ready.places.items()}
    walk = _Walk(campaign, ready, observe, store, kept, pauses)
    try:
        walk.run()
    except KeyboardInterrupt:
        raise CampaignInterrupted(walk.told(campaign)) from None
    return walk.told(campaign)


def calibrate(request: CompareRequest, observe: Observer) -> tuple[Calibration, ...]:
    """Measures each host, and a call to a reference runner that is had as the request says. Raises ControllerError
    where there is none."""
    ready = prepare(request, observe)
    return tuple(_calibration(ready, place, ready.runners[name, REFERENCE]) for name, place in ready.places.items())


def _calibrated_if_asked(ready: Ready, request: CompareRequest, observe: Observer) -> tuple[Calibration, ...]:
    if not request.calibrate:
        return ()
    # A reference is there if rows were held to it; none is built for a round trip alone.
    runner = _reference(ready, observe)() if request.verify else RunnerError("no reference runner (--no-verify)")
    elsewhere = RunnerError("only measured on the controller's machine")
    return tuple(
        _calibration(ready, place, elsewhere if place.address.is_served else runner) for place in ready.places.values()
    )


def _calibration(ready: Ready, place: Place, runner: PreparedRunner | ControllerError) -> Calibration:
    found = place.calibrate()
    settings = replace(ready.common, device="cpu", gpu_uuid="")
    options = StartOptions(settings.threads, paths.cache_folder() / "blobs", settings.logs / "calibration.log")
    try:
        if isinstance(runner, ControllerError):
            raise runner
        with connected(runner, replace(options, campaign=settings.campaign), settings) as (client, _):
            return replace(found, values={**found.values, "rpc_round_trip_s": calibration.round_trip(client)})
    except ControllerError as error:
        return replace(found, absent={**found.absent, "rpc_round_trip_s": error.line()})


@dataclass(frozen=True, slots=True)
class Verification:
    """Cells without trials: their certificates, and what stands in the way of the others (``absent``: host and runner
    to why it does not stand)."""

    cells: tuple[Cell, ...]
    certificates: tuple[CellCertificate, ...]
    absent: Mapping[tuple[str, str], str]
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
    absent = {place: found.line() for place, found in ready.runners.items() if isinstance(found, ControllerError)}
    return Verification(ready.cells, verified.certificates, absent, (*ready.notes, *verified.notes))


def _verified_if_asked(ready: Ready, request: CompareRequest, observe: Observer, store: Store) -> Verified:
    return _verified(ready, request, observe, store) if request.verify else Verified((), (UNVERIFIED,))


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
            return ready.near.prepare(specs, "cpu", observe)[REFERENCE]
        except ControllerError as error:
            return error

    return reference


# --- the walk ----------------------------------------------------------------------------------------------


class _Walk:
    """Runs the planned trials one after the other and stores each as it ends."""

    def __init__(
        self,
        campaign: Campaign,
        ready: Ready,
        observe: Observer,
        store: Store,
        kept: Sorted,
        pauses: Mapping[str, Quiet],
    ) -> None:
        self._pauses = pauses
        self._said: list[str] = []
        self._campaign = campaign
        self._ready = ready
        self._observe = observe
        self._store = store
        self._kept = kept
        self._done = {(trial.block, trial.cell) for trial in kept.done}
        self._skipped = {trial.cell for trial in kept.done if _never_works(trial)}
        self._clock = Clock()

    def run(self) -> None:
        campaign = self._campaign
        # Of a campaign that is continued, blocks that were added are completed too.
        blocks = [block for block, _ in (*self._done, *self._kept.outdated)]
        count = max([campaign.trial_count, *(block + 1 for block in blocks)])
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
            place = (planned.block, planned.cell)
            if planned.cell not in self._skipped and place not in self._done:
                trial = self._one(planned, plan)
                self._keep(trial, self._kept.outdated.get(place, ""))
                self._observe(TrialDone(planned.position + 1, len(plan), trial))

    def _keep(self, trial: Trial, outdated: str) -> None:
        """Stores a trial. A full disk or another program's lock may pass: what has been measured is not given up."""
        deadline = monotonic() + _KEEP_SECONDS
        while True:
            try:
                return self._store.add_trial(trial, outdated)
            except StoreBusyError as error:
                if monotonic() > deadline:
                    raise
                self._observe(Note(f"the trial that has just ended cannot be stored yet: {error.line()}; trying again"))
                sleep(_KEEP_PAUSE_SECONDS)

    def told(self, campaign: Campaign) -> Campaign:
        """The campaign with notes on how it went, also in the store."""
        if not self._said:
            return campaign
        changed = replace(campaign, notes=tuple(dict.fromkeys((*campaign.notes, *self._said))))
        self._store.change_campaign(changed)
        return changed

    def _settle(self, host: str) -> None:
        """Waits until the machine is quiet; gives up in the end, and says so."""
        if text := self._pauses[host].wait():
            said = text if host == LOCAL else f"{host}: {text}"
            self._said.append(said)
            self._observe(Note(said))

    def _is_too_rough(self) -> bool:
        """Whether the time of a row that can be measured is not yet known as exactly as was asked."""
        campaign = self._campaign
        if campaign.until_precision is None:
            return False
        rows = compare(campaign, self._store.trials(campaign.id)).rows
        spreads = [row.seconds for row in rows if row.seconds is not None and row.cell not in self._skipped]
        return any(spread.precision is None or spread.precision > campaign.until_precision for spread in spreads)

    def _one(self, planned: PlannedTrial, plan: Sequence[PlannedTrial]) -> Trial:
        runner = self._ready.runners[planned.cell.place]
        if isinstance(runner, ControllerError):
            # There will be no more of them: one row that says why is enough.
            self._skipped.add(planned.cell)
            failure = Failure(_NO_ENVIRONMENT, runner.line(), getattr(runner, "log_tail", ""))
            return impossible(planned, self._campaign.id, Environment("none"), failure)
        rest = [later for later in plan[planned.position :] if (later.block, later.cell) not in self._done]
        left = [later.cell for later in rest if later.cell not in self._skipped]
        watch = Watch(planned, len(plan), self._observe, self._clock, left)
        self._clock.begin()
        watch.show("starting")
        host = planned.cell.host
        self._settle(host)
        work = self._ready.works[planned.cell.workload_digest]
        trial = run_trial(planned, runner, work, self._ready.settings[host], watch)
        self._clock.end(planned.cell)
        if trial.state == UNSUPPORTED:
            self._skipped.add(planned.cell)
        return trial


def _never_works(trial: Trial) -> bool:
    """Whether the trial stands for all of its cell."""
    return trial.state == UNSUPPORTED or (trial.failure is not None and trial.failure.reason == _NO_ENVIRONMENT)
