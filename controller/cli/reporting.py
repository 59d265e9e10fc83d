"""What ``compare``, ``show`` and ``report`` share: a campaign of the store as a report on standard output."""

import sys
from typing import TYPE_CHECKING

from controller.cli.options import Output

if TYPE_CHECKING:
    from controller.results import Campaign
    from controller.store import Store


def print_comparison(campaign: "Campaign", store: "Store", output: Output) -> bool:
    """Prints the comparison; returns whether all of it is sound."""
    from controller.comparison import compare

    trials = store.trials(campaign.id)
    comparison = compare(campaign, trials)
    if output is Output.json:
        from controller.report import json_

        sys.stdout.write(json_.render(comparison, trials, str(store.path)))
    else:
        from controller.cli.consoles import results
        from controller.report import terminal

        terminal.render(comparison, results(), str(store.path))
    return comparison.is_sound
