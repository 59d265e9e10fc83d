"""``controller new``: makes what a user adds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from controller.scaffold.places import Place
    from controller.scaffold.versions import Wanted, Written

app = typer.Typer(help="Make a new runner: another version of a framework, or a new framework.")


@app.callback()
def _group() -> None:
    """Keeps ``runner`` a subcommand."""


@app.command()
def runner(
    name: Annotated[str, typer.Argument(metavar="FRAMEWORK-VERSION", help="Its name, such as pytorch-1.10.2.")],
    python: Annotated[
        str,
        typer.Option(metavar="3.X", help="Its Python. Default: the nearest version's, else the controller's."),
    ] = "",
    version: Annotated[
        str, typer.Option(metavar="VERSION", help="The package's version, where the name does not say it.")
    ] = "",
    further: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="PACKAGE==VERSION", help="One more package for its list; repeatable."),
    ] = None,
    distribution: Annotated[
        str, typer.Option(metavar="PACKAGE", help="The package of a new framework. Default: its name.")
    ] = "",
    homepage: Annotated[str, typer.Option(metavar="URL", help="Of a new framework.")] = "",
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where to write. Default: the checkout, if it is the current folder and this controller is installed "
            "from it (pip install -e), else your own folder of runners.",
        ),
    ] = None,
) -> None:
    """Add a runner. A new version of a framework needs no Python: it is made after the nearest version.

    Example: controller new runner pytorch-1.10.2
    """
    from controller.catalog.runners import declared
    from controller.errors import UsageError
    from controller.scaffold import frameworks, places, versions

    asked = versions.wanted(name, version, python, further or ())
    specs, place = declared(), places.place(folder)
    places.refuse_taken(asked.name, specs)
    model = versions.nearest(asked, specs.values())
    if model is None:
        written = frameworks.write(asked, frameworks.Framework(distribution, homepage), place)
    elif distribution or homepage:
        raise UsageError(f"{model.framework} is there already: its package and homepage are known", "leave them out")
    else:
        written = versions.write(asked, model, place)
    _tell(asked, written, place)


def _tell(asked: "Wanted", written: "Written", place: "Place") -> None:
    for file in written.files:
        typer.echo(f"wrote {file}")
    if written.after:
        typer.echo(f"made after {written.after}: look whether cuda, gpu_architectures and notes are true of it too")
    else:
        typer.echo(f"a new framework: the next steps are in {written.files[0].parent / 'README.md'}")
        if place.is_own:
            typer.echo("an adapter of your own runs in environments (--runtime venv), not in images")
    if place.hint():
        typer.echo(place.hint())
    for device in written.devices:
        option = "" if device == "cpu" else f" --device {device}"
        typer.echo(f"next: controller lock {asked.name}{option}")
