"""``controller clean``: removes what earlier runs have left."""

import sys
from typing import Annotated

import typer

from controller.cli.options import Host


def clean(
    everything: Annotated[
        bool, typer.Option("--all", help="Also the containers of controllers that still run, here or elsewhere.")
    ] = False,
    images: Annotated[
        bool, typer.Option("--images", help="Also images that no comparison would use any more.")
    ] = False,
    host: Host = "local",
) -> None:
    """Remove the containers that a controller left behind that was killed."""
    from controller.images import stock
    from controller.runtimes import engine, reaping
    from controller.runtimes.choice import context_of

    found = engine.connect(context_of(host))
    for name in reaping.reap(found, everything):
        sys.stdout.write(f"removed container of {name}\n")
    for name in stock.remove_useless(found) if images else ():
        sys.stdout.write(f"removed image {name}\n")
