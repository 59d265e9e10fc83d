"""``controller runners``: the runners that exist, and which of them this machine can have."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.options import DeviceKind, Output, OutputForm

if TYPE_CHECKING:
    from controller.catalog.runners import RunnerSpec
    from controller.runtimes.base import Availability


def runners(
    device: Annotated[DeviceKind, typer.Option(help="What they should train on.")] = DeviceKind.cpu,
    output: OutputForm = Output.table,
) -> None:
    """List the runners, their versions, and whether this machine can have them."""
    from controller.catalog.runners import load, own
    from controller.runtimes.venv import VenvRuntime

    runtime, specs = VenvRuntime(), load()
    found = [(spec, runtime.availability(spec, device.value)) for spec in specs.values()]
    if output is Output.json:
        from controller.cli.consoles import print_json

        entries = [_entry(spec, answer) for spec, answer in found]
        print_json({"format": "trainyard-runners", "version": 1, "device": device.value, "runners": entries})
    else:
        _print_table(found)
    sys.stdout.flush()
    for fault in own({name: spec for name, spec in specs.items() if not spec.own}).faults.values():
        sys.stderr.write(f"left out: {fault.line()}\n")


def _entry(spec: "RunnerSpec", answer: "Availability") -> dict[str, Any]:
    kept = ("name", "framework", "display_name", "version", "distribution", "python", "default", "platforms", "cuda")
    entry = {name: getattr(spec, name) for name in (*kept, "gpu_architectures", "homepage", "notes")}
    entry["own"] = spec.own
    return {**entry, "available": answer.ok, "reason": answer.reason, "remedy": answer.remedy}


def _print_table(found: "list[tuple[RunnerSpec, Availability]]") -> None:
    from controller.cli.consoles import results
    from controller.report.listing import render

    headers = ("runner", "framework", "version", "Python", "default", "available", "remarks")
    render(results(), headers, [_cells(spec, answer) for spec, answer in found])


def _cells(spec: "RunnerSpec", answer: "Availability") -> tuple[str, ...]:
    own = f"your own, in {spec.folder}" if spec.own else ""
    remarks = "; ".join(filter(None, (own, answer.reason, answer.remedy, spec.notes)))
    available, default = ("yes" if flag else "no" for flag in (answer.ok, spec.default))
    return spec.name, spec.display_name, spec.version, spec.python, default, available, remarks
