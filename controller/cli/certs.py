"""``controller certs``: a private authority, and the certificates of hosts and controllers that it issues."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.options import Output, OutputForm

if TYPE_CHECKING:
    from controller.runtimes.locks import FileLock
    from controller.tls.authority import Entry

app = typer.Typer(
    rich_markup_mode=None,
    help="Make a private authority, and the certificates with which hosts and controllers know each other.",
    no_args_is_help=True,
)

Folder = Annotated[
    Path | None, typer.Option(help="The authority's folder. Default: certs in the data folder.", show_default=False)
]
Days = Annotated[int, typer.Option(help="How long it is good, in days: 1 to 397.")]


@app.command()
def init(folder: Folder = None) -> None:
    """Make a private authority. One is enough for all hosts; it is never overwritten.

    Example: controller certs init
    """
    from cryptography.hazmat.primitives import hashes

    from controller.tls import authority, reading

    where = _folder(folder)
    with _held(where):
        made = authority.create(where)
    ends = reading.moment(made.certificate.not_valid_after_utc)
    typer.echo(f"authority: {where}, good until {ends}")
    typer.echo(f"fingerprint: SHA-256 {made.certificate.fingerprint(hashes.SHA256()).hex()}")
    typer.echo("its key stays in this folder: whoever has it can make certificates. Next: controller certs issue")


@app.command()
def issue(
    name: Annotated[str, typer.Argument(help="What the host or the controller is called.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The identity to write.")],
    address: Annotated[
        list[str] | None,
        typer.Option(metavar="IP|NAME", help="What controllers call this host in grpcs://; repeatable."),
    ] = None,
    client: Annotated[bool, typer.Option("--client", help="A controller's certificate, not a host's.")] = False,
    days: Days = 30,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    folder: Folder = None,
) -> None:
    """Issue a certificate. FILE is the whole identity: private key, certificate, and the authority's certificate.

    Example: controller certs issue win --address 10.0.0.5 -o win.pem

    Example: controller certs issue laptop --client -o laptop.pem
    """
    from controller.tls import authority, files, reading
    from controller.tls.reading import CLIENT, SERVER

    _check_output(output, force)
    where = _folder(folder)
    found = authority.load(where)
    with _held(where):
        entry, identity = found.issue(name, CLIENT if client else SERVER, tuple(address or ()), days)
    if force:
        files.replace(output, identity)
    else:
        files.write_new(output, identity)
    whose = f"host {name} ({', '.join(entry.addresses)})" if entry.kind == SERVER else f"controller {name}"
    typer.echo(f"{output}: {whose}, good until {reading.moment(entry.ends)}, serial {entry.serial[:_DIGITS]}")
    use = "serve" if entry.kind == SERVER else "compare"
    typer.echo(
        f"it holds a private key: hand it over by a safe way, then: controller {use} --certificate {output.name}"
    )


@app.command()
def revoke(
    certificate: Annotated[str, typer.Argument(metavar="NAME|SERIAL", help="Which: all of a name, or one serial.")],
    folder: Folder = None,
) -> None:
    """Revoke certificates, and sign the list of revoked ones that hosts are given with serve --revoked.

    Example: controller certs revoke laptop
    """
    from controller.tls import authority

    where = _folder(folder)
    found = authority.load(where)
    with _held(where):
        for entry in found.revoke(certificate):
            typer.echo(f"revoked: {_WORDS[entry.kind]} {entry.name}, serial {entry.serial[:_DIGITS]}")
    typer.echo(f"the list: {found.list_file}; copy it to each host's serve --revoked FILE, which reads it at once")


@app.command()
def crl(
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="A copy; overwritten.")] = None,
    days: Days = 30,
    folder: Folder = None,
) -> None:
    """Sign the list of revoked certificates anew. It counts for so many days, then hosts refuse everyone.

    Example: controller certs crl -o revoked.pem
    """
    from controller.tls import authority, files, reading

    where = _folder(folder)
    found = authority.load(where)
    with _held(where):
        ends = found.sign_list(days)
        signed = files.read(found.list_file)
    if output:
        files.replace(output, signed, mode=0o644)
    typer.echo(f"{output or found.list_file}: the list of revoked certificates, good until {reading.moment(ends)}")


@app.command(name="list")
def list_(*, output: OutputForm = Output.table, folder: Folder = None) -> None:
    """List the certificates that were issued: which are revoked, and when the others end.

    Example: controller certs list --output json
    """
    from controller.tls import authority

    entries = authority.load(_folder(folder)).issued()
    if output is Output.json:
        from controller.cli.consoles import print_json

        listed = [_entry(entry) for entry in entries]
        print_json({"format": "trainyard-certificate-list", "version": 1, "certificates": listed})
        return
    from controller.cli.consoles import results
    from controller.report.listing import render

    render(results(), ("name", "kind", "state", "until", "serial", "addresses"), [_cells(entry) for entry in entries])


_DIGITS = 12
_WORDS = {"server": "host", "client": "controller"}


def _folder(chosen: Path | None) -> Path:
    from controller.paths import data_folder

    return chosen.expanduser().absolute() if chosen else data_folder() / "certs"


def _held(folder: Path) -> "FileLock":
    """A context in which no other command changes the authority. Raises HostError."""
    from controller.runtimes.locks import FileLock
    from controller.tls import files

    files.private_folder(folder)
    return FileLock(folder / "lock", lambda: None)


def _check_output(output: Path, force: bool) -> None:
    """Before anything is issued that would then lie nowhere."""
    from controller.errors import UsageError

    if output.is_dir() or not output.absolute().parent.is_dir():
        raise UsageError(f"{output} cannot be written: {'a folder' if output.is_dir() else 'no such folder'}")
    if output.exists() and not force:
        raise UsageError(f"{output} exists already", "choose another -o FILE, or overwrite it with --force")


def _entry(entry: "Entry") -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": _WORDS[entry.kind],
        "addresses": list(entry.addresses),
        "serial": entry.serial,
        "ends": entry.ends.isoformat(),
        "revoked": entry.revoked.isoformat() if entry.revoked else None,
        "expired": entry.is_expired(),
    }


def _cells(entry: "Entry") -> tuple[str, ...]:
    from controller.tls.reading import moment

    state = "revoked" if entry.revoked else "expired" if entry.is_expired() else "in force"
    addresses = ", ".join(entry.addresses)
    return entry.name, _WORDS[entry.kind], state, moment(entry.ends), entry.serial[:_DIGITS], addresses
