"""``controller lock``: resolves a runner's packages into its hashed lock."""

from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli.completion import runner_names
from controller.cli.options import DeviceKind

if TYPE_CHECKING:
    from controller.scaffold.locking import Lock


def lock(
    runner: Annotated[
        str, typer.Argument(metavar="RUNNER", help="The runner, as in runner.toml.", autocompletion=runner_names)
    ],
    device: Annotated[DeviceKind, typer.Option(help="Whose lock: that of the build for CPUs, or for GPUs.")] = (
        DeviceKind.cpu
    ),
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Take the newest versions that fit, also of packages that are locked.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 if the lock does not fit its list.")
    ] = False,
) -> None:
    """Resolve a runner's list of packages (locks/*.in) and write its lock: every package with its hashes.

    Example: controller lock pytorch-1.10.2
    """
    from controller.catalog.runners import declared
    from controller.errors import UnknownNameError, UsageError
    from controller.scaffold import locking

    if check and upgrade:
        raise UsageError("--check and --upgrade contradict each other", "give one of the two")
    specs = declared()
    if runner not in specs:
        raise UnknownNameError("runner", runner, specs)
    if check:
        raise typer.Exit(_answer(locking.check(specs[runner], device.value), runner))
    written = locking.write(specs[runner], device.value, upgrade)
    typer.echo(f"wrote {written.path}: {len(written.pins)} packages, {_changes(written)}")


def _changes(written: "Lock") -> str:
    if not written.before:
        return "new"
    return "; ".join(written.changes()) or "no version changed"


def _answer(found: "Lock", runner: str) -> int:
    changes = found.changes()
    if not changes:
        typer.echo(f"{found.path} fits its list: {len(found.pins)} packages")
        return 0
    typer.echo(f"{found.path} does not fit its list: {'; '.join(changes)}; run: controller lock {runner}")
    return 1
