"""``controller compare --resume``: the options of a stored campaign's own command, and its workloads as stored."""

import shlex
import sys
from typing import TYPE_CHECKING, Any

import typer

from controller.cli import presets
from controller.errors import UsageError

if TYPE_CHECKING:
    from controller.results import Campaign

# What may be given anew, because it changes nothing of what is measured.
_FREE = {
    "resume",
    "rerun",
    "rerun_failed",
    "campaign",
    "output",
    "data_dir",
    "save",
    "against",
    "columns",
    "sort",
    "group_by",
}


def check_alone(context: typer.Context) -> None:
    """Raises UsageError for an option that the campaign itself says."""
    for name in context.params:
        if name not in _FREE and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE":
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} and --resume contradict each other", "a campaign goes on with its own options")


def stored_options(campaign: "Campaign") -> dict[str, Any]:
    """Values of the options of the command that began the campaign, by their names. Raises UsageError."""
    from controller.cli.main import app

    words = shlex.split(campaign.command, posix=sys.platform != "win32")
    if words[:2] != ["controller", "compare"]:
        raise UsageError(f"campaign {campaign.id} was not begun by controller compare", "start a new one")
    words = [word.strip('"') for word in words] if sys.platform == "win32" else words
    whole: Any = typer.main.get_command(app)
    return presets.chosen(whole.commands["compare"].make_context("compare", words[2:]))[0]


def as_stored(campaign: "Campaign") -> dict[str, Any]:
    """What the campaign itself says, more exactly than its command: files and catalogs may have changed since."""
    from trainyard.v1.workload_pb2 import Workload

    from controller.catalog import runners

    known = runners.load()
    messages = [Workload.FromString(bytes.fromhex(workload.message)) for workload in campaign.workloads]
    names = dict.fromkeys(cell.runner for cell in campaign.cells)
    return {
        "workloads": tuple(messages),
        "runners": tuple(name for name in names if name in known),
        "variants": tuple(dict.fromkeys(cell.variant for cell in campaign.cells)),
        "trials": campaign.trial_count,
        "threads": campaign.threads,
        "order_seed": campaign.order_seed,
        "command": campaign.command,
        "until_precision": campaign.until_precision,
        "max_trials": campaign.max_trials,
        "resumed": campaign,
    }
