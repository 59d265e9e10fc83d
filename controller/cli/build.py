"""``controller build``: makes the images of runners."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from controller.cli.options import DeviceKind, Host


class Base(StrEnum):
    """Where base images come from; as in ``controller.images.bases``."""

    auto = "auto"
    public = "public"
    offline = "offline"


def build(
    runner: Annotated[
        list[str] | None, typer.Argument(metavar="[RUNNER]...", help="Which runners. Default: the default ones.")
    ] = None,
    device: Annotated[DeviceKind, typer.Option(help="What they shall train on.")] = DeviceKind.cpu,
    base: Annotated[
        Base,
        typer.Option(
            help="Base images. auto: those that are there, else pulled; public: the registry is always asked; offline: "
            "those that are there, else made from Debian's archive and a Python of this machine."
        ),
    ] = Base.auto,
    host: Host = "local",
) -> None:
    """Build the images of runners that are missing or older than what they are made from.

    Example: controller build pytorch-1.11.0 jittor-1.3.1
    """
    from controller.cli.consoles import progress
    from controller.cli.images import print_states
    from controller.images import stock
    from controller.report.live import live
    from controller.runtimes import engine
    from controller.runtimes.choice import context_of

    found = engine.connect(context_of(host))
    with live(progress()) as observe:
        standing, failed = stock.build(found, runner or [], device.value, base.value, observe)
    print_states(standing)
    for error in failed.values():
        sys.stderr.write(f"error: {error.line()}\n")
    raise typer.Exit(1 if failed else 0)
