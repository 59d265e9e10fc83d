"""What ``compare``, ``show`` and ``report`` share: a campaign of the store as a report on standard output."""

import sys
from typing import TYPE_CHECKING

from controller.cli.options import Output
from controller.errors import UsageError

if TYPE_CHECKING:
    from controller.against import Against
    from controller.comparison import Comparison
    from controller.report.view import View
    from controller.results import Campaign
    from controller.store import Store


def found_against(comparison: "Comparison", text: str | None, store: "Store") -> "Against | None":
    """What ``--against`` names, beside this comparison. Raises UsageError, UnknownNameError."""
    if text is None:
        return None
    from controller.catalog import against as catalog

    if catalog.is_published(text):
        return catalog.beside(comparison, text)
    from controller import against
    from controller.comparison import compare

    other = store.find(text)
    if other.id == comparison.campaign.id:
        raise UsageError(f"--against {text} is the campaign itself", "name another; controller history lists them")
    return against.campaign(comparison, text, compare(other, store.trials(other.id)))


def print_comparison(
    campaign: "Campaign", store: "Store", output: Output, against: str | None = None, view: "View | None" = None
) -> bool:
    """Prints the comparison; returns whether all of it is sound."""
    from controller.comparison import compare

    trials = store.trials(campaign.id)
    comparison = compare(campaign, trials)
    beside = found_against(comparison, against, store)
    if output is Output.json:
        from controller.report import json_

        sys.stdout.write(json_.render(comparison, trials, str(store.path), beside))
    else:
        from controller.cli.consoles import results
        from controller.report import terminal

        terminal.render(comparison, results(), str(store.path), beside, view)
    return comparison.is_sound
