"""What ``--against`` names, found: published tables of the catalog, or another campaign."""

import re
from typing import TYPE_CHECKING

from controller import against
from controller.against import Against, Printed, PublishedTable
from controller.catalog import published, workloads
from controller.errors import UsageError
from controller.results import WorkloadSummary

if TYPE_CHECKING:
    from controller.comparison import Comparison

PREFIX = "published"


def is_published(text: str) -> bool:
    """Whether it is ``published`` (whatever there is for the workloads) or ``published:NAME``."""
    return text == PREFIX or text.startswith(f"{PREFIX}:")


def tables(text: str, names: "tuple[str, ...]") -> tuple[published.Table, ...]:
    """The published tables that ``text`` means for these workloads. Raises UsageError where none is of them."""
    name = text.removeprefix(PREFIX).removeprefix(":")
    found = [published.find(name)] if name else [table for table in published.tables() if table.workload in names]
    if not found:
        raise UsageError(f"--against {text}: nothing is published of {', '.join(names)}", "controller published lists")
    if found[0].workload not in names:
        raise UsageError(
            f"--against {text}: that table is of {found[0].workload}, which is not compared",
            f"add --workload {found[0].workload}, or write --against {PREFIX}",
        )
    return tuple(found)


def beside(comparison: "Comparison", text: str) -> Against:
    """Published tables beside a comparison. Raises UsageError, UnknownNameError."""
    names = tuple(group.workload.name for group in comparison.groups)
    return against.published(comparison, text, [_plain(table) for table in tables(text, names)])


def _plain(table: published.Table) -> PublishedTable:
    rows = tuple(
        Printed(
            framework=row.framework,
            version=row.version,
            gpu=row.gpu,
            host=row.host,
            variant=row.variant,
            jit=re.search(r"(?<!no )\bJIT\b", row.variant) is not None,
            seconds=row.median_seconds,
            ratio=table.ratio(row),
            note=row.note,
        )
        for row in table.row
    )
    return PublishedTable(table.name, table.title, table.source, table.measure, _standard(table), rows, table.notes)


def _standard(table: published.Table) -> WorkloadSummary:
    return workloads.summarise(workloads.load(table.workload).workload)
