"""Whether a runner's result can be that of the trial that was asked for; what it says is not taken on trust.

PROTOCOL      it contradicts itself: numbers that are not finite, parts that do not add up to the whole
SHORT         fewer steps than the workload has
IMPLAUSIBLE   it measured longer than the call took: the result is of another run
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainyard import graph
from trainyard.v1.workload_pb2 import Workload

from controller.client import Outcome
from controller.results import CANCELLED, FAILED, SUCCEEDED, Failure, Measurement

# Durations are sums of others, kept as float32 step by step.
_ROUNDING = 1e-3
_SLACK_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Asked:
    """What the workload has: measured steps, and samples in each."""

    steps: int
    batch_size: int


def asked(message: bytes, labels: Path) -> Asked:
    """From a serialized Workload and the file of its training labels."""
    import numpy as np

    schedule = Workload.FromString(message).schedule
    samples = len(np.load(labels, mmap_mode="r", allow_pickle=False))
    return Asked(int(graph.step_counts(schedule, samples)[1]), int(schedule.batch_size))


def judged(outcome: Outcome, wanted: Asked) -> tuple[str, Failure | None]:
    """The state and failure of an outcome; one that says that it succeeded has to show it."""
    if outcome.failure is not None:
        return FAILED, outcome.failure
    if outcome.state == CANCELLED:
        return CANCELLED, Failure("CANCELLED", "the trial was cancelled")
    run = outcome.measurement
    if outcome.state != SUCCEEDED or run is None or outcome.started is None:
        return FAILED, Failure("PROTOCOL", f"the runner ended in state {outcome.state!r} without a result")
    failure = _short(run, wanted) or _malformed(run, wanted) or _implausible(run, outcome.seconds)
    return (FAILED if failure else SUCCEEDED), failure


def _short(run: Measurement, wanted: Asked) -> Failure | None:
    """By the workload, not by what the runner says that it has."""
    if len(run.step_seconds) == wanted.steps:
        return None
    return Failure("SHORT", f"the runner measured {len(run.step_seconds)} of {wanted.steps} steps")


def _malformed(run: Measurement, wanted: Asked) -> Failure | None:
    wrong = next(_contradictions(run, wanted), None)
    return Failure("PROTOCOL", f"the runner's result contradicts itself: {wrong}") if wrong else None


def _contradictions(run: Measurement, wanted: Asked) -> Iterator[str]:
    durations = (run.measured_seconds, *run.phases.values(), *run.step_seconds, *run.epoch_seconds)
    if not all(math.isfinite(seconds) and seconds >= 0 for seconds in durations) or run.measured_seconds <= 0:
        yield "a duration is no positive number"
        return
    # The last step may return before the device is done, so steps can add up to less than the whole.
    limit = run.measured_seconds * (1 + _ROUNDING) + _SLACK_SECONDS
    for name, parts in (("steps", run.step_seconds), ("epochs", run.epoch_seconds)):
        if math.fsum(parts) > limit:
            yield f"its {name} add up to {math.fsum(parts):.3f} s, the whole is {run.measured_seconds:.3f} s"
    if run.sample_count != wanted.steps * wanted.batch_size:
        yield f"{run.sample_count:,} samples in {wanted.steps:,} steps of {wanted.batch_size:,}"
    if len(run.losses) != len(run.loss_steps) or any(not 0 <= step < wanted.steps for step in run.loss_steps):
        yield "its losses are not those of its steps"
    if not all(map(math.isfinite, (*run.losses, run.test_loss))) or not 0 <= run.test_accuracy <= 1:
        yield "a loss or accuracy is out of range"


def _implausible(run: Measurement, seconds: float) -> Failure | None:
    """The call, on this side's clock, holds all that was measured within it."""
    if run.measured_seconds <= seconds * (1 + _ROUNDING) + _SLACK_SECONDS:
        return None
    return Failure(
        "IMPLAUSIBLE",
        f"the runner says that it measured {run.measured_seconds:.2f} s, but answered after {seconds:.2f} s: "
        "the result is of another run",
    )
