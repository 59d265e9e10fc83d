"""``controller history``, ``show``, ``tag``, ``rm``: campaigns that are kept."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import options
from controller.cli.completion import campaign_names
from controller.cli.options import Output

if TYPE_CHECKING:
    from controller.results import Campaign
    from controller.store import Kept, Store

CampaignName = Annotated[
    str | None,
    typer.Argument(
        metavar="[CAMPAIGN]",
        help="A tag, an id, or the beginning of one. Default: the last campaign.",
        autocompletion=campaign_names,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Short for --output json.")]


def results_store() -> "Store":
    """The results of this user."""
    from controller import paths
    from controller.store import Store

    return Store(paths.data_folder() / "results.sqlite")


def history(*, output: options.OutputForm = Output.table, json: Json = False) -> None:
    """List the campaigns that are kept, the newest first.

    Example: controller history --json
    """
    kept = results_store().history()
    if json or output is Output.json:
        from controller.cli.consoles import print_json

        entries = [_entry(entry) for entry in kept]
        print_json({"format": "trainyard-history", "version": 1, "campaigns": entries})
        return
    from controller.cli.consoles import results
    from controller.report.listing import render

    if not kept:
        results().print("no campaign is kept yet: `controller compare` makes the first", markup=False)
        return
    headers = ("campaign", "tags", "begun", "trials", "rows", "workloads")
    render(results(), headers, [_cells(entry) for entry in kept], numbers=("trials", "rows"))


def _entry(kept: "Kept") -> dict[str, Any]:
    campaign = kept.campaign
    return {
        "id": campaign.id,
        "tags": list(kept.tags),
        "created_at": campaign.created_at,
        "workloads": list(dict.fromkeys(workload.name for workload in campaign.workloads)),
        "runners": list(dict.fromkeys(cell.runner for cell in campaign.cells)),
        "trials": {"planned": _planned(campaign), "ended": kept.states},
        "command": campaign.command,
    }


def _cells(kept: "Kept") -> tuple[str, ...]:
    campaign = kept.campaign
    begun = campaign.created_at[:16].replace("T", " ")
    trials = f"{kept.states.get('succeeded', 0)}/{_planned(campaign)}"
    names = ", ".join(dict.fromkeys(workload.name for workload in campaign.workloads))
    return campaign.id, ", ".join(kept.tags), begun, trials, str(len(campaign.cells)), names


def _planned(campaign: "Campaign") -> int:
    return campaign.trial_count * len(campaign.cells)


def tag(
    campaign: Annotated[
        str,
        typer.Argument(
            metavar="CAMPAIGN", help="A tag, an id, or the beginning of one.", autocompletion=campaign_names
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name that the campaign is found by from now on.")],
) -> None:
    """Give a campaign a name. A name that another campaign had moves to this one.

    Example: controller tag 2026-12-02-165a before-upgrade
    """
    where = results_store()
    found = where.find(campaign)
    loser = where.tag(found.id, name)
    typer.echo(f"{name}: campaign {found.id}" + (f" (was {loser})" if loser else ""))


def rm(
    campaigns: Annotated[
        list[str],
        typer.Argument(metavar="CAMPAIGN...", help="Tags, ids, or beginnings of ids.", autocompletion=campaign_names),
    ],
) -> None:
    """Remove campaigns with their trials, tags and logs. This cannot be undone.

    Example: controller rm 2026-12-02-165a
    """
    import shutil

    from controller import paths
    from controller.running import held

    where = results_store()
    found = dict.fromkeys(where.find(text).id for text in campaigns)  # all of them are known before any is removed
    for name in found:
        with held(name):
            where.remove(name)
        shutil.rmtree(paths.state_folder() / "logs" / name, ignore_errors=True)
        typer.echo(f"removed: campaign {name}")


def show(
    campaign: CampaignName = None,
    *,
    output: options.OutputForm = Output.table,
    json: Json = False,
    against: options.Against = None,
    columns: options.Columns = None,
    sort: options.Sort = None,
    group_by: options.Grouping = options.GroupBy.workload,
) -> None:
    """Print the comparison of a campaign again. Exit code 1 as for compare: something failed or differs.

    Example: controller show before-upgrade
    """
    from controller.cli.reporting import print_comparison
    from controller.report.view import view_of

    view = view_of(columns, sort, group_by.value)
    where = results_store()
    form = Output.json if json else output
    raise typer.Exit(0 if print_comparison(where.find(campaign), where, form, against, view) else 1)
