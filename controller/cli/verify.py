"""``controller verify``: probes runners and prints which of them do the work of which workload."""

import sys
from typing import TYPE_CHECKING, Any

import typer

from controller.cli import compare as shared
from controller.cli import options
from controller.cli.options import Output, RuntimeKind

if TYPE_CHECKING:
    from controller.preparation import CompareRequest


def verify(
    *,
    runner: options.Runners = None,
    workload: options.Workloads = None,
    variant: options.Variants = None,
    device: options.Device = None,
    gpu: options.GpuIndex = None,
    seed: options.Seed = None,
    batch_size: options.BatchSize = None,
    threads: options.Threads = None,
    output: options.OutputForm = Output.table,
    data_dir: options.DataFolder = None,
    interpreter: options.Interpreters = None,
    runtime: options.Runtime = RuntimeKind.auto,
    host: options.Hosts = None,
    certificate: options.Certificate = None,
    limit: options.Limits = None,
    fresh: options.Fresh = False,
) -> None:
    """Check that runners do the same work: a few steps of each workload, beside a float64 reference and each other.

    Without --runner all runners that this machine can have, without --workload all workloads of the catalog.
    Nothing is timed. Example: controller verify --device cpu --workload cnn-mnist
    """
    from controller.catalog import workloads

    kind, index = shared.device_of(device, gpu)
    wanted = shared.hosts_of(host or [])
    asked: dict[str, Any] = {
        "runners": shared.runner_names(runner or []),
        "every_runner": True,
        "variants": shared.variants_of(variant or []),
        "interpreters": shared.interpreters_of(interpreter or []),
        "data_dir": shared.folder_of(data_dir),
        "workloads": shared.workloads_of(
            workload or list(workloads.names()), False, {"batch_size": batch_size}, [seed]
        ),
        "device": kind,
        "gpu_index": index,
        "threads": shared.threads_of(threads, wanted),
        "runtime": runtime.value,
        "hosts": wanted,
        "certificate": certificate,
        "limits": shared.limits_of(limit or []),
        "fresh": fresh,
    }
    from controller.preparation import CompareRequest

    raise typer.Exit(_carry_out(CompareRequest(**asked), output))


def _carry_out(request: "CompareRequest", output: Output) -> int:
    from controller import campaign, paths
    from controller.cli.consoles import print_json, progress, results
    from controller.report import matrix
    from controller.report.live import live
    from controller.store import Store

    store = Store(paths.data_folder() / "results.sqlite")
    with live(progress()) as observe:
        found = campaign.verify(request, observe, store)
    entries = matrix.entries(found.cells, found.certificates, found.absent)
    if output is Output.json:
        print_json(matrix.document(entries, found.notes))
    else:
        matrix.render(entries, found.notes, results())
        sys.stdout.flush()
    return 0 if found.is_sound else 1
