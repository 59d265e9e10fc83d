"""Certificates as a matrix: a row for each runner, a column for each workload; for terminals and as JSON.

Keys of version 1: ``format``, ``version``, ``notes`` and ``cells``: the cell's own fields; ``result`` ("pass", "fail",
"unsupported", "absent": there is no runner, "unknown": nothing to compare with); ``text``; and ``certificate`` as in
results.Certificate, or null.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from controller.results import FAIL, PASS, UNSUPPORTED, Cell, CellCertificate, Certificate

if TYPE_CHECKING:
    from rich.console import Console

FORMAT = "trainyard-verification"
VERSION = 1
ABSENT, UNKNOWN = "absent", "unknown"
_SHORT = {PASS: "pass", FAIL: "FAIL", UNSUPPORTED: "not supported", ABSENT: "no runner", UNKNOWN: "unknown"}
_GAP = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """One field of the matrix."""

    cell: Cell
    result: str
    text: str
    certificate: Certificate | None

    def words(self) -> str:
        """The result and why, in one line; a pass has no why."""
        return f"{_SHORT[self.result]}: {self.text}" if self.text else _SHORT[self.result]


def entries(
    cells: Sequence[Cell], certificates: Sequence[CellCertificate], absent: Mapping[tuple[str, str], str]
) -> tuple[Entry, ...]:
    """One for each cell, in their order. ``absent``: host and runner to why it does not stand."""
    found = {entry.cell: entry.certificate for entry in certificates}
    result = []
    for cell in cells:
        certificate = found.get(cell)
        if certificate is not None:
            result.append(Entry(cell, certificate.state, certificate.text, certificate))
        elif cell.place in absent:
            result.append(Entry(cell, ABSENT, absent[cell.place], None))
        else:
            result.append(Entry(cell, UNKNOWN, "there is nothing to compare it with", None))
    return tuple(result)


def document(found: Sequence[Entry], notes: Sequence[str]) -> dict[str, Any]:
    """The whole as plain values."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "notes": list(notes),
        "cells": [
            {
                **asdict(entry.cell),
                "result": entry.result,
                "text": entry.text,
                "certificate": asdict(entry.certificate) if entry.certificate else None,
            }
            for entry in found
        ],
    }


def render(found: Sequence[Entry], notes: Sequence[str], console: "Console") -> None:
    """Prints the matrix where it fits, else a line for each field; then why a field is no pass, and the notes."""
    from controller.report.listing import render as render_list

    rows, columns = _axes(found)
    fields = {(entry.cell.placed(), entry.cell.workload): _SHORT[entry.result] for entry in found}
    headers = ("runner", *columns)
    body = [(row, *(fields.get((row, column), "") for column in columns)) for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *body, strict=True)]
    if sum(widths) + _GAP * len(widths) <= console.width:
        render_list(console, headers, body)
    else:
        long = [(entry.cell.placed(), entry.cell.workload, _SHORT[entry.result]) for entry in found]
        render_list(console, ("runner", "workload", "result"), long)
    for line in (*_reasons(found), *_cuts(found), *(f"note: {note}" for note in notes)):
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _axes(found: Sequence[Entry]) -> tuple[list[str], list[str]]:
    rows = dict.fromkeys(entry.cell.placed() for entry in found)
    columns = dict.fromkeys(entry.cell.workload for entry in found)
    return list(rows), list(columns)


def _reasons(found: Sequence[Entry]) -> list[str]:
    """A runner that is absent is said once, not for every workload."""
    lines: dict[str, None] = {}
    for entry in found:
        if entry.text:
            where = "" if entry.result == ABSENT else f" on {entry.cell.workload}"
            lines[f"{entry.cell.placed()}{where}: {entry.words()}"] = None
    return list(lines)


def _cuts(found: Sequence[Entry]) -> list[str]:
    cuts = {
        entry.cell.workload: entry.certificate.cut for entry in found if entry.certificate and entry.certificate.cut
    }
    return [f"{name} is probed with {cut}" for name, cut in cuts.items()]
