"""``controller hosts``: what machines are, and which runners they can have."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import options

if TYPE_CHECKING:
    from controller.addresses import Address
    from controller.runtimes.remote import Facts


def hosts(
    host: options.Hosts = None,
    certificate: options.Certificate = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what hosts are and which runners they can have, and why not the others.

    Example: controller hosts --host win=grpcs://10.0.0.5:50051 --certificate laptop.pem
    """
    from controller.addresses import parse_all
    from controller.cli.consoles import print_json
    from controller.errors import UsageError

    wanted = parse_all(host or [])
    if other := [each for each in wanted if not (each.is_local or each.is_served)]:
        raise UsageError(f"--host {other[0].name} is an engine, no machine that answers", "controller images lists it")
    found = [(each, _facts(each, certificate)) for each in wanted]
    if json:
        print_json({"format": "trainyard-hosts", "version": 1, "hosts": [_entry(*each) for each in found]})
        return
    for address, facts in found:
        _show(address, facts)


def _facts(address: "Address", certificate: Any) -> "Facts":
    from controller.runtimes.links import link
    from controller.runtimes.remote import describe, facts_of

    if address.is_served:
        return describe(link(address, certificate))
    from controller.serving.limits import Limits
    from controller.serving.offers import Offers

    return facts_of(Offers("auto", Limits()).describe())


def _entry(address: "Address", facts: "Facts") -> dict[str, Any]:
    offers = [
        {"runner": runner, "device": device, **asdict(answer)} for (runner, device), answer in facts.offers.items()
    ]
    return {"name": address.name, "address": address.text(), **asdict(facts), "offers": offers}


def _show(address: "Address", facts: "Facts") -> None:
    from controller.cli.consoles import results
    from controller.report.hosts import machine_line
    from controller.report.listing import render

    console = results()
    console.print(f"{address.text()}: {machine_line(facts.machine)}", soft_wrap=True, highlight=False, markup=False)
    told = {**facts.told, "engine": facts.engine or "none", "trainyard": facts.controller_version}
    if facts.no_gpu:
        told["no GPU"] = facts.no_gpu
    for name, text in told.items():
        console.print(f"  {name}: {text}", soft_wrap=True, highlight=False, markup=False)
    rows = [
        (runner, device, "yes" if answer.ok else "no", " ".join(filter(None, (answer.reason, answer.remedy))))
        for (runner, device), answer in facts.offers.items()
    ]
    render(console, ("runner", "device", "can run", "why, and what to do"), rows)
