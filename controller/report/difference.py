"""Campaigns beside each other, in the shape of the published tables: rows of runners, a column for each machine."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from controller.bundles.diff import CANNOT_TELL, FASTER, SLOWER, Column, Difference, Line, Table, Versus
from controller.report.columns import ABSENT, number
from controller.report.hosts import SHOWN, machine_line, times_as_long
from controller.report.markdown import escape
from controller.report.words import heading, plural
from controller.rows import Row

FORMAT, VERSION = "trainyard-difference", 1
_GAP = 2


@dataclass(frozen=True, slots=True)
class _Sheet:
    """A table as texts. ``numbers`` are headers of columns that stand at the right."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str]
    findings: tuple[str, ...]


def render(found: Difference, console: Console) -> None:
    """Prints all tables, and under each what could not be compared."""
    for sheet in _sheets(found):
        _line(console, sheet.title, "bold")
        _print(sheet, console)
        for text in sheet.findings:
            _line(console, text)
        console.print()
    for text in _footer(found):
        _line(console, text)


def markdown(found: Difference) -> str:
    """The same as GitHub Flavored Markdown, ending in a line feed."""
    parts = []
    for sheet in _sheets(found):
        rule = "|" + "|".join(" ---: " if header in sheet.numbers else " --- " for header in sheet.headers) + "|"
        rows = [f"| {' | '.join(escape(text or ABSENT) for text in row)} |" for row in (sheet.headers, *sheet.rows)]
        parts += [f"### {escape(sheet.title)}", "\n".join([rows[0], rule, *rows[1:]]), _list(sheet.findings)]
    parts.append(_list(list(_footer(found))))
    return "\n\n".join(part for part in parts if part) + "\n"


