"""What every report says about a campaign in words: what a table has in common, and what identifies the whole."""

from collections.abc import Iterable

from controller.comparison import Comparison, Group
from controller.flags import UNEQUAL, UNPROVEN
from controller.report.hosts import machine_lines
from controller.results import PASS, UNSUPPORTED, Campaign, WorkloadSummary
from controller.rows import Row
from controller.spread import spreads


def footer(comparison: Comparison, stored_at: str = "") -> Iterable[str]:
    """How far accuracies are apart, and what identifies the campaign: digests, machines, seeds, threads, the command,
    the place of the results."""
    campaign = comparison.campaign
    for spread in spreads(comparison):
        yield spread.line()
    for workload in campaign.workloads:
        yield f"workload: {workload.name} sha256 {workload.digest}"
    yield from machine_lines(comparison)
    yield f"setting: {_setting(campaign)}"
    yield f"repeat: {campaign.command}"
    if failed := sum(row.failed for row in comparison.rows):
        again = f"controller compare --resume {campaign.id} --rerun-failed"
        yield f"failed: {plural(failed, 'trial')}; to run them again once the cause is mended: {again}"
    yield f"stored: campaign {campaign.id}{f' in {stored_at}' if stored_at else ''}"


def certificate_line(group: Group) -> str:
    """What is proven of a workload's rows; empty where none was verified."""
    found = [
        row.certificate for row in group.rows if row.certificate is not None and row.certificate.state != UNSUPPORTED
    ]
    good = [certificate for certificate in found if certificate.state == PASS]
    if not found:
        return ""
    against = dict.fromkeys(certificate.against[0] for certificate in good)
    worst = [loss.deviation for certificate in good for loss in certificate.largest if loss.kind == "loss"]
    within = f"; losses within {max(filter(None, worst), default=0.0):.0e}" if worst else ""
    cut = "".join(f" (probed with {text})" for text in dict.fromkeys(each.cut for each in found if each.cut))
    beside = f" as {', '.join(against)}" if against else ""
    return f"same work: {len(good)} of {plural(len(found), 'row')} trained a few steps{beside}{within}{cut}"


def mark(row: Row) -> str:
    """One word for a row that is not ranked because of its certificate; empty for the others."""
    return next((flag.name for flag in row.flags if flag.name in (UNEQUAL, UNPROVEN)), "")


def flag_lines(row: Row) -> Iterable[str]:
    """What makes a row doubtful."""
    return (flag.line() for flag in row.flags)


def plural(count: int, noun: str) -> str:
    """Such as ``1 core``, ``2 cores``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _setting(campaign: Campaign) -> str:
    return ", ".join(
        [
            plural(campaign.trial_count, "trial") + " of each row in fresh processes, interleaved" + _added(campaign),
            plural(campaign.threads, "thread"),
            f"order seed {campaign.order_seed}",
            f"controller {campaign.controller_version}",
        ]
    )


def _added(campaign: Campaign) -> str:
    if campaign.until_precision is None:
        return ""
    return f", more until times are known to {campaign.until_precision:.1%} or {campaign.max_trials} are done"


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
            f"seed {workload.seed}",
        ]
    )
