"""``controller calibrate``: how fast this machine is without any framework."""

from typing import TYPE_CHECKING

from controller.cli import options
from controller.cli.options import Output, RuntimeKind

if TYPE_CHECKING:
    from controller.results import Calibration

# Of each number: what it is called, its unit, and what one of that is.
_SHOWN = {
    "python_loop_s": ("loop of Python, 500,000 turns", "ms", 1e-3),
    "matrix_product_flops": ("product of matrices, float32, 768 x 768", "Gflop/s", 1e9),
    "memory_copy_bytes_per_s": ("copy of 64 MiB", "GiB/s", 2**30),
    "rpc_round_trip_s": ("call of a runner and back", "ms", 1e-3),
    "host_to_device_bytes_per_s": ("copy to the device", "GiB/s", 2**30),
    "empty_launch_s": ("empty launch on the device", "ms", 1e-3),
}


def calibrate(
    output: options.OutputForm = Output.table,
    runtime: options.Runtime = RuntimeKind.auto,
    host: options.Host = "local",
) -> None:
    """Measure this machine without any framework: a loop, a product, a copy, and a call of a runner."""
    from controller.campaign import calibrate as measure
    from controller.cli.consoles import progress
    from controller.preparation import CompareRequest
    from controller.report.live import live

    request = CompareRequest(workloads=(), runners=("reference",), runtime=runtime.value, host=host)
    with live(progress()) as display:
        found = measure(request, display)
    if output is Output.json:
        from dataclasses import asdict

        from controller.cli.consoles import print_json

        print_json({"format": "trainyard-calibration", "version": 1, **asdict(found)})
    else:
        _print_table(found)


def _print_table(found: "Calibration") -> None:
    from controller.cli.consoles import results
    from controller.report.listing import render

    rows = []
    for name, (text, unit, one) in _SHOWN.items():
        value = found.values.get(name)
        shown = f"{value / one:,.3g} {unit}" if value is not None else found.absent.get(name, "")
        rows.append((text, shown))
    render(results(), (f"{found.host}, {found.runtime}", "measured, or why not"), rows)