def document(found: Difference) -> dict[str, Any]:
    """The same as plain values. Keys are only added within a version."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "columns": [_column(column) for column in found.columns],
        "workloads": [_table_document(table, found) for table in found.tables],
        "not_comparable": list(found.blocked),
        "remarks": list(found.remarks),
        "calibrations": [
            {"name": name, "values": list(values), "times_as_long": list(_factors(name, values))}
            for name, values in _calibrations(found)
        ],
    }


def render_json(found: Difference) -> str:
    """The document as text, ending in a line feed."""
    return json.dumps(document(found), indent=2, allow_nan=False) + "\n"


# --- texts -------------------------------------------------------------------------------------------------


def _sheets(found: Difference) -> Iterable[_Sheet]:
    for table in found.tables:
        yield _sheet(table, found)
    if any(column.calibration for column in found.columns):
        yield _calibration_sheet(found)


def _sheet(table: Table, found: Difference) -> _Sheet:
    has_variants = any(line.key.variant.label() for line in table.lines)
    has_devices = any(line.key.device != "cpu" for line in table.lines)
    names = [column.name for column in found.columns]
    places = ["runner"] + ["variant"] * has_variants + ["device"] * has_devices
    times = [f"{name} s" for name in names]
    trials = "trials"
    further = [(f"{name} / {names[0]}", "95% ratio", "verdict") for name in names[1:]]
    headers = (*places, trials, *times, *(text for texts in further for text in texts))
    rows = tuple(tuple(_cells(line, has_variants, has_devices)) for line in table.lines)
    numeric = frozenset([trials, *times, "95% ratio", *(texts[0] for texts in further)])
    findings = [*_verdicts(table, names), *(f"not compared: {text}" for text in table.blocked), *table.remarks]
    return _Sheet(heading(table.workload), headers, rows, numeric, tuple(findings))


def _cells(line: Line, has_variants: bool, has_devices: bool) -> Iterable[str]:
    yield line.key.runner
    if has_variants:
        yield line.key.variant.label()
    if has_devices:
        yield line.key.device
    yield " ".join(f"{row.succeeded}/{row.asked}" if row else ABSENT for row in line.rows)
    yield from (_time(row) for row in line.rows)
    for versus in line.versus:
        yield f"{versus.ratio:.2f}" if versus.ratio is not None else ABSENT
        yield f"{versus.interval.low:.2f}..{versus.interval.high:.2f}" if versus.interval else ABSENT
        yield versus.verdict


def _time(row: Row | None) -> str:
    if row is None:
        return ABSENT
    return number(row.seconds.median) if row.seconds else row.state


def _verdicts(table: Table, names: Sequence[str]) -> Iterable[str]:
    """What may be said, and how sure it is."""
    for place, name in enumerate(names[1:]):
        words = [line.versus[place].verdict for line in table.lines]
        counts = [f"{word} in {words.count(word)}" for word in (SLOWER, FASTER, CANNOT_TELL) if word in words]
        if counts:
            claims = sum(words.count(word) for word in (SLOWER, FASTER, CANNOT_TELL))
            sure = f"of {plural(claims, 'row')} (95 % sure of all together)"
            yield f"{name} against {names[0]}: {', '.join(counts)} {sure}"
        else:
            yield f"{name} against {names[0]}: no claim"


def _calibrations(found: Difference) -> Iterable[tuple[str, tuple[float | None, ...]]]:
    """Those that any column has."""
    for name in SHOWN:
        values = tuple(column.calibration.values.get(name) if column.calibration else None for column in found.columns)
        if any(value is not None for value in values):
            yield name, values


def _factors(name: str, values: Sequence[float | None]) -> Iterable[float | None]:
    """How many times as long each column but the first takes for it."""
    base = values[0]
    for value in values[1:]:
        if not base or not value:
            yield None
        else:
            yield times_as_long(name, value, base)


def _calibration_sheet(found: Difference) -> _Sheet:
    names = [column.name for column in found.columns]
    ratios = [f"{name} / {names[0]} time" for name in names[1:]]
    rows, slower = [], {name: list[str]() for name in names[1:]}
    for name, values in _calibrations(found):
        shown = SHOWN[name]
        factors = list(_factors(name, values))
        texts = [ABSENT if value is None else f"{number(value / shown.one)} {shown.unit}" for value in values]
        rows.append((shown.word, *texts, *(ABSENT if factor is None else f"{factor:.2f}" for factor in factors)))
        for column, factor in zip(names[1:], factors, strict=True):
            if factor is not None:
                slower[column].append(f"{shown.word} {factor:.1f} x")
    lines = [f"{name} takes, beside {names[0]}: {', '.join(texts)}" for name, texts in slower.items() if texts]
    headers = ("without any framework", *names, *ratios)
    return _Sheet("calibration of the machines", headers, tuple(rows), frozenset([*names, *ratios]), tuple(lines))


def _footer(found: Difference) -> Iterable[str]:
    yield from (f"not compared: {text}" for text in found.blocked)
    yield from found.remarks
    for column in found.columns:
        campaign = column.campaign
        host = f", host {column.host}" if column.host != "local" else ""
        where = machine_line(column.machine)
        yield f"{column.name}: {where}{host}; campaign {campaign.id} of {campaign.created_at}"
        if column.calibration is None:
            yield f"{column.name}: not calibrated"
    yield (
        "ratio: geometric means of times; 95 % interval by Welch's t on their logarithms, the trials not being paired, "
        "corrected for all ratios of a table"
    )


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escape(line)}" for line in lines)


# --- printing ----------------------------------------------------------------------------------------------


def _print(sheet: _Sheet, console: Console) -> None:
    """No narrower than its columns need: on a terminal that is smaller still, the lines run on."""
    table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    columns = list(zip(sheet.headers, *sheet.rows, strict=True))
    widths = [max(map(len, texts)) for texts in columns]
    for header, width in zip(sheet.headers, widths, strict=True):
        justify: Any = "right" if header in sheet.numbers else "left"
        table.add_column(Text(header), justify=justify, no_wrap=True, min_width=width)
    for row in sheet.rows:
        table.add_row(*(Text(text or ABSENT) for text in row), style=_style(row))
    if (width := sum(widths) + _GAP * len(widths)) > console.width:
        table.width = width
    console.print(table, crop=False, soft_wrap=False)


def _style(row: Sequence[str]) -> str:
    """Colour only repeats what words say."""
    return "green" if FASTER in row else "yellow" if SLOWER in row else ""


def _line(console: Console, text: str, style: str = "") -> None:
    """A line that is never broken, so that ids and digests can be copied."""
    console.print(Text(text, style=style), soft_wrap=True, highlight=False)


# --- plain values ------------------------------------------------------------------------------------------


def _column(column: Column) -> dict[str, Any]:
    campaign = column.campaign
    calibration = asdict(column.calibration) if column.calibration else None
    return {
        "name": column.name,
        "host": column.host,
        "campaign": campaign.id,
        "created_at": campaign.created_at,
        "threads": campaign.threads,
        "controller_version": campaign.controller_version,
        "machine": asdict(column.machine),
        "calibration": calibration,
    }


def _table_document(table: Table, found: Difference) -> dict[str, Any]:
    return {
        "name": table.workload.name,
        "digest": table.workload.digest,
        "heading": heading(table.workload),
        "rows": [_line_document(line, found) for line in table.lines],
        "not_comparable": list(table.blocked),
        "remarks": list(table.remarks),
    }


def _line_document(line: Line, found: Difference) -> dict[str, Any]:
    return {
        "runner": line.key.runner,
        "variant": line.key.variant.label(),
        "device": line.key.device,
        "columns": [
            {"name": column.name, **_row_document(row)} for column, row in zip(found.columns, line.rows, strict=True)
        ],
        "ratios": [
            {"name": column.name, **_versus_document(versus)}
            for column, versus in zip(found.columns[1:], line.versus, strict=True)
        ],
    }


def _row_document(row: Row | None) -> dict[str, Any]:
    if row is None:
        return {"state": None, "seconds": None, "trials": None}
    trials = {"succeeded": row.succeeded, "asked": row.asked}
    return {"state": row.state, "seconds": row.seconds.median if row.seconds else None, "trials": trials}


def _versus_document(versus: Versus) -> dict[str, Any]:
    interval = asdict(versus.interval) if versus.interval else None
    return {"ratio": versus.ratio, "interval": interval, "verdict": versus.verdict or None}
