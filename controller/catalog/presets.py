"""Presets of ``controller compare``: a published table as the options that measure it anew."""

from collections.abc import Mapping
from dataclasses import dataclass

from controller.catalog import published
from controller.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Preset:
    """``table``: name of the published one; ``sides``: the systems that are compared, as that table calls them."""

    name: str
    table: str
    device: str
    sides: tuple[str, ...]

    def options(self) -> dict[str, list[str]]:
        """Options of ``compare`` by their names, each with all its values. The schedule is the workload's."""
        found = published.find(self.table)
        return {
            "workload": [found.workload],
            "runner": list(dict.fromkeys(runner_of(row) for row in found.row)),
            "variant": list(dict.fromkeys(row.variant or "default" for row in found.row)),
            "device": [self.device],
            "against": [f"published:{self.table}"],
        }


PRESETS: Mapping[str, Preset] = {
    preset.name: preset for preset in (Preset("windows-vs-wsl2", "ttj-3", "gpu", ("Windows 10", "WSL2")),)
}


def find(name: str) -> Preset:
    """By its name. Raises UnknownNameError."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return PRESETS[name]


def runner_of(row: published.Row) -> str:
    """The runner that is a printed row's framework in its version."""
    return f"{row.framework.lower()}-{row.version}"
