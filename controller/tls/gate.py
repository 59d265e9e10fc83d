"""What the front does with one connection: a handshake in limited time, then bytes in both directions."""

import asyncio
import contextlib
import socket
import ssl
from typing import Any

from cryptography import x509

from controller.tls import contexts, frames, reading, refusals
from controller.tls.guard import Guard
from controller.tls.identity import Identity
from controller.tls.journal import Journal
from controller.tls.pending import Pending
from controller.tls.secure import CHUNK, Left, NotTls, Secure, linger

_CONNECT_SECONDS = 5.0
_HALF_SECONDS = 5.0
"""How long one direction may go on after the other has ended."""
_KEEPALIVE = {
    "TCP_KEEPIDLE": 30,
    "TCP_KEEPALIVE": 30,
    "TCP_KEEPINTVL": 10,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 60_000,
}
"""A machine that vanished gives its place back after a minute, also where it owes an answer (in ms; Linux alone). macOS
has the second name for the first."""


class _Refused(Exception):  # noqa: N818
    """``line`` is for the log; ``answer``, if any, for the client, which has been let in by TLS."""

    def __init__(self, line: str, answer: str = "") -> None:
        super().__init__(line)
        self.line = line
        self.answer = answer


class Gate:
    """For one event loop."""

    def __init__(
        self,
        guard: Guard,
        journal: Journal,
        target: str,
        identity: Identity,
        most_connections: int,
        handshake_seconds: float,
    ) -> None:
        self._guard, self._journal, self._target, self._identity = guard, journal, target, identity
        self._most = most_connections
        self._handshake_seconds = handshake_seconds
        self._pending = Pending()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._open: dict[asyncio.Task[Any], tuple[str, x509.Certificate]] = {}
        self._said_end = False

    async def admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection from its beginning to its end; raises nothing."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for the type checker: a coroutine runs in a task
        self._tasks.add(task)
        address = str((writer.get_extra_info("peername") or ("unknown",))[0])
        try:
            await self._admit(reader, writer, address, task)
        except (OSError, ssl.SSLError, asyncio.CancelledError):
            pass  # it has ended, by itself or by stop; there is no one to tell
        finally:
            self._tasks.discard(task)
            self._pending.leave(task)
            self._open.pop(task, None)
            writer.transport.abort()

    async def _admit(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, task: asyncio.Task[Any]
    ) -> None:
        self._pending.enter(task, address, lambda: self._drop(task, address))
        self._refresh()
        secure = _Watched(reader, writer, self._guard)
        try:
            certificate = await self._handshake(secure)
            self._enter(task, address, certificate)
            inner = await self._inner()
        except _Refused as refused:
            self._journal.stranger(address, f"refused: {refused.line}")
            if refused.answer:
                await secure.write(frames.farewell(refused.answer))
                await secure.end()
            await linger(reader, writer)
            return
        _keep_alive(writer)
        await _join(secure, *inner)

    async def _handshake(self, secure: "_Watched") -> x509.Certificate:
        """The client's certificate. Raises _Refused."""
        trouble = self._guard.trouble
        try:
            async with asyncio.timeout(self._handshake_seconds):
                await secure.handshake()
        except TimeoutError:
            raise _Refused(f"no handshake within {self._handshake_seconds:g} s") from None
        except NotTls as error:
            plain = frames.PREFACE.startswith(error.begins[: len(frames.PREFACE)])
            raise _Refused("not TLS" + (" but plain gRPC; the client must use grpcs://" if plain else "")) from None
        except Left as error:
            what = "left without a word" if error.silently else "left in the handshake"
            raise _Refused(what) from None
        except ssl.SSLError as error:
            raise _Refused(trouble or refusals.of_client(error, secure.shown)) from None
        return self._checked(secure.tls)

    def _checked(self, tls: ssl.SSLObject) -> x509.Certificate:
        certificate = x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"")
        whose = refusals.whose(certificate)
        if not self._guard.is_controllers(certificate):
            raise _Refused(f"not a controller's certificate{whose}", "this is not a controller's certificate")
        # The list may have changed since the handshake began.
        if self._guard.trouble or self._guard.is_revoked(certificate):
            raise _Refused(self._guard.trouble or f"certificate revoked{whose}", "this certificate is revoked")
        if tls.selected_alpn_protocol() != contexts.PROTOCOL:
            raise _Refused(f"it does not speak HTTP/2, as gRPC does{whose}")
        return certificate

    def _enter(self, task: asyncio.Task[Any], address: str, certificate: x509.Certificate) -> None:
        """Takes a place among the open connections. Raises _Refused."""
        if len(self._open) >= self._most:
            line = f"{self._most} connections are open already"
            raise _Refused(line + refusals.whose(certificate), line)
        self._pending.leave(task)
        self._open[task] = address, certificate

    async def _inner(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection to the server behind. Raises _Refused."""
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await _connect(self._target)
        except (OSError, TimeoutError) as error:
            line = "the server behind the TLS front does not answer"
            raise _Refused(f"{line} ({error or 'no answer'})", line) from None

    def _drop(self, task: asyncio.Task[Any], address: str) -> None:
        self._journal.stranger(address, "refused: too many unfinished handshakes, so the oldest goes")
        task.cancel()

    def _refresh(self) -> bool:
        before = self._guard.trouble
        changed = self._guard.refresh()
        if self._guard.trouble and self._guard.trouble != before:
            self._journal.line(f"every new connection is refused: {self._guard.trouble}")
        if changed and not self._guard.trouble:
            self._journal.line("the list of revoked certificates was read anew")
        return changed

    def watch(self) -> None:
        """Now and then: ends what was revoked meanwhile, and says once when this host's own certificate is over."""
        self._refresh()
        for task, (address, certificate) in list(self._open.items()):
            if self._guard.is_revoked(certificate):
                self._journal.stranger(address, f"ended: certificate revoked{refusals.whose(certificate)}")
                task.cancel()
        if not self._said_end and self._identity.expires <= reading.now():
            self._said_end = True
            ended = reading.moment(self._identity.expires)
            self._journal.line(f"this host's certificate expired on {ended}: controllers refuse it; issue a new one")

    def complain(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What asyncio could not hand to anyone, such as too many open files."""
        self._journal.stranger("the TLS front", f"{context.get('exception') or context.get('message')}")

    async def close(self) -> None:
        """Ends all connections."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._journal.flush()


class _Watched(Secure):
    """Keeps what the client showed in the handshake: the hook of the shared context does not say whose it is."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, guard: Guard) -> None:
        super().__init__(reader, writer, guard.context())
        self._guard = guard
        self.shown: x509.Certificate | None = None

    def step(self) -> None:
        self._guard.forget()
        try:
            super().step()
        finally:
            self.shown = self.shown or self._guard.shown()


async def _connect(target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    path = target.removeprefix("unix://").removeprefix("unix:")
    if path != target or "/" in path:
        return await asyncio.open_unix_connection(path)
    host, _, port = target.rpartition(":")
    return await asyncio.open_connection(host.strip("[]"), int(port))


async def _join(secure: Secure, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies both ways. One direction that ended as it should leaves the other a little time; one that broke, none."""
    up = asyncio.create_task(_up(secure, writer))
    down = asyncio.create_task(_down(reader, secure))
    try:
        done, rest = await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        if rest and all(task.exception() is None for task in done):
            await asyncio.wait(rest, timeout=_HALF_SECONDS)
    finally:
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)
        writer.transport.abort()


async def _up(secure: Secure, writer: asyncio.StreamWriter) -> None:
    while data := await secure.read():
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def _down(reader: asyncio.StreamReader, secure: Secure) -> None:
    while data := await reader.read(CHUNK):
        await secure.write(data)
    await secure.end()


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
