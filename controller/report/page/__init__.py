"""A comparison as one HTML file that needs no network: tables that sort and filter, charts, environments."""

import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any
from xml.etree import ElementTree

from controller.against import Against
from controller.comparison import Comparison
from controller.report.page import content
from controller.report.page.charts import Curves
from controller.results import Trial

# Nothing is fetched, whatever a name or a log line may hold.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
    "base-uri 'none'; form-action 'none'"
)


def render(comparison: Comparison, trials: Sequence[Trial], against: Against | None = None) -> str:
    """The whole page as text. About 5 MB: the charting library is in it."""
    body, figures = content.page(comparison, Curves(trials), against)
    names = dict.fromkeys(group.workload.name for group in comparison.groups)
    title = f"{', '.join(names)}: {comparison.campaign.id}"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{_file('page.css')}</style>\n</head>",
            ElementTree.tostring(body, encoding="unicode", method="html").removesuffix("</body>"),
            f'<script type="application/json" id="figures">{_plain(figures)}</script>',
            f"<script>{_library()}</script>",
            f"<script>\n{_file('page.js')}</script>\n</body>\n</html>\n",
        ]
    )


def _plain(value: Any) -> str:
    """JSON that cannot end the element that it stands in."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _library() -> str:
    """plotly.js (MIT), as the plotly package brings it."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
