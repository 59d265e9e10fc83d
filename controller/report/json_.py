"""A comparison as JSON for programs, with every number that a table shows and every trial behind it.

Keys of version 1: ``format``, ``version``, ``campaign`` (as in results.Campaign), ``stored_at``, ``footer``,
``accuracy`` (as in spread.Spread),
``workloads`` (heading, verdict, fastest, ties, problems, same work), ``rows`` (one a cell, in the table's order;
seconds, bytes, fractions; ``certificate`` as in results.Certificate; ``shown`` holds the table's texts) and
``trials``; ``against`` (numbers of elsewhere by workload, or null). ``controller schema`` prints all of it as a JSON
Schema. Keys are only added within a version. A number that does not exist or is not finite is null. The durations
of single steps stay in the store; here is their summary.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from statistics import quantiles
from typing import Any

from controller.against import Against
from controller.between import HostRatio
from controller.comparison import Comparison, Group
from controller.report.beside import beside_document
from controller.report.columns import shown
from controller.report.words import certificate_line, footer, heading
from controller.results import Measurement, Trial
from controller.rows import Row
from controller.spread import spreads

FORMAT = "trainyard-comparison"
VERSION = 1


def document(
    comparison: Comparison, trials: Sequence[Trial], stored_at: str = "", against: Against | None = None
) -> dict[str, Any]:
    """The whole as plain values."""
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "campaign": asdict(comparison.campaign),
        "stored_at": stored_at,
        "footer": list(footer(comparison, stored_at)),
        "accuracy": [asdict(spread) for spread in spreads(comparison)],
        "workloads": [_group(group) for group in comparison.groups],
        "rows": [_row(row) for row in comparison.rows],
        "trials": [_trial(trial) for trial in trials],
        "against": beside_document(against),
    }
    finite: dict[str, Any] = _finite(whole)
    return finite


def render(comparison: Comparison, trials: Sequence[Trial], stored_at: str = "", against: Against | None = None) -> str:
    """The document as text, ending in a line feed."""
    return json.dumps(document(comparison, trials, stored_at, against), indent=2, allow_nan=False) + "\n"


def _group(group: Group) -> dict[str, Any]:
    return {
        "name": group.workload.name,
        "digest": group.workload.digest,
        "heading": heading(group.workload),
        "verdict": group.verdict,
        "fastest": group.fastest or None,
        "tied": list(group.tied),
        "same_work": certificate_line(group),
        "between_hosts": [_between(found) for found in group.between],
        "problems": [{**asdict(problem), "text": problem.text()} for problem in group.problems],
    }


def _between(found: HostRatio) -> dict[str, Any]:
    interval = asdict(found.ratio.interval) if found.ratio else None
    different = found.ratio.is_different if found.ratio else None
    cell = found.cell
    return {
        "label": cell.label(), "host": cell.host, "base": found.base, "ratio": found.value,
        "ratio_interval": interval, "is_different": different, "text": found.text(),
    }  # fmt: skip


def _row(row: Row) -> dict[str, Any]:
    workload = row.workload
    identity, environment = row.identity, row.environment
    return {
        "label": row.label(),
        "runner": row.cell.runner,
        "variant": {"label": row.cell.variant.label(), **asdict(row.cell.variant)},
        "host": row.cell.host,
        "device": row.cell.device,
        "workload": workload.name,
        "workload_digest": workload.digest,
        "state": row.state,
        "text": row.text,
        "rank": row.rank,
        "trials": {"succeeded": row.succeeded, "asked": row.asked},
        "epochs": workload.epochs,
        "steps": workload.steps,
        "batch_size": workload.batch_size,
        "learning_rate": workload.learning_rate,
        "optimizer": workload.optimizer,
        "warmup": workload.warmup,
        "seconds": asdict(row.seconds) if row.seconds else None,
        "ratio": row.ratio,
        "ratio_interval": asdict(row.ratio_interval) if row.ratio_interval else None,
        "ties": row.ties,
        "flags": [asdict(flag) for flag in row.flags],
        "epoch_seconds": row.epoch_seconds,
        "step_seconds": row.step_seconds,
        "samples_per_second": row.samples_per_second,
        "accuracy": row.accuracy,
        "test_loss": row.test_loss,
        "memory": [asdict(entry) for entry in row.memory],
        "versions": identity.versions if identity else {},
        "python": identity.versions.get("python", "") if identity else "",
        "parameter_count": identity.parameter_count if identity else None,
        "environment": asdict(environment) if environment else None,
        "certificate": asdict(row.certificate) if row.certificate else None,
        "shown": shown(row),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    result = asdict(trial)
    if trial.measurement is not None:
        result["measurement"]["step_seconds"] = step_summary(trial.measurement)
    return result


def step_summary(run: Measurement) -> dict[str, Any]:
    """Number of steps, and their shortest, quartiles and longest, in seconds."""
    steps = run.step_seconds
    if not steps:
        return {"count": 0}
    low, middle, high = quantiles(steps, n=4, method="inclusive") if len(steps) > 1 else (steps[0],) * 3
    return {"count": len(steps), "min": min(steps), "q1": low, "median": middle, "q3": high, "max": max(steps)}


def _finite(value: Any) -> Any:
    """The same with null for every number that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
