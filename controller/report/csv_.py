"""A campaign as CSV: one row a trial, for spreadsheets and data frames.

Names end in their unit. Columns of phases, memory, telemetry and versions are those that any trial has; a field that a
trial does not have, or that is not a finite number, is empty. Durations of single steps stay in the store; here are
their quartiles.
"""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from controller.comparison import Comparison
from controller.report.json_ import step_summary
from controller.results import Campaign, Measurement, Trial
from controller.rows import Row

_STEPS = ("min", "q1", "median", "q3", "max")


def render(comparison: Comparison, trials: Sequence[Trial]) -> str:
    """The whole as text: a line of names, then the trials in their order; lines end in a line feed."""
    rows = {row.cell: row for row in comparison.rows}
    known = [trial for trial in trials if trial.cell in rows]
    fixed = [_fixed(comparison.campaign, rows[trial.cell], trial) for trial in known]
    further = [_further(trial) for trial in known]
    names = list(dict.fromkeys(name for fields in fixed for name in fields)) or ["campaign", "trial"]
    names += sorted({name for fields in further for name in fields}, key=_group)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    for fields, more in zip(fixed, further, strict=True):
        writer.writerow({name: _text(value) for name, value in (fields | more).items()})
    return stream.getvalue()


def _fixed(campaign: Campaign, row: Row, trial: Trial) -> dict[str, Any]:
    workload, identity, failure = row.workload, trial.identity, trial.failure
    return {
        "campaign": campaign.id,
        "trial": trial.id,
        "started_at": trial.started_at,
        "block": trial.block,
        "position": trial.position,
        "workload": workload.name,
        "workload_sha256": workload.digest,
        "batch_size": workload.batch_size,
        "seed": workload.seed,
        "runner": trial.cell.runner,
        **asdict(trial.cell.variant),
        "host": trial.cell.host,
        "device": trial.cell.device,
        "device_name": identity.device.name if identity else "",
        "device_uuid": identity.device.uuid if identity else "",
        "threads": campaign.threads,
        "runtime": trial.environment.runtime,
        "environment_sha256": trial.environment.digest,
        "service_sha256": identity.service_digest if identity else "",
        "row_flags": " ".join(dict.fromkeys(flag.name for flag in row.flags)),
        "state": trial.state,
        "reason": failure.reason if failure else "",
        "message": failure.message if failure else "",
        **_measured(trial.measurement),
    }


def _measured(run: Measurement | None) -> dict[str, Any]:
    steps = step_summary(run) if run else {}
    seconds = run.measured_seconds if run else None
    return {
        "measured_seconds": seconds,
        "samples": run.sample_count if run else None,
        "samples_per_second": run.sample_count / run.measured_seconds if run and run.measured_seconds > 0 else None,
        "epoch_seconds_median": median(run.epoch_seconds) if run and run.epoch_seconds else None,
        "steps": steps.get("count"),
        **{f"step_seconds_{name}": steps.get(name) for name in _STEPS},
        "loss_first": run.losses[0] if run and run.losses else None,
        "loss_last": run.losses[-1] if run and run.losses else None,
        "test_loss": run.test_loss if run else None,
        "test_accuracy": run.test_accuracy if run else None,
    }


def _further(trial: Trial) -> dict[str, Any]:
    """What depends on the framework and the machine."""
    found: dict[str, Any] = {}
    if run := trial.measurement:
        found |= {f"phase_{name}_seconds": value for name, value in run.phases.items()}
        found |= {f"memory_{entry.kind}_bytes": entry.size_bytes for entry in run.memory}
        found |= {f"telemetry_{name}": value for name, value in run.telemetry.items()}
    if trial.identity:
        found |= {f"version_{name}": value for name, value in trial.identity.versions.items()}
    return found


def _group(name: str) -> tuple[int, str]:
    return ("phase", "memory", "telemetry", "version").index(name.partition("_")[0]), name


def _text(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    return str(value).lower() if isinstance(value, bool) else value
