"""The TLS front of ``controller serve``: lets controllers of its authority through to the server behind it, byte by
byte, and says of everyone else why not. (docs/decisions/0007-tls-front.md says why it is not gRPC's own TLS.)"""

import asyncio
import contextlib
import errno
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from controller.errors import HostError, UsageError
from controller.tls.gate import Gate
from controller.tls.guard import Guard
from controller.tls.identity import Identity
from controller.tls.journal import Journal

_BACKLOG = 128
_WATCH_SECONDS = 1.0
_CLOSE_SECONDS = 5.0
_TAKEN = {errno.EADDRINUSE, 10048}
_NOT_HERE = {errno.EADDRNOTAVAIL, 10049}
_FORBIDDEN = {errno.EACCES, errno.EPERM, 10013}


class Front:
    """Listens on ``listen`` (host, port; port 0: any) in its own thread and joins each controller that is let in to
    ``target``: "127.0.0.1:PORT", "unix:///PATH", or the path of a Unix socket. ``revoked`` is a signed list of revoked
    certificates, which may be replaced while the front runs. ``say`` is given one line at a time, from that thread,
    and must not block.

    Raises UsageError where the identity is not a host's or the list cannot be used."""

    def __init__(
        self,
        listen: tuple[str, int],
        identity: Identity,
        target: str,
        revoked: Path | None,
        say: Callable[[str], None],
        *,
        most_connections: int = 64,
        handshake_seconds: float = 10.0,
    ) -> None:
        if identity.kind != "server":
            raise UsageError(f"{identity.path} is not a host's certificate")
        self._listen = listen
        journal = Journal(say)
        guard = Guard(identity, revoked)
        self._gate = Gate(guard, journal, target, identity, most_connections, handshake_seconds)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> tuple[str, int]:
        """Listens. Returns the address; raises HostError where that is not to be had."""
        listener = _listener(*self._listen)
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(listener, ready), name="tls-front", daemon=True)
        self._thread.start()
        ready.wait()
        address = listener.getsockname()
        return str(address[0]), int(address[1])

    def stop(self) -> None:
        """Ends all connections and the thread. May be called again."""
        if self._thread is None:
            return
        if self._loop and self._ended:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(_CLOSE_SECONDS)
        self._thread = None

    def _run(self, listener: socket.socket, ready: threading.Event) -> None:
        try:
            asyncio.run(self._serve(listener, ready))
        finally:
            listener.close()
            ready.set()

    async def _serve(self, listener: socket.socket, ready: threading.Event) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(self._gate.complain)
        server = await asyncio.start_server(self._gate.admit, sock=listener, backlog=_BACKLOG)
        ready.set()
        while not self._ended.is_set():
            self._gate.watch()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WATCH_SECONDS):
                    await self._ended.wait()
        server.close()
        await self._gate.close()


def _listener(host: str, port: int) -> socket.socket:
    """A bound socket; an IPv6 one does not take IPv4 besides, so that what was asked for is what is open."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except socket.gaierror as error:
        raise HostError(f"cannot listen on {host!r}: {error.strerror}", "name an address of this host") from error
    except OSError as error:
        raise _cannot_listen(host, port, error) from error


def _cannot_listen(host: str, port: int, error: OSError) -> HostError:
    if error.errno in _TAKEN:
        return HostError(f"port {port} of {host} is taken", "end what listens there, or choose another port")
    if error.errno in _NOT_HERE:
        return HostError(f"this host has no address {host}", "name one of its own, or 0.0.0.0 for all")
    if error.errno in _FORBIDDEN:
        return HostError(f"this user may not listen on port {port} of {host}", "choose a port above 1023")
    return HostError(f"cannot listen on {host}:{port}: {error.strerror}")
