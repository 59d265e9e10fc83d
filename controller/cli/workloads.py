"""``controller workloads``: the workloads of the catalog."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from controller.cli.options import Output, OutputForm

if TYPE_CHECKING:
    from controller.results import WorkloadSummary


def workloads(
    output: OutputForm = Output.table,
) -> None:
    """List the workloads of the catalog. Others can be given to compare as files."""
    from controller.catalog import workloads as catalog

    found = []
    for name in catalog.names():
        definition = catalog.load(name)
        # What depends on the data is not known before it is there.
        is_known = not catalog.needs_data(definition.workload)
        found.append((catalog.summarise(definition.workload), definition.description, is_known))
    if output is Output.json:
        from controller.cli.consoles import print_json

        entries = [_entry(*entry) for entry in found]
        print_json({"format": "trainyard-workloads", "version": 1, "workloads": entries})
    else:
        _print_table(found)


def _entry(summary: "WorkloadSummary", description: str, is_known: bool) -> dict[str, Any]:
    entry = {**asdict(summary), "description": description}
    del entry["message"]
    return entry if is_known else {**entry, "digest": None, "parameter_count": None}


def _print_table(found: "list[tuple[WorkloadSummary, str, bool]]") -> None:
    from controller.cli.consoles import results
    from controller.report.listing import render

    headers = ("workload", "batch", "optimizer", "learning rate", "warm-up", "measured", "parameters", "dataset, model")
    render(results(), headers, [_cells(*entry) for entry in found], numbers=("batch", "learning rate", "parameters"))


def _cells(summary: "WorkloadSummary", description: str, is_known: bool) -> tuple[str, ...]:
    parameters = f"{summary.parameter_count:,}" if is_known else "from data"
    text = "; ".join(filter(None, (summary.dataset, description)))
    rate = f"{summary.learning_rate:g}"
    start = (summary.name, str(summary.batch_size), summary.optimizer, rate)
    return (*start, summary.warmup, summary.measured, parameters, text)
