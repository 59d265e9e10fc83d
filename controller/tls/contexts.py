"""What Python's TLS is told for the front: TLS 1.3 alone, certificates of one authority, none that is revoked."""

import contextlib
import ssl
from collections.abc import Callable

from controller.tls.identity import Identity
from controller.tls.revocations import Revocations

PROTOCOL = "h2"
_CERTIFICATE_MESSAGE = 11
_Seen = Callable[[bytes], None]


def server(identity: Identity, revocations: Revocations | None, seen: _Seen) -> ssl.SSLContext:
    """The front's context. ``seen`` is given each certificate that a client shows, as DER, before it is checked."""
    context = _bare(identity, revocations.pem if revocations else b"")
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    if revocations:
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    _watch(context, seen)
    return context


def refusing(identity: Identity) -> ssl.SSLContext:
    """A context that ends every handshake at its beginning with the alert "internal error"."""
    context = _bare(identity, b"")
    context.sni_callback = lambda _tls, _name, _context: ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
    return context


def _bare(identity: Identity, revoked: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # No resumption: a resumed session would be that of a certificate which is not looked at again.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    context.set_alpn_protocols([PROTOCOL])
    identity.load_into(context, revoked)
    return context


def _watch(context: ssl.SSLContext, seen: _Seen) -> None:
    """Python shows a certificate that it refused in no other way than this debugging hook. It only makes the refusal's
    line better: without the hook that line has no name and no date."""

    def message(_tls: object, direction: str, _version: object, kind: object, message: object, data: bytes) -> None:
        if direction == "read" and kind == 22 and message == _CERTIFICATE_MESSAGE:
            with contextlib.suppress(IndexError):
                seen(first_certificate(data))

    with contextlib.suppress(AttributeError):
        context._msg_callback = message  # type: ignore[attr-defined]


def first_certificate(message: bytes) -> bytes:
    """The first certificate of a TLS 1.3 Certificate message (RFC 8446, 4.4.2), as DER; empty if there is none. Raises
    IndexError for a message that is cut off."""
    start = 4 + 1 + message[4] + 3  # the header, the request's context, the length of the list
    if start == len(message):
        return b""
    length = int.from_bytes(message[start : start + 3])
    found = message[start + 3 : start + 3 + length]
    if len(found) != length:
        raise IndexError("cut off")
    return found
