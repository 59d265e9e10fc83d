"""Which trials of an interrupted campaign count as done, and what is said of it. Pure functions of results.

A trial counts as done only if it is known to be of what would run now: the same workload, environment (digest of its
lock or image; the very interpreter where it is the user's own), device by UUID, source of the runner service, and host.
What is not done is run again in the place that it has in the stored order.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from controller.addresses import LOCAL
from controller.errors import UsageError
from controller.results import CANCELLED, FAILED, Campaign, Cell, Environment, Machine, Trial

ASKED = "asked for with --rerun"
FAILED_ASKED = "it failed, and --rerun-failed was given"


@dataclass(frozen=True, slots=True)
class Now:
    """What would run now. ``environments`` by host and runner, None where it cannot be had; ``devices``: the GPU's
    UUID by host, empty on a CPU."""

    environments: Mapping[tuple[str, str], Environment | None]
    devices: Mapping[str, str]
    service_digest: str


@dataclass(frozen=True, slots=True)
class Sorted:
    """``done`` trials stay; the others, ids by their block and cell, are replaced by new ones. ``reasons``: why."""

    done: tuple[Trial, ...] = ()
    outdated: Mapping[tuple[int, Cell], str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


def check_host(campaign: Campaign, machines: Mapping[str, Machine]) -> None:
    """Raises UsageError where a host was another machine: its trials would not belong together. ``machines``: as they
    are now, by host."""
    begun = campaign.machines or {LOCAL: campaign.machine}
    words = (("name", "machine"), ("cpu", "processor"), ("cpu_count", "number of cores"))
    for (host, machine), (name, word) in itertools.product(machines.items(), words):
        then, now = getattr(begun.get(host), name, None), getattr(machine, name)
        if host in begun and then != now:
            where = "" if host == LOCAL else f" on host {host}"
            raise UsageError(
                f"campaign {campaign.id} was begun with another {word}{where}: {then}, here {now}",
                "continue it there, or start a new one",
            )


def sort_out(trials: Sequence[Trial], now: Now, rerun: bool = False, rerun_failed: bool = False) -> Sorted:
    """Parts trials that count as done from those that are run again: with ``rerun`` all of them, with
    ``rerun_failed`` also those that failed."""
    done: list[Trial] = []
    outdated: dict[tuple[int, Cell], str] = {}
    reasons: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        can_run = now.environments.get(trial.cell.place) is not None
        reason = ASKED if rerun and can_run else _reason(trial, now)
        if not reason and rerun_failed and trial.state == FAILED and can_run:
            reason = FAILED_ASKED
        if reason:
            outdated[trial.block, trial.cell] = trial.id
            reasons.setdefault((trial.cell.placed(), reason), []).append(trial)
        else:
            done.append(trial)
    lines = [f"{label}, {len(found)} of its trials: {reason}" for (label, reason), found in reasons.items()]
    return Sorted(tuple(done), outdated, tuple(lines))


def _reason(trial: Trial, now: Now) -> str:
    """Why a trial does not count as done; empty where it does."""
    environment = now.environments.get(trial.cell.place)
    device = now.devices.get(trial.cell.host, "")
    if environment is None:
        return ""  # it cannot be run again
    if trial.state == CANCELLED:
        return "it was cancelled"
    if (trial.environment.runtime, trial.environment.digest) != (environment.runtime, environment.digest):
        return "its environment is another now"
    if not environment.digest and trial.environment.location != environment.location:
        return "its interpreter is another now"
    if trial.identity is None:
        return "it ended before it showed what it ran on"
    found = (
        ("workload", trial.identity.workload_digest, trial.cell.workload_digest),
        ("device", trial.identity.device.uuid if device else "", device),
        ("source of the runner service", trial.identity.service_digest, now.service_digest),
    )
    return next((f"its {what} is another now" for what, then, here in found if then != here), "")


def note(kept: Sorted, moment: str) -> str:
    """What tables say of a continued campaign: how many trials were kept, from when, and why others ran again."""
    again = f"; run again: {'; '.join(kept.reasons)}" if kept.reasons else ""
    if not kept.done:
        return f"continued at {moment}: no trial was kept{again}"
    begun = sorted(trial.started_at for trial in kept.done)
    age = _age(begun[0], moment)
    return f"continued at {moment}: {len(kept.done)} trials from {begun[0]} on were kept, the oldest {age} old{again}"


def _age(begin: str, end: str) -> str:
    """In the largest unit that gives at least one."""
    seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    units: Iterable[tuple[str, int]] = (("d", 86400), ("h", 3600), ("min", 60))
    for unit, size in units:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
