"""``controller serve``: offers this machine's runners to controllers elsewhere."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli import options
from controller.cli.options import RuntimeKind
from controller.errors import UsageError

if TYPE_CHECKING:
    from controller.tls.identity import Identity

_MEBIBYTE = 2**20


def serve(
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen; beyond loopback only with --certificate.")
    ] = "127.0.0.1:50051",
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="TRAINYARD_CERTIFICATE", help="This host's certificate."),
    ] = None,
    revoked: Annotated[
        Path | None, typer.Option(metavar="FILE", help="List of revoked certificates; read again when it changes.")
    ] = None,
    runtime: options.Runtime = RuntimeKind.auto,
    max_message_mib: Annotated[int, typer.Option(min=1, max=1024, help="Largest message.")] = 16,
    max_blob_mib: Annotated[int, typer.Option(min=1, help="Largest array of a dataset.")] = 16 * 1024,
    max_store_mib: Annotated[int, typer.Option(min=1, help="All arrays together.")] = 64 * 1024,
    max_steps: Annotated[int, typer.Option(min=1, help="Most steps of a trial, warm-up included.")] = 1_000_000,
    max_seconds: Annotated[int, typer.Option(min=1, help="How long a runner may live.")] = 24 * 3600,
) -> None:
    """Offer this machine's runners to controllers elsewhere, until Ctrl-C.

    Example: controller serve --listen 0.0.0.0:50051 --certificate host.pem
    and there: controller compare --host local --host far=grpcs://10.0.0.5:50051 --certificate laptop.pem
    """
    from controller.addresses import endpoint, is_loopback
    from controller.serving.limits import Limits
    from controller.serving.server import Serving
    from controller.serving.server import serve as run

    where = endpoint(listen)
    if certificate is None and not is_loopback(where[0]):
        hint = "give --certificate FILE (controller certs issue makes it), or listen at 127.0.0.1"
        raise UsageError(f"--listen {listen}: beyond loopback a certificate is needed", hint)
    if certificate is None and revoked is not None:
        raise UsageError("--revoked is for --certificate", "give both")
    limits = Limits(
        max_message_mib * _MEBIBYTE, max_blob_mib * _MEBIBYTE, max_store_mib * _MEBIBYTE, max_steps, max_seconds
    )
    run(Serving(where, runtime.value, _identity(certificate), revoked, limits), _ready, _say, _Interrupted())


def _identity(certificate: Path | None) -> "Identity | None":
    if certificate is None:
        return None
    from controller.tls.identity import Identity

    found = Identity.load(certificate, "server")
    for warning in found.warnings:
        _say(f"warning: {warning}")
    return found


def _ready(address: str) -> None:
    sys.stdout.write(f"serving at {address}\n")
    sys.stdout.flush()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class _Interrupted:
    """Ends serving on Ctrl-C."""

    def wait(self, seconds: float) -> bool:
        """Raises KeyboardInterrupt when it was asked for."""
        import time

        from controller import interrupts

        time.sleep(seconds)
        interrupts.check()
        return False
