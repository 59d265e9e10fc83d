"""Where the commands print: results on standard output, everything else on standard error."""

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# Pipes and files have no width; a table there keeps all its columns unless COLUMNS says otherwise.
PIPE_WIDTH = 250


def results() -> "Console":
    """For tables on standard output: plain where that is not a terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or _has_columns() else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False)


def _has_columns() -> bool:
    """Whether COLUMNS is a width; with 0, which some programs leave there, nothing at all would be printed."""
    if not os.environ.get("COLUMNS", "").strip("0"):
        os.environ.pop("COLUMNS", None)
    return os.environ.get("COLUMNS", "").isdecimal()


def progress() -> "Console":
    """For what happens meanwhile, on standard error."""
    from rich.console import Console

    _has_columns()
    return Console(stderr=True, highlight=False)


def print_json(document: Any) -> None:
    """A document on standard output, nothing else with it."""
    import json

    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
