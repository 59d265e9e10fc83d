"""What every report says about a campaign in words: what a table has in common, and what identifies the whole."""

from collections.abc import Iterable

from controller.comparison import Comparison
from controller.results import Campaign, Machine, WorkloadSummary

_GIBIBYTE = 1024**3


def footer(comparison: Comparison, stored_at: str = "") -> Iterable[str]:
    """What identifies the campaign: digests, machine, seeds, threads, the command, the place of the results."""
    campaign = comparison.campaign
    for workload in campaign.workloads:
        yield f"workload: {workload.name} sha256 {workload.digest}"
    yield f"machine: {machine_line(campaign.machine)}"
    yield f"setting: {_setting(campaign)}"
    yield f"repeat: {campaign.command}"
    yield f"stored: campaign {campaign.id}{f' in {stored_at}' if stored_at else ''}"


def machine_line(machine: Machine) -> str:
    """One line for people."""
    memory = f"{machine.memory_bytes / _GIBIBYTE:.1f} GiB memory"
    parts = [machine.name, machine.system, machine.cpu, plural(machine.cpu_count, "core"), memory, *machine.gpus]
    return ", ".join(part for part in parts if part)


def plural(count: int, noun: str) -> str:
    """Such as ``1 core``, ``2 cores``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _setting(campaign: Campaign) -> str:
    seeds = sorted({workload.seed for workload in campaign.workloads})
    return ", ".join(
        [
            plural(campaign.trial_count, "trial") + " of each row in fresh processes, interleaved",
            plural(campaign.threads, "thread"),
            f"workload seed {', '.join(map(str, seeds))}",
            f"order seed {campaign.order_seed}",
            f"controller {campaign.controller_version}",
        ]
    )


def heading(workload: WorkloadSummary) -> str:
    """What every row of one table has in common."""
    return ", ".join(
        [
            f"{workload.name}: {workload.dataset}",
            f"batch {workload.batch_size}",
            f"{workload.optimizer} {workload.learning_rate:g}",
            f"warm-up {workload.warmup}",
            f"measured {workload.measured}",
            f"{workload.parameter_count:,} parameters",
        ]
    )
