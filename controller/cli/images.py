"""``controller images``: the images of runners on an engine; exported to and imported from a file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.options import DeviceKind, Host, Output, OutputForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.images.states import ImageState
    from controller.runtimes.engine import Engine

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def images(context: typer.Context, output: OutputForm = Output.table, host: Host = "local") -> None:
    """List the images of runners: which stand, and which are older than what they are made from."""
    if context.invoked_subcommand is not None:
        return
    from controller.images import stock

    found = stock.states(_engine(host))
    if output is Output.json:
        from controller.cli.consoles import print_json

        print_json({"format": "trainyard-image-list", "version": 1, "images": [_entry(state) for state in found]})
    else:
        print_states(found)


@app.command(name="export")
def export(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    runner: Annotated[
        list[str] | None, typer.Argument(metavar="[RUNNER]...", help="Which runners. Default: all that have an image.")
    ] = None,
    device: Annotated[DeviceKind, typer.Option(help="Of which images.")] = DeviceKind.cpu,
    host: Host = "local",
) -> None:
    """Write images into one file, with their digests."""
    from controller.errors import HostError
    from controller.images import archives, stock
    from controller.images.recipes import reference
    from controller.images.states import ABSENT

    engine = _engine(host)
    references = [reference(name, device.value) for name in runner or ()]
    if not references:
        references = [state.plan.reference for state in stock.states(engine) if state.kind != ABSENT]
    if not references:
        raise HostError("there are no images to export", "controller build makes them")
    _print_entries(archives.save(engine, references, file, _shown("written")))


@app.command(name="import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file that export has written.")], host: Host = "local"
) -> None:
    """Load the images of a file and check their digests."""
    from controller.images import archives

    _print_entries(archives.load(_engine(host), file, _shown("loaded")))


def _engine(host: str) -> "Engine":
    from controller.runtimes import engine
    from controller.runtimes.choice import context_of

    return engine.connect(context_of(host))


def _shown(verb: str) -> Any:
    """Says how far it is, where somebody looks."""

    def show(size: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{size / 1e9:.2f} GB {verb} ")

    return show


def _print_entries(entries: "Sequence[Any]") -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    for entry in entries:
        sys.stdout.write(f"{entry.reference} {entry.identifier}\n")


def print_states(found: "Sequence[ImageState]") -> None:
    """As a table."""
    from controller.cli.consoles import results
    from controller.report.listing import render

    headers = ("image", "state", "size", "built", "id", "remarks")
    render(results(), headers, [_cells(state) for state in found], numbers=("size",))


def _cells(state: "ImageState") -> tuple[str, ...]:
    size = f"{state.size_bytes / 1e6:,.0f} MB" if state.size_bytes else ""
    built = state.created.replace("T", " ")
    return state.plan.reference, state.kind, size, built, state.identifier.removeprefix("sha256:")[:12], state.reason


def _entry(state: "ImageState") -> dict[str, Any]:
    item = state.plan
    return {
        "reference": item.reference,
        "runner": item.spec.name,
        "flavour": item.flavour,
        "state": state.kind,
        "reason": state.reason,
        "id": state.identifier,
        "size_bytes": state.size_bytes,
        "created": state.created,
        "lock_sha256": item.lock_digest,
        "recipe_sha256": item.recipe,
        "service_sha256": item.service,
    }
