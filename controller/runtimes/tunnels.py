"""Unix sockets of this machine whose connections are carried elsewhere by something that is no network: a process's
input and output, or a connection to a container engine."""

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

_CHUNK = 1 << 18


class Stream(Protocol):
    """One connection, wherever it leads."""

    def read(self) -> bytes:
        """The next bytes; empty at the end."""

    def write(self, data: bytes) -> None:
        """Sends all of them."""

    def end(self) -> None:
        """Says that nothing more will be written."""

    def close(self) -> None:
        """Ends it, also for a thread that is reading."""


Opener = Callable[[], Stream]


class Pipe:
    """A process of this machine; what it complains about is added to ``log``. Raises OSError."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0
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


class Tunnel:
    """Listens on a Unix socket at ``path``, in a folder that is this user's alone; ``target`` is its address, for gRPC
    and for engines' clients. Windows' Python has no such sockets: there it is a port of the loopback address."""

    def __init__(self, path: Path, open_stream: Opener) -> None:
        self._open = open_stream
        if sys.platform == "win32":
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.target = f"127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(path))
            self._listener.listen(8)
            self.target = f"unix://{path}"
        self._streams: list[Stream] = []
        threading.Thread(target=self._accept, daemon=True).start()

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
            except Exception:  # whatever it is, the client sees a closed connection and asks why
                return
            self._streams.append(stream)
            threading.Thread(target=_outward, args=(connection, stream), daemon=True).start()
            with contextlib.suppress(OSError, ValueError):
                while data := stream.read():
                    connection.sendall(data)
            # Closing alone would not end the other thread's wait, and the client would wait with it.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            stream.close()


def _outward(connection: socket.socket, stream: Stream) -> None:
    with contextlib.suppress(OSError, ValueError):
        while data := connection.recv(_CHUNK):
            stream.write(data)
    stream.end()
