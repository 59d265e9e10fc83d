"""``controller report`` and ``controller schema``: a campaign as a file for others."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from controller.cli import options
from controller.cli.campaigns import CampaignName, results_store
from controller.errors import UsageError


class Format(StrEnum):
    """Form of a report."""

    markdown = "markdown"
    csv = "csv"
    json = "json"
    html = "html"


_SUFFIXES = {
    ".md": Format.markdown, ".markdown": Format.markdown, ".csv": Format.csv, ".json": Format.json,
    ".html": Format.html, ".htm": Format.html,
}  # fmt: skip


def report(
    campaign: CampaignName = None,
    *,
    form: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Form of the report. Default: what FILE ends in, or markdown."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to write it. Default: standard output.")
    ] = None,
    against: options.Against = None,
) -> None:
    """Write a campaign as Markdown (for an issue), CSV (one row a trial), JSON, or one HTML file without network.

    Examples: controller report > issue.md; controller report 2026-12-02 -o report.html
    """
    chosen = form or _SUFFIXES.get(file.suffix.lower() if file else "", Format.markdown)
    if chosen is Format.html and file is None and sys.stdout.isatty():
        raise UsageError("an HTML report has 5 MB, too much for a terminal", "write it to a file: -o report.html")
    text = _text(campaign, chosen, against)
    if file is None:
        sys.stdout.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}", "give another file with -o") from error
    typer.echo(f"written: {file}", err=True)


def _text(name: str | None, form: Format, against: str | None) -> str:
    from controller.cli.reporting import found_against
    from controller.comparison import compare

    store = results_store()
    campaign = store.find(name)
    trials = store.trials(campaign.id)
    comparison = compare(campaign, trials)
    beside = found_against(comparison, against, store)
    if form is Format.csv:
        from controller.report import csv_

        return csv_.render(comparison, trials)
    if form is Format.json:
        from controller.report import json_

        return json_.render(comparison, trials, str(store.path), beside)
    if form is Format.html:
        from controller.report import page

        return page.render(comparison, trials, beside)
    from controller.report import markdown

    return markdown.render(comparison, beside)


def schema() -> None:
    """Print the JSON Schema of what compare, show and report write as JSON.

    Example: controller schema > trainyard-comparison-1.json
    """
    from controller.cli.consoles import print_json
    from controller.report.schema import schema as whole

    print_json(whole())
