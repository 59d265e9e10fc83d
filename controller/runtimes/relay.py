"""Reaches a runner inside a container of an engine that shares no files with this machine.

The engine itself carries each connection, as a process in the container that joins it to the runner's socket
(runners/core/relay.py). So the container needs no port and no network there either.
"""

import contextlib
import socket
import struct
from typing import Any

from controller.runtimes.engine import Engine
from controller.runtimes.tunnels import Opener

_CHUNK = 1 << 18
_HEADER = struct.Struct(">BxxxL")  # Stream and length, before each piece of a container's output.
_OUTPUT = 1


def opener(engine: Engine, container: str, inner_socket: str) -> Opener:
    """How connections to a socket inside a container are made on this engine."""
    command = ["python", "-m", "runners.core.relay", inner_socket]
    return lambda: _Exec(engine, container, command)


class _Exec:
    """A process that the engine starts, its input and output on one connection to the engine."""

    def __init__(self, engine: Engine, container: str, command: list[str]) -> None:
        api = engine.client.api
        started = api.exec_create(container, command, stdin=True, stdout=True, stderr=True)
        self._raw: Any = api.exec_start(started["Id"], socket=True)
        # The library hands out a reading file over a Unix socket, and over TCP with TLS the socket itself.
        self._socket: Any = getattr(self._raw, "_sock", self._raw)
        self._socket.settimeout(None)
        self._left = b""

    def read(self) -> bytes:
        while True:
            header = self._exactly(_HEADER.size)
            if not header:
                return b""
            stream, length = _HEADER.unpack(header)
            data = self._exactly(length)
            if stream == _OUTPUT or not data:
                return data

    def _exactly(self, length: int) -> bytes:
        parts = []
        while length:
            data: bytes = self._socket.recv(min(length, _CHUNK))
            if not data:
                return b""
            parts.append(data)
            length -= len(data)
        return b"".join(parts)

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._raw.close()
