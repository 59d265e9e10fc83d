"""``controller doctor``: what this machine has and lacks, and how to mend it."""

from typing import Annotated, Any

import typer

from controller.cli.options import Output, OutputForm


def doctor(
    output: OutputForm = Output.table,
    host: Annotated[str, typer.Option(metavar="local|docker:CONTEXT", help="Which engine to look at.")] = "local",
) -> None:
    """Check the Docker engine and the GPUs. Exit code 1 when something that is there is not fit to be used."""
    from controller import doctor as examination
    from controller.preflight import FAILED
    from controller.runtimes.choice import context_of

    found = list(examination.checks(context_of(host)))
    if output is Output.json:
        from dataclasses import asdict

        from controller.cli.consoles import print_json

        print_json({"format": "trainyard-doctor", "version": 1, "checks": [asdict(check) for check in found]})
    else:
        _print_table(found)
    raise typer.Exit(1 if any(check.state == FAILED for check in found) else 0)


def _print_table(found: Any) -> None:
    from controller.cli.consoles import results
    from controller.report.listing import render

    rows = [(check.subject, check.state, check.line()) for check in found]
    render(results(), ("what", "state", "found, and what to do"), rows)
