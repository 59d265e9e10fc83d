"""A connection to a host that serves its runners, and its errors in one line."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from trainyard.v1 import host_pb2_grpc

from controller.addresses import PLAIN, Address
from controller.errors import ControllerError, HostError, RunnerError, UsageError

if TYPE_CHECKING:
    from controller.tls.identity import Identity

REASON_KEY = "trainyard-reason"
SESSION_KEY = "trainyard-session"
SHORT_SECONDS = 30.0
# Who is not heard of for this long is gone: the link is cut, or the host. Another process than a runner's answers.
KEEPALIVE_SECONDS, KEEPALIVE_TIMEOUT_SECONDS = 5, 10
CONNECT_SECONDS = 10
MAX_RESULT_BYTES = 512 * 2**20
_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", MAX_RESULT_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_SECONDS * 1000),
    ("grpc.http2.max_pings_without_data", 0),
    # A host that is there takes a connection within a few round trips, even when some packets are lost.
    ("grpc.min_reconnect_backoff_ms", CONNECT_SECONDS * 1000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Each channel has a connection of its own, so that closing one is felt by no other.
    ("grpc.use_local_subchannel_pool", 1),
)


@dataclass(frozen=True, slots=True)
class Link:
    """How a host is reached. ``identity`` is the controller's certificate; None without TLS."""

    address: Address
    identity: "Identity | None" = None

    def channel(self) -> grpc.Channel:
        """A new one; whoever asked closes it."""
        if self.identity is None:
            return grpc.insecure_channel(self.address.target, options=_OPTIONS)
        return grpc.secure_channel(self.address.target, self.identity.channel_credentials(), options=_OPTIONS)

    def ask(self, call: Callable[[Any], Any], what: str) -> Any:
        """The answer of one call of the Host service's stub. Raises ControllerError."""
        with self.channel() as channel:
            try:
                return call(host_pb2_grpc.HostStub(channel))
            except grpc.RpcError as error:
                raise self.translated(error, what) from error

    def translated(self, error: Any, what: str) -> ControllerError:
        """What a failed call means; ``what`` says which, such as "preparing runners"."""
        code, details = error.code(), " ".join((error.details() or "").split())
        name = self.address.name
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            why = self._diagnosis() or details
            return HostError(f"host {self.address.text()} does not answer ({what}): {why}")
        reason = str(dict(error.trailing_metadata() or ()).get(REASON_KEY, code.name))
        if code == grpc.StatusCode.INVALID_ARGUMENT:
            return UsageError(f"host {name} refuses {what}: {details}")
        return RunnerError(f"host {name}, {what}: {details}", reason=reason)

    def _diagnosis(self) -> str:
        if self.address.scheme == PLAIN:
            return ""
        from controller.tls.diagnosis import diagnose

        return diagnose(self.address.server, self.address.port, self.identity)


def link(address: Address, certificate: Path | None) -> Link:
    """Raises UsageError where TLS is wanted and there is no certificate, or it is unfit."""
    if address.scheme == PLAIN:
        return Link(address)
    if certificate is None:
        hint = "give --certificate FILE; controller certs issue makes it"
        raise UsageError(f"host {address.text()} wants a certificate", hint)
    from controller.tls.identity import Identity

    return Link(address, Identity.load(certificate, "client"))
