"""Hosts beside each other: the same rows on each, and how fast each is without a framework. Pure functions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.comparison import Comparison, Group
from controller.results import Calibration, Machine

_GIBIBYTE = 1024**3


@dataclass(frozen=True, slots=True)
class Shown:
    """A number of a calibration: its name in a list and in a sentence, its unit, what one of that is, and whether more
    of it is better."""

    text: str
    word: str
    unit: str
    one: float
    is_rate: bool = False


SHOWN = {
    "python_loop_s": Shown("loop of Python, 500,000 turns", "Python loop", "ms", 1e-3),
    "matrix_product_flops": Shown(
        "product of matrices, float32, 768 x 768", "matrix product", "Gflop/s", 1e9, is_rate=True
    ),
    "memory_copy_bytes_per_s": Shown("copy of 64 MiB", "memory copy", "GiB/s", 2**30, is_rate=True),
    "rpc_round_trip_s": Shown("call of a runner and back", "call of a runner", "ms", 1e-3),
    "host_to_device_bytes_per_s": Shown("copy to the device", "copy to the device", "GiB/s", 2**30, is_rate=True),
    "empty_launch_s": Shown("empty launch on the device", "empty launch", "ms", 1e-3),
}


def times_as_long(name: str, value: float, base: float) -> float:
    """How many times as long a machine takes for what another does; both are values of the calibration ``name``."""
    return base / value if SHOWN[name].is_rate else value / base


def machine_line(machine: Machine) -> str:
    """One line for people."""
    cores = f"{machine.cpu_count:,} core{'' if machine.cpu_count == 1 else 's'}"
    memory = f"{machine.memory_bytes / _GIBIBYTE:.1f} GiB memory"
    parts = [machine.name, machine.system, machine.cpu, cores, memory, *machine.gpus]
    return ", ".join(part for part in parts if part)


def host_lines(group: Group) -> Iterator[str]:
    """What each row takes on one host as a multiple of another."""
    return (found.text() for found in group.between)


def machine_lines(comparison: Comparison) -> Iterator[str]:
    """Each host, and how fast it is without a framework, beside the first."""
    campaign = comparison.campaign
    if not campaign.machines:
        yield f"machine: {machine_line(campaign.machine)}"
    for host, machine in campaign.machines.items():
        yield f"machine {host}: {machine_line(machine)}"
    if len(campaign.calibrations) > 1:
        yield from calibration_lines(campaign.calibrations)


def calibration_lines(calibrations: Sequence[Calibration]) -> Iterator[str]:
    """One line for each number that at least two hosts have."""
    for name, shown in SHOWN.items():
        found = [(each.host, each.values[name]) for each in calibrations if name in each.values]
        if len(found) < 2:
            continue
        base, first = found[0]
        parts = [f"{base} {first / shown.one:,.3g} {shown.unit}"]
        for host, value in found[1:]:
            longer = times_as_long(name, value, first)
            parts.append(f"{host} {value / shown.one:,.3g} {shown.unit} ({longer:.2f} times as long)")
        yield f"without a framework, {shown.text}: {', '.join(parts)}"
    for each in calibrations:
        if "all" in each.absent:
            yield f"without a framework, {each.host}: {each.absent['all']}"
