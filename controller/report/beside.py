"""Numbers of elsewhere beside a comparison's rows: columns, lines under the table, and plain values."""

from collections.abc import Iterable
from typing import Any

from controller.against import SECONDS, Against, Setup
from controller.comparison import Group
from controller.report.columns import ABSENT, Column, number
from controller.rows import Row


def beside_columns(group: Group, against: Against | None) -> tuple[Column, ...]:
    """One column for each origin of numbers; they are never lost on a narrow terminal, because they were asked for."""
    if against is None or group.workload.digest not in against.groups:
        return ()
    return tuple(_column(setup) for setup in against.groups[group.workload.digest].setups)


def _column(setup: Setup) -> Column:
    def text(row: Row) -> str:
        value = setup.values.get(row.cell)
        if value is None:
            return ABSENT
        return number(value.seconds) + (f" ({value.ratio:.2f})" if value.ratio is not None else "")

    return Column(setup.key, f"{setup.header} {unit(setup)}", text)


def unit(setup: Setup) -> str:
    """As in a heading."""
    return "s" if setup.unit == SECONDS else "s/epoch"


def beside_lines(group: Group, against: Against | None) -> Iterable[str]:
    """What the columns are, and what is not alike."""
    found = against.groups.get(group.workload.digest) if against is not None else None
    if found is None:
        return
    yield f"against {found.title}; not measured together, so nothing is claimed"
    for setup in found.setups:
        yield f"  {setup.header} {unit(setup)}: {setup.meaning}"
    yield from (f"  {line}" for line in found.lines)


def beside_document(against: Against | None) -> dict[str, Any] | None:
    """Plain values: what was named, and for each workload the numbers by the label of their row."""
    if against is None:
        return None
    workloads = [
        {
            "digest": digest,
            "title": beside.title,
            "lines": list(beside.lines),
            "columns": [_setup(setup) for setup in beside.setups],
        }
        for digest, beside in against.groups.items()
    ]
    return {"name": against.name, "lines": list(against.lines), "workloads": workloads}


def _setup(setup: Setup) -> dict[str, Any]:
    values = [
        {"runner": cell.runner, "variant": cell.variant.label(), "host": cell.host, "device": cell.device,
         "seconds": value.seconds, "ratio": value.ratio}
        for cell, value in setup.values.items()
    ]  # fmt: skip
    return {"header": setup.header, "unit": setup.unit, "meaning": setup.meaning, "values": values}
