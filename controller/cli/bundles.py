"""``controller save``, ``diff``, ``merge``: campaigns as files, for machines that never meet."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli.campaigns import CampaignName, results_store
from controller.errors import ControllerError, UsageError

if TYPE_CHECKING:
    from controller.bundles.diff import Column, Source
    from controller.bundles.records import Saved

_MOST_REASONS = 6


class DiffOutput(StrEnum):
    """Form of a difference on standard output."""

    table = "table"
    json = "json"
    markdown = "markdown"


def save(
    campaign: CampaignName = None,
    *,
    file: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The bundle to write.")],
) -> None:
    """Write a campaign with all its trials to one file, for diff and merge on another machine.

    Example: controller save before-upgrade -o win.trainyard
    """
    save_campaign(results_store().find(campaign).id, file)


def save_campaign(campaign_id: str, file: Path) -> None:
    """What is stored of a campaign now, as a file. Raises UsageError where it cannot be written."""
    from controller.bundles import format as bundles

    bundles.write(file, [_stored(campaign_id)])
    typer.echo(f"saved: campaign {campaign_id} in {file}", err=True)


def diff(
    sources: Annotated[list[str], typer.Argument(metavar="A B...", help="Bundle files, or tags or ids of campaigns.")],
    *,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="What a column is called; once for each. Default: the systems, if unlike."),
    ] = None,
    output: Annotated[DiffOutput, typer.Option("--output", "-o", help="Form of the result.")] = DiffOutput.table,
) -> None:
    """Print campaigns of several machines beside each other, with ratios to the first, and what is not comparable.

    Example: controller diff win.trainyard wsl.trainyard --name win --name wsl
    """
    from controller.bundles.diff import difference

    columns = _named(_columns(sources), name or [])
    found = difference(columns)
    if not found.is_comparable:
        reasons = found.reasons()
        more = f"; and {len(reasons) - _MOST_REASONS} more" if len(reasons) > _MOST_REASONS else ""
        text = "; ".join(reasons[:_MOST_REASONS]) or "no row was measured in both"
        raise ControllerError(f"nothing of {' and '.join(column.name for column in columns)} compares: {text}{more}")
    from controller.report import difference as report

    if output is DiffOutput.json:
        sys.stdout.write(report.render_json(found))
    elif output is DiffOutput.markdown:
        sys.stdout.write(report.markdown(found))
    else:
        from controller.cli.consoles import results

        report.render(found, results())


def merge(
    sources: Annotated[list[str], typer.Argument(metavar="FILE...", help="Bundle files; with -o campaigns as well.")],
    *,
    tag: Annotated[str | None, typer.Option(metavar="NAME", help="A tag for the campaign; only for one.")] = None,
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write one bundle instead of storing.")
    ] = None,
) -> None:
    """Put the campaigns of bundles into the store, where show, report and history find them; or into one bundle.

    Examples: controller merge win.trainyard wsl.trainyard; controller merge a.trainyard b.trainyard -o both.trainyard
    """
    from controller.bundles import format as bundles
    from controller.bundles import merge as merging

    if file is not None:
        if tag is not None:
            raise UsageError("--tag and -o contradict each other", "a file has no tags; merge it, then tag")
        found = merging.united([(each.label, each.saved) for each in _sources(sources)])
        bundles.write(file, found)
        typer.echo(f"written: {len(found)} campaigns in {file}", err=True)
        return
    read = [(text, saved) for text in sources for saved in bundles.read(Path(text)).saved]
    _check_tag(tag, read)
    store = results_store()
    for entry in merging.into_store(read, store):
        typer.echo(f"{'stored' if entry.is_new else 'was there'}: campaign {entry.saved.campaign.id}")
    if tag is not None:
        store.tag(read[0][1].campaign.id, tag)


def _check_tag(tag: str | None, read: "list[tuple[str, Saved]]") -> None:
    if tag is not None and len({saved.campaign.id for _, saved in read}) > 1:
        raise UsageError("--tag is for one campaign, and these are several", "merge them, then controller tag each")


def _stored(campaign_id: str) -> "Saved":
    from controller.bundles.records import Saved

    store = results_store()
    return Saved(store.campaign(campaign_id), tuple(store.trials(campaign_id)))


def _sources(texts: list[str]) -> "list[Source]":
    """Campaigns of files and of the store, in the order in which they were named. Raises UsageError, BundleError."""
    from controller.bundles import format as bundles
    from controller.bundles.diff import Source

    found = []
    for text in texts:
        path = Path(text)
        if path.exists() or text.endswith(bundles.SUFFIX) or path.name != text:
            found += [Source(path.stem, saved) for saved in bundles.read(path).saved]
        else:
            found.append(Source(text, _stored(results_store().find(text).id)))
    return found


def _columns(texts: list[str]) -> "tuple[Column, ...]":
    from controller.bundles.diff import columns_of

    sources = _sources(texts)
    ids = [source.saved.campaign.id for source in sources]
    if twice := next((each for each in ids if ids.count(each) > 1), ""):
        raise UsageError(f"campaign {twice} is named twice", "give two campaigns")
    columns = columns_of(sources)
    if len(columns) < 2:
        raise UsageError("one campaign has nothing to differ from", "give two bundles, or two campaigns")
    return columns


def _named(columns: "tuple[Column, ...]", names: list[str]) -> "tuple[Column, ...]":
    from dataclasses import replace

    if not names:
        return columns
    if len(names) != len(columns) or len(set(names)) != len(names):
        raise UsageError(f"{len(names)} names for {len(columns)} columns, or one twice", "give --name once for each")
    return tuple(replace(column, name=name) for column, name in zip(columns, names, strict=True))
