"""``controller published``: the tables of others that the catalog's workloads reproduce."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import options
from controller.cli.campaigns import Json
from controller.cli.options import Output

if TYPE_CHECKING:
    from rich.console import Console

    from controller.catalog.published import Row, Table


def published(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A table, or its workload. Default: all of them.")
    ] = None,
    *,
    output: options.OutputForm = Output.table,
    json: Json = False,
) -> None:
    """Print published tables, and what in them was not the same work. Beside your own rows: --against published.

    Example: controller published ttj-2
    """
    from controller.catalog import published as catalog

    tables = [catalog.find(name)] if name else list(catalog.tables())
    if json or output is Output.json:
        from controller.cli.consoles import print_json

        print_json({"format": "trainyard-published", "version": 1, "tables": [_document(table) for table in tables]})
        return
    from controller.cli.consoles import results

    console = results()
    for table in tables:
        _print(table, console)


def _document(table: "Table") -> dict[str, Any]:
    rows = [
        {**row.model_dump(mode="json"), "median_seconds": row.median_seconds, "ratio": table.ratio(row)}
        for row in table.row
    ]
    return {**table.model_dump(mode="json", exclude={"row"}), "rows": rows}


def _print(table: "Table", console: "Console") -> None:
    from controller.report.listing import render

    unit = "s" if table.measure == "seconds" else "s/epoch"
    measures = ("median", "ratio", "memory GB", table.quality or "quality")
    headers = ("framework", "version", "GPU", "system", "variant", f"runs {unit}", *measures, "note")
    body = [_cells(table, row) for row in table.row]
    kept = [place for place in range(len(headers)) if place == 0 or any(cells[place] for cells in body)]
    _line(console, f"{table.name}: {table.title} (workload {table.workload})", "bold")
    render(
        console,
        [headers[place] for place in kept],
        [[cells[place] for place in kept] for cells in body],
        numbers=(f"runs {unit}", *measures),
    )
    _line(console, "ratio: to the fastest of the same GPU and system, by medians")
    for note in table.notes:
        _line(console, f"note: {note}")
    _line(console, f"source: {table.comparison}, {table.source}")
    _line(console, "")


def _cells(table: "Table", row: "Row") -> tuple[str, ...]:
    from controller.report.columns import number

    runs = ", ".join(f"{value:g}" for value in row.seconds)
    median = number(row.median_seconds) if len(row.seconds) > 1 else ""
    memory = f"{row.memory_gb:g}" if row.memory_gb is not None else ""
    quality = f"{row.quality:.4f}" if row.quality is not None else ""
    where = (row.framework, row.version, row.gpu, row.host, row.variant)
    return (*where, runs, median, f"{table.ratio(row):.2f}", memory, quality, row.note)


def _line(console: "Console", text: str, style: str = "") -> None:
    console.print(text, style=style, soft_wrap=True, markup=False, highlight=False)
