"""A comparison as tables for a terminal, a pipe or a log file."""

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller.against import Against
from controller.comparison import Comparison, Group
from controller.report.beside import beside_columns, beside_lines
from controller.report.columns import ABSENT, fitting, total_width
from controller.report.hosts import host_lines
from controller.report.view import WORKLOAD, Sheet, View, arranged, sheets
from controller.report.words import certificate_line, flag_lines, footer, heading
from controller.rows import Row

_GAP = 2


def render(
    comparison: Comparison,
    console: Console,
    stored_at: str = "",
    against: Against | None = None,
    view: View | None = None,
) -> None:
    """Prints all tables, and under them what must be known to read and to repeat them.

    ``stored_at`` is where the trials are kept; ``against`` are numbers of elsewhere. Colour only repeats
    what words say.
    """
    wish = view or View()
    if wish.group_by == WORKLOAD:
        for group in comparison.groups:
            further = beside_columns(group, against)
            _print_sheet(arranged(heading(group.workload), group.rows, wish, further), console, comparison)
            _print_findings(group, console, against)
    else:
        for sheet in sheets(comparison, wish, against):
            _print_sheet(sheet, console, comparison)
            console.print()
        for group in comparison.groups:
            _line(console, heading(group.workload), style="bold")
            _print_findings(group, console, against)
    for note in comparison.campaign.notes:
        _line(console, f"note: {note}", "yellow")
    for text in against.lines if against else ():
        _line(console, text)
    for text in footer(comparison, stored_at):
        _line(console, text)


def _print_sheet(sheet: Sheet, console: Console, comparison: Comparison) -> None:
    """No narrower than its columns need: on a terminal that is smaller still, the lines run on."""
    _line(console, sheet.title, style="bold")
    fastest = {(group.workload.digest, group.fastest) for group in comparison.groups}
    columns = sheet.columns if sheet.fixed else fitting(sheet.columns, sheet.rows, console.width, _GAP)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    for column in columns:
        table.add_column(
            column.header,
            justify="right" if column.is_number else "left",
            no_wrap=not column.folds,
            min_width=column.width(sheet.rows),
        )
    for row in sheet.rows:
        style = _style(row, (row.workload.digest, row.label()) in fastest)
        table.add_row(*(Text(column.text(row) or ABSENT) for column in columns), style=style)
    if (width := total_width(columns, sheet.rows, _GAP)) > console.width:
        table.width = width
    console.print(table, crop=False, soft_wrap=False)


def _style(row: Row, is_fastest: bool) -> str:
    if row.seconds is None or row.is_unequal:
        return "red"
    if row.flags:
        return "yellow"
    return "green" if is_fastest else ""


def _print_findings(group: Group, console: Console, against: Against | None) -> None:
    for text, style in _findings(group, against):
        _line(console, text, style)
    console.print()


def _findings(group: Group, against: Against | None) -> Iterable[tuple[str, str]]:
    yield group.verdict, "bold"
    for problem in group.problems:
        yield f"problem: {problem.text()}", "red"
    for row in group.rows:
        for text in filter(None, (*flag_lines(row), row.text)):
            yield f"{row.label()}: {text}", "red"
    for text in host_lines(group):
        yield text, "bold"
    if line := certificate_line(group):
        yield line, ""
    for text in beside_lines(group, against):
        yield text, ""


def _line(console: Console, text: str, style: str = "") -> None:
    """A line that is never broken, so that commands, paths and digests can be copied."""
    console.print(Text(text, style=style), soft_wrap=True, highlight=False)
