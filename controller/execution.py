"""One trial: a fresh runner is started, proves what it is, trains, and leaves a ``Trial``, whatever happens."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from trainyard.v1 import runner_pb2, workload_pb2

from controller.acceptance import asked, judged
from controller.client import Description, Outcome, Progress, RunnerClient, Started, identity
from controller.errors import RunnerError, TrialRefused
from controller.plan import PlannedTrial
from controller.results import (
    FAILED,
    UNSUPPORTED,
    Cell,
    Device,
    Environment,
    Failure,
    Identity,
    Measurement,
    Trial,
    Variant,
)
from controller.runtimes.base import PreparedRunner, StartOptions
from controller.telemetry.sampler import Sampler

STALL_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Work:
    """One workload ready to be sent: its exact bytes, their digest, and the arrays by role."""

    message: bytes
    digest: str
    arrays: dict[str, str]
    blobs: Path


@dataclass(frozen=True, slots=True)
class Settings:
    """What is equal for every trial of a campaign. ``expected_service`` is the digest of the code that was staged;
    ``telemetry``: whether this machine is sampled while a runner trains on it."""

    campaign: str
    device: str
    gpu_uuid: str
    threads: int
    logs: Path
    expected_service: str
    telemetry: bool = True


Watch = Callable[[Started | Progress], None]


def run_trial(planned: PlannedTrial, runner: PreparedRunner, work: Work, settings: Settings, watch: Watch) -> Trial:
    """Runs one planned trial. Raises nothing but KeyboardInterrupt and what is a bug: failures are results."""
    trial_id, started_at = uuid.uuid4().hex, now()
    found: Identity | None = None
    measurement: Measurement | None = None
    try:
        request = _request(trial_id, planned.cell, work, settings)
        description, outcome = _attempt(request, planned.cell, runner, work, settings, watch)
        state, failure = judged(outcome, asked(work.message, work.blobs / f"{work.arrays['y_train']}.npy"))
        measurement = outcome.measurement if failure is None else None
        found = _identity(description, outcome)
    except TrialRefused as error:
        unsupported = error.reason.startswith("UNSUPPORTED")
        state, failure = UNSUPPORTED if unsupported else FAILED, Failure(error.reason, error.line(), error.log_tail)
    except RunnerError as error:
        state, failure = FAILED, Failure(error.reason, error.line(), error.log_tail)
    return Trial(
        id=trial_id,
        campaign=settings.campaign,
        cell=planned.cell,
        block=planned.block,
        position=planned.position,
        state=state,
        started_at=started_at,
        environment=runner.environment,
        identity=found,
        measurement=measurement,
        failure=failure,
    )


def impossible(planned: PlannedTrial, campaign: str, environment: Environment, failure: Failure) -> Trial:
    """The record of a trial that never started, because there is no runner for it."""
    return Trial(
        id=uuid.uuid4().hex,
        campaign=campaign,
        cell=planned.cell,
        block=planned.block,
        position=planned.position,
        state=FAILED,
        started_at=now(),
        environment=environment,
        failure=failure,
    )


def now() -> str:
    """UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _attempt(
    request: Any, cell: Cell, runner: PreparedRunner, work: Work, settings: Settings, watch: Watch
) -> tuple[Description, Outcome]:
    log = settings.logs / f"{runner.spec.name}-{request.trial_id[:8]}.log"
    options = StartOptions(
        threads=settings.threads,
        blobs=work.blobs,
        log=log,
        gpu_uuid=settings.gpu_uuid,
        arrays=tuple(work.arrays.values()),
        campaign=settings.campaign,
        trial=request.trial_id,
    )
    with _sampler(cell, settings) as sampler, connected(runner, options, settings) as (client, description):
        began = monotonic()

        def follow(event: Started | Progress) -> None:
            if isinstance(event, Started):
                sampler.begin(client.pid)
            watch(event)

        outcome = client.train(
            request,
            check=lambda started: _check_started(started, work, settings),
            watch=follow,
            stall_seconds=STALL_SECONDS,
        )
        if outcome.measurement is not None:
            sampled = sampler.measured(outcome.measurement, began + outcome.seconds)
            outcome = replace(outcome, measurement=sampled)
    return description, outcome


