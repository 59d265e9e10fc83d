"""``compare --preset``: the options of a published table, wherever the command line says nothing else."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from controller.errors import UsageError

if TYPE_CHECKING:
    from controller.catalog.presets import Preset


def chosen(context: typer.Context) -> tuple[dict[str, Any], frozenset[str]]:
    """Values of all options of ``compare`` by their names, and the names of those that a preset decided: it wins over
    settings, and the command line over both. Raises UsageError."""
    values = dict(context.params)
    if values["preset"] is None:
        return values, frozenset()
    from controller.catalog import presets

    preset = presets.find(values["preset"])
    _check_sides(preset, values)
    known = {option.name: option for option in context.command.params}
    texts = {name: given for name, given in preset.options().items() if not _is_said(context, name)}
    for name, given in texts.items():
        option: Any = known[name]
        values[name] = option.process_value(context, given if option.multiple else given[0])
    if "against" in texts and not set(preset.options()["workload"]) & set(values["workload"]):
        values["against"] = None  # another workload, of which the table says nothing
    return values, frozenset(texts)


def _is_said(context: typer.Context, name: str) -> bool:
    return getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"


def _check_sides(preset: "Preset", values: Mapping[str, Any]) -> None:
    """Each side is a host; where they never meet, each is saved for itself."""
    from controller import addresses

    if len(addresses.parse_all(values["host"] or [])) < len(preset.sides) and values["save"] is None:
        raise UsageError(
            f"--preset {preset.name} needs a --host for each side ({', '.join(preset.sides)})",
            "write e.g. --host local --host wsl=grpc://localhost:50051 with controller serve running there; or, if "
            "they never run at once, add --save FILE on each and print both with controller diff",
        )
