"""Frames between the server and its training process: one letter, four bytes of length, a payload."""

import os
import struct

HELLO = b"H"        # trainer -> server: the interpreter runs; empty
DESCRIBED = b"D"    # trainer -> server: a DescribeResponse
EVENT = b"E"        # trainer -> server: a TrainEvent (Started or Finished)
PROBED = b"P"       # trainer -> server: a ProbeResponse
REFUSED = b"R"      # trainer -> server: JSON {"code", "reason", "message"}: the request cannot start
BROKEN = b"B"       # trainer -> server: JSON {"message"}: the adapter cannot be imported
TRAIN = b"T"        # server -> trainer: a TrainRequest
PROBE = b"Q"        # server -> trainer: a ProbeRequest

_HEADER = struct.Struct("<cI")


def write_frame(descriptor, kind, payload=b""):
    """Writes one frame to a file descriptor. Raises OSError when the other side is gone."""
    view = memoryview(_HEADER.pack(kind, len(payload)) + payload)
    while view:
        view = view[os.write(descriptor, view):]


def read_frame(descriptor):
    """(kind, payload) from a file descriptor, or None at its end. Raises OSError."""
    header = _read(descriptor, _HEADER.size)
    if header is None:
        return None
    kind, length = _HEADER.unpack(header)
    payload = _read(descriptor, length)
    return None if payload is None else (kind, payload)


def _read(descriptor, length):
    parts, missing = [], length
    while missing:
        part = os.read(descriptor, min(missing, 1 << 20))
        if not part:
            return None
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