def _sampler(cell: Cell, settings: Settings) -> Sampler:
    if not settings.telemetry:
        return Sampler(off="telemetry is off")
    return Sampler(settings.gpu_uuid, "" if cell.host == "local" else f"{cell.host} is another machine")


@contextmanager
def connected(
    runner: PreparedRunner, options: StartOptions, settings: Settings
) -> Iterator[tuple[RunnerClient, Description]]:
    """Starts the runner, checks that it is what its name says, and stops it in the end. Where the connection breaks
    because the process ended, that is the error. Raises RunnerError, TrialRefused."""
    with runner.start(options) as running, RunnerClient(running.target, running.pid) as client:
        try:
            description = client.describe()
            _check_description(description, runner, settings)
            yield client, description
        except TrialRefused:
            raise
        except RunnerError as error:
            gone = running.exit_reason()
            if gone is None:
                raise
            raise RunnerError(gone.message, reason=gone.reason, log_tail=gone.log_tail) from error


def _identity(description: Description, outcome: Outcome) -> Identity | None:
    return None if outcome.started is None else identity(description, outcome.started, outcome.facts)


def _check_description(description: Description, runner: PreparedRunner, settings: Settings) -> None:
    """Refuses a runner that is not what its name says."""
    spec = runner.spec
    found = description.versions.get(spec.distribution, "none")
    if runner.environment.runtime != "interpreter" and found != spec.version:
        message = f"{spec.name} runs {spec.distribution} {found}, not {spec.version}"
        raise RunnerError(message, "rebuild its environment", "WRONG_VERSION")
    if description.service_digest != settings.expected_service:
        message = f"{spec.name} runs other service code than this controller's"
        raise RunnerError(message, "rebuild it", "STALE_SERVICE")


def _check_started(started: Started, work: Work, settings: Settings) -> Failure | None:
    if started.workload_digest != work.digest:
        return Failure("WRONG_WORKLOAD", f"the runner trains workload {started.workload_digest}, not {work.digest}")
    return wrong_device(started.device, settings)


def wrong_device(found: Device, settings: Settings) -> Failure | None:
    """Why the device that a framework reports is not the one that was asked for; None where it is."""
    if found.kind != settings.device:
        where = found.kind or "an unknown device"
        return Failure("FALLBACK", f"the framework computes on {where}, not on {settings.device}")
    if settings.gpu_uuid and found.uuid != settings.gpu_uuid:
        where = found.uuid or "a GPU without UUID"
        return Failure("FALLBACK", f"the framework computes on {where}, not on {settings.gpu_uuid}")
    return None


def _request(trial_id: str, cell: Cell, work: Work, settings: Settings) -> Any:
    return runner_pb2.TrainRequest(
        trial_id=trial_id,
        workload=work.message,
        arrays=[runner_pb2.Array(role=role, sha256=digest) for role, digest in work.arrays.items()],
        execution=execution(cell.variant, settings),
    )


def execution(variant: Variant, settings: Settings) -> Any:
    """How work is executed, as an Execution message."""
    return runner_pb2.Execution(
        device=settings.device,
        gpu_uuid=settings.gpu_uuid,
        variant=_variant(variant),
        threads=settings.threads,
        tf32=variant.precision == "tf32",
        autotune=True,
        memory_growth=True,
    )


def _variant(variant: Variant) -> Any:
    return workload_pb2.Variant(
        jit=variant.jit,
        layout=variant.layout,
        precision=variant.precision,
        pipeline=variant.pipeline,
        workers=variant.workers,
        prefetch=variant.prefetch,
    )
