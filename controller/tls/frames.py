"""The few frames of HTTP/2 (RFC 9113) that are needed to say why a connection ends, or to see that one works."""

import struct
from collections.abc import Iterator

from controller.tls.names import printable

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, GOAWAY = 4, 7
_HEADER = struct.Struct(">HBBBL")  # the length's upper two bytes and its last, type, flags, stream
_ENHANCE_YOUR_CALM = 11
_BIGGEST = 2**14


def settings() -> bytes:
    """An empty SETTINGS frame, with which each side begins."""
    return _frame(SETTINGS, b"")


def farewell(text: str) -> bytes:
    """What ends a connection before it began, with why. Without SETTINGS before it gRPC takes the connection as failed,
    and waits longer before each new one. After SETTINGS it would take it as good, and come again at once, for ever."""
    return _frame(GOAWAY, struct.pack(">LL", 0, _ENHANCE_YOUR_CALM) + text.encode("ascii", "replace"))


def frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and payload of each whole frame at the beginning of ``data``; none if it is no HTTP/2."""
    while len(data) >= _HEADER.size:
        upper, lower, kind, _, _ = _HEADER.unpack_from(data)
        length = upper << 8 | lower
        if length > _BIGGEST or len(data) < _HEADER.size + length:
            return
        yield kind, data[_HEADER.size : _HEADER.size + length]
        data = data[_HEADER.size + length :]


def reason_of(payload: bytes) -> str:
    """The text of a GOAWAY frame, fit for printing."""
    return printable(payload[8:].decode("utf-8", "replace"))


def _frame(kind: int, payload: bytes) -> bytes:
    return _HEADER.pack(len(payload) >> 8, len(payload) & 0xFF, kind, 0, 0) + payload
