"""Which tables a terminal shows, of which rows, in which order and with which columns."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from controller.against import Against
from controller.comparison import Comparison
from controller.errors import UnknownNameError, UsageError
from controller.report.beside import beside_columns
from controller.report.columns import ABSENT, COLUMNS, Column, filled
from controller.rows import Row

WORKLOAD, RUNNER, HOST = "workload", "runner", "host"
_NUMBER = re.compile(r"-?[\d,]*\.?\d+(e[+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class View:
    """``columns`` are keys in their order, empty for all that have something in them; ``sort`` is a key, "-" before it
    for the largest first, or empty for the order of the comparison; ``group_by`` is what one table is of."""

    columns: tuple[str, ...] = ()
    sort: str = ""
    group_by: str = WORKLOAD


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table. ``fixed``: the columns were asked for, so none may be lost."""

    title: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    fixed: bool


def view_of(columns: str | None, sort: str | None, group_by: str) -> View:
    """From what was written: names of columns with commas between them. Raises UsageError."""
    names = tuple(name.strip() for name in columns.split(",")) if columns is not None else ()
    known = [WORKLOAD, *(column.key for column in COLUMNS)]
    for name in [*names, *([sort.removeprefix("-")] if sort else [])]:
        if name not in known:
            raise UnknownNameError("column", name, known)
    if len(set(names)) < len(names):
        raise UsageError(f"--columns {columns} names a column twice", "name each once")
    return View(names, sort or "", group_by)


def sheets(comparison: Comparison, view: View, against: Against | None) -> tuple[Sheet, ...]:
    """The tables that are not of one workload; those of one are its group with ``arranged`` rows and columns."""
    of: Callable[[Row], str] = _HOLDERS[view.group_by]
    found = []
    for name in dict.fromkeys(of(row) for row in comparison.rows):
        rows = [row for row in comparison.rows if of(row) == name]
        further = _merged(column for group in comparison.groups for column in beside_columns(group, against))
        found.append(arranged(f"{view.group_by}: {name}", rows, view, further))
    return tuple(found)


_HOLDERS: dict[str, Callable[[Row], str]] = {
    WORKLOAD: lambda row: row.workload.digest,
    RUNNER: lambda row: row.cell.runner,
    HOST: lambda row: row.cell.host,
}


def arranged(title: str, rows: Sequence[Row], view: View, further: Sequence[Column]) -> Sheet:
    """A table of these rows as the view says, ``further`` columns at its end."""
    ordered = _sorted(rows, view.sort)
    workload = _workload(rows)
    if view.columns:
        known = {column.key: column for column in (workload, *COLUMNS)}
        return Sheet(title, ordered, (*(known[name] for name in view.columns), *further), True)
    first = () if view.group_by == WORKLOAD else (workload,)
    return Sheet(title, ordered, (*first, *filled(rows), *further), False)


def _workload(rows: Sequence[Row]) -> Column:
    """Names of workloads; with their seed where the same workload is there with several."""
    has_seeds = len({row.workload.digest for row in rows}) > len({row.workload.name for row in rows})

    def text(row: Row) -> str:
        return f"{row.workload.name}, seed {row.workload.seed}" if has_seeds else row.workload.name

    return Column(WORKLOAD, WORKLOAD, text, is_number=False)


def _sorted(rows: Sequence[Row], sort: str) -> tuple[Row, ...]:
    """By what the column shows, numbers as numbers; rows that have nothing there stay at the end."""
    if not sort:
        return tuple(rows)
    key = sort.removeprefix("-")
    column = next(each for each in (_workload(rows), *COLUMNS) if each.key == key)
    texts = [(row, column.text(row)) for row in rows]
    present = [(row, value) for row, text in texts if (value := _value(text, column.is_number)) is not None]
    present.sort(key=lambda pair: pair[1], reverse=sort.startswith("-"))
    absent = [row for row, text in texts if _value(text, column.is_number) is None]
    return (*(row for row, _ in present), *absent)


def _value(text: str, is_number: bool) -> tuple[float, str] | None:
    if not is_number:
        return (0.0, text) if text not in ("", ABSENT) else None
    found = _NUMBER.match(text)
    return (float(found[0].replace(",", "")), "") if found else None


def _merged(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Columns of the same heading as one: they are of different workloads, so that at most one has a row's number."""
    found: dict[str, list[Column]] = {}
    for column in columns:
        found.setdefault(column.header, []).append(column)
    return tuple(_one(parts) for parts in found.values())


def _one(parts: Sequence[Column]) -> Column:
    def text(row: Row) -> str:
        return next((text for part in parts if (text := part.text(row)) != ABSENT), ABSENT)

    return replace(parts[0], text=text)
