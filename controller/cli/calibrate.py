"""``controller calibrate``: how fast this machine is without any framework."""

from typing import TYPE_CHECKING

from controller.cli import options
from controller.cli.options import Output, RuntimeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.results import Calibration


def calibrate(
    output: options.OutputForm = Output.table,
    runtime: options.Runtime = RuntimeKind.auto,
    host: options.Hosts = None,
    certificate: options.Certificate = None,
) -> None:
    """Measure hosts without any framework: a loop, a product, a copy, and a call of a runner."""
    from controller.addresses import parse_all
    from controller.campaign import calibrate as measure
    from controller.cli.consoles import progress
    from controller.preparation import CompareRequest
    from controller.report.live import live

    wanted = parse_all(host or [])
    request = CompareRequest(
        workloads=(), runners=("reference",), runtime=runtime.value, hosts=wanted, certificate=certificate
    )
    with live(progress()) as display:
        found = measure(request, display)
    if output is Output.json:
        from dataclasses import asdict

        from controller.cli.consoles import print_json

        print_json({"format": "trainyard-calibration", "version": 2, "hosts": [asdict(each) for each in found]})
    else:
        _print_table(found)


def _print_table(found: "Sequence[Calibration]") -> None:
    from controller.cli.consoles import results
    from controller.report.hosts import SHOWN
    from controller.report.listing import render

    for each in found:
        rows = []
        for name, shown in SHOWN.items():
            value = each.values.get(name)
            absent = each.absent.get(name, each.absent.get("all", ""))
            rows.append((shown.text, f"{value / shown.one:,.3g} {shown.unit}" if value is not None else absent))
        render(results(), (f"{each.host}, {each.runtime}", "measured, or why not"), rows)
