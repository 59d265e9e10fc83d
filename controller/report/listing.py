"""Plain lists, such as those of runners and workloads, as tables."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller.report.columns import ABSENT


def render(
    console: Console, headers: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()
) -> None:
    """Prints a table. Columns named in ``numbers`` stand at the right; only the last column may take several lines."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for header in headers:
        is_last = header == headers[-1]
        table.add_column(header, justify="right" if header in numbers else "left", no_wrap=not is_last, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell or ABSENT) for cell in row))
    console.print(table)
