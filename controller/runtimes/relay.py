"""Reaches a runner inside a container of an engine that shares no files with this machine, such as one over ssh.

A Unix socket here; each connection to it is carried by the engine itself, as a process in the container that joins it
to the runner's socket (runners/core/relay.py). So the container needs no port and no network there either.
"""

import contextlib
import shlex
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from controller.runtimes.engine import Engine

_CHUNK = 1 << 18
_HEADER = struct.Struct(">BxxxL")  # Stream and length, before each piece of a container's output.
_OUTPUT, _ERRORS = 1, 2


class Stream(Protocol):
    """A connection to the relay in the container."""

    def read(self) -> bytes:
        """The next bytes; empty at the end."""

    def write(self, data: bytes) -> None:
        """Sends all of them."""

    def end(self) -> None:
        """Says that nothing more will be written."""

    def close(self) -> None:
        """Ends it, also for a thread that is reading."""


Opener = Callable[[], Stream]


def opener(engine: Engine, container: str, inner_socket: str) -> Opener:
    """How connections to a socket inside a container are made on this engine."""
    command = ["python", "-m", "runners.core.relay", inner_socket]
    if engine.address.scheme == "ssh":
        return lambda: _Pipe(_over_ssh(engine.address.url, container, command))
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


def _over_ssh(url: str, container: str, command: list[str]) -> list[str]:
    """The other machine's own docker command, through ssh: what Docker's ssh addresses rest on as well."""
    parts = urlsplit(url)
    program = ["ssh", "-T", *(["-p", str(parts.port)] if parts.port else [])]
    user = f"{parts.username}@" if parts.username else ""
    remote = shlex.join(["docker", "exec", "-i", container, *command])
    return [*program, "--", f"{user}{parts.hostname}", remote]


class _Pipe:
    """A process of this machine."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )

    def read(self) -> bytes:
        return self._process.stdout.read(_CHUNK) if self._process.stdout else b""

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._process.stdin:
            view = view[self._process.stdin.write(view) :]

    def end(self) -> None:
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def close(self) -> None:
        self.end()
        self._process.kill()
        self._process.wait()


class Relay:
    """Listens on a Unix socket in ``folder``, which is this user's alone; ``target`` is for gRPC."""

    def __init__(self, folder: Path, open_stream: Opener) -> None:
        self._open = open_stream
        self._path = folder / "runner.sock"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(8)
        self._streams: list[Stream] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def target(self) -> str:
        return f"unix://{self._path}"

    def close(self) -> None:
        """Ends all connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for stream in self._streams:
            stream.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                stream = self._open()
            except Exception:  # whatever it is, gRPC sees a closed connection, and the container's state tells why
                return
            self._streams.append(stream)
            threading.Thread(target=_outward, args=(connection, stream), daemon=True).start()
            with contextlib.suppress(OSError, ValueError):
                while data := stream.read():
                    connection.sendall(data)
            stream.close()


def _outward(connection: socket.socket, stream: Stream) -> None:
    with contextlib.suppress(OSError, ValueError):
        while data := connection.recv(_CHUNK):
            stream.write(data)
    stream.end()
