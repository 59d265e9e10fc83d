"""What makes a row doubtful, with its cause in words; a flagged row is never called fastest. Pure functions of trials.

FOREIGN    other programs, or the hypervisor, used more than a tenth of the processors; or another process the device
THROTTLED  the device lowered its clocks while it was measured
SPILLED    more device memory was asked for than the device has
UNSTABLE   steps drifted within the trials, or the first trial was slower than all the others
FALLBACK   a trial computed on another device than the one asked for, or the GPU was idle while it was measured
STORED     two trials took the same time in every single step: one is a copy
SHORT      a trial processed fewer steps than were asked for
UNEQUAL    the row does other work than its workload says; UNPROVEN: its probe broke, so nothing is known
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from controller.results import FAIL, Certificate, Measurement, Trial

UNEQUAL, UNPROVEN = "UNEQUAL", "UNPROVEN"
FOREIGN_SHARE = 0.10
DRIFT = 1.10
SLOW_START = 1.10
THROTTLED_SHARE = 0.05
IDLE_SHARE = 0.005
_MIN_STEPS = 30
_FAILURES = {"FALLBACK": "computed on another device", "SHORT": "processed fewer steps than were asked for"}


@dataclass(frozen=True, slots=True)
class Flag:
    """``name`` as above; ``text`` is the cause, and what to do."""

    name: str
    text: str

    def line(self) -> str:
        return f"{self.name}: {self.text}"


def flags(trials: Sequence[Trial], certificate: Certificate | None) -> tuple[Flag, ...]:
    """The flags of one row, the gravest first."""
    runs = [trial.measurement for trial in trials if trial.measurement is not None]
    found: list[Flag] = [*_unequal(certificate), *_failed(trials)]
    if runs:
        found += [*_stored(runs), *_device(runs), *_foreign(runs), *_drift(runs), *_slow_start(trials)]
    return tuple(found)


def _unequal(certificate: Certificate | None) -> Iterable[Flag]:
    if certificate is not None and certificate.state == FAIL:
        yield Flag(UNEQUAL if certificate.against else UNPROVEN, certificate.text)


def _failed(trials: Sequence[Trial]) -> Iterable[Flag]:
    reasons = [trial.failure.reason for trial in trials if trial.failure is not None]
    for name, text in _FAILURES.items():
        if count := reasons.count(name):
            yield Flag(name, f"{count} of {len(trials)} trials {text}")


def _stored(runs: Sequence[Measurement]) -> Iterable[Flag]:
    """Noise never repeats itself in dozens of steps."""
    seen = [run.step_seconds for run in runs if len(run.step_seconds) >= _MIN_STEPS]
    if copies := len(seen) - len(set(seen)):
        yield Flag("STORED", f"{copies} of {len(runs)} trials took the very same time in every step: a copied result")


def _telemetry(runs: Sequence[Measurement], name: str) -> float | None:
    """Median over the trials that have it."""
    values = [run.telemetry[name] for run in runs if name in run.telemetry]
    return median(values) if values else None


def _device(runs: Sequence[Measurement]) -> Iterable[Flag]:
    busiest = _telemetry(runs, "gpu_utilisation_peak")
    if busiest is not None and busiest < IDLE_SHARE:
        yield Flag("FALLBACK", "the GPU was idle in every sample while it was measured: see what the framework logged")
    throttled = _telemetry(runs, "gpu_throttled_share") or 0.0
    if throttled > THROTTLED_SHARE:
        yield Flag(
            "THROTTLED", f"the GPU lowered its clocks in {throttled:.0%} of the samples: cool it, or lower its load"
        )
    spilled = max((run.telemetry.get("gpu_over_capacity_bytes", 0.0) for run in runs), default=0.0)
    if spilled > 0:
        yield Flag("SPILLED", f"{spilled / 2**20:,.0f} MiB more than the GPU has were in use: lower --batch-size")


def _foreign(runs: Sequence[Measurement]) -> Iterable[Flag]:
    causes = []
    for name, who in (("cpu_other_share", "other programs"), ("cpu_steal_share", "the hypervisor")):
        share = _telemetry(runs, name) or 0.0
        if share > FOREIGN_SHARE:
            causes.append(f"{who} used {share:.0%} of the processors")
    if others := _telemetry(runs, "gpu_other_processes"):
        causes.append(f"{others:.0f} other processes used the GPU")
    if causes:
        yield Flag("FOREIGN", " and ".join(causes) + ": end them, and measure again")


def _drift(runs: Sequence[Measurement]) -> Iterable[Flag]:
    drifts = [drift for run in runs if (drift := _last_to_first(run.step_seconds)) is not None]
    if not drifts:
        return
    middle = median(drifts)
    if not 1 / DRIFT <= middle <= DRIFT:
        advice = "raise --warmup-steps" if middle < 1 else "look for what slows it down"
        yield Flag("UNSTABLE", f"steps at the end took {middle:.2f} times as long as at the start: {advice}")


def _last_to_first(steps: Sequence[float]) -> float | None:
    """Median step of the last third over that of the first; None where there are too few to say."""
    third = len(steps) // 3
    if len(steps) < _MIN_STEPS or median(steps[:third]) <= 0:
        return None
    return median(steps[-third:]) / median(steps[:third])


def _slow_start(trials: Sequence[Trial]) -> Iterable[Flag]:
    timed = sorted(
        (trial.block, trial.measurement.measured_seconds) for trial in trials if trial.measurement is not None
    )
    if len(timed) < 4:
        return
    first, *others = [seconds for _, seconds in timed]
    factor = first / median(others)
    if first > max(others) and factor > SLOW_START:
        yield Flag("UNSTABLE", f"the first trial took {factor:.2f} times as long as the others: raise --trials")
