"""One TLS connection over asyncio's streams, with what asyncio's own does not have: the alert that says why a handshake
failed is sent before the connection ends, and either direction can end before the other."""

import asyncio
import contextlib
import ssl

CHUNK = 2**16
MOST_HANDSHAKE_BYTES = 2**17
_HANDSHAKE_RECORD = 22
_TLS_MAJOR = 3
_LINGER_SECONDS = 2.0


class NotTls(Exception):  # noqa: N818 - what it is, not what went wrong here
    """The other side does not begin as TLS does; ``begins`` is what came first."""

    def __init__(self, begins: bytes) -> None:
        super().__init__()
        self.begins = begins


class Left(Exception):  # noqa: N818
    """The other side went away in the handshake; ``silently`` without having sent anything."""

    def __init__(self, silently: bool) -> None:
        super().__init__()
        self.silently = silently


class Secure:
    """The server's side of a TLS connection. For one event loop; one reader and one writer at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> None:
        self._reader, self._writer = reader, writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    @property
    def tls(self) -> ssl.SSLObject:
        """The connection as Python's TLS has it."""
        return self._tls

    async def handshake(self) -> None:
        """Raises NotTls, Left, ssl.SSLError (the alert has been sent), OSError."""
        first = await self._reader.read(CHUNK)
        if not first:
            raise Left(silently=True)
        if first[0] != _HANDSHAKE_RECORD or (len(first) > 1 and first[1] != _TLS_MAJOR):
            raise NotTls(first[:64])
        taken = len(first)
        self._incoming.write(first)
        while not await self._advance():
            data = await self._reader.read(CHUNK)
            taken += len(data)
            if not data or taken > MOST_HANDSHAKE_BYTES:
                raise Left(silently=False)
            self._incoming.write(data)

    async def _advance(self) -> bool:
        """One step of the handshake; whether it was the last."""
        try:
            self.step()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._writer.write(self._outgoing.read())
        await self._writer.drain()
        return True

    def step(self) -> None:
        """What TLS makes of what came so far. Raises ssl.SSLWantReadError if more must come."""
        self._tls.do_handshake()

    async def read(self) -> bytes:
        """The next bytes; empty when the other side said that it ends. Raises ConnectionError where it went away
        without a word, ssl.SSLError for a broken record."""
        while True:
            try:
                data = self._tls.read(CHUNK)
            except ssl.SSLWantReadError:
                data = None
            except ssl.SSLZeroReturnError:
                return b""
            if self._outgoing.pending:  # an answer of TLS itself, such as to an update of keys
                await self._flush()
            if data is not None:
                return data
            came = await self._reader.read(CHUNK)
            if not came:
                raise ConnectionResetError
            self._incoming.write(came)

    async def write(self, data: bytes) -> None:
        """Sends it; waits while the other side takes too little. Raises OSError."""
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]
        await self._flush()

    async def end(self) -> None:
        """Says that nothing more will be written."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self._writer.transport.set_write_buffer_limits(0)  # from now on a flush waits until all has left
        await self._flush()
        self._writer.write_eof()

    async def _flush(self) -> None:
        self._writer.write(self._outgoing.read())
        await self._writer.drain()


async def linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ends a refused connection so that the other side can still read why. Closed at once, with bytes from there
    unread, the system would send a reset, which overtakes the reason."""
    with contextlib.suppress(OSError, TimeoutError, RuntimeError):
        writer.write_eof()
        async with asyncio.timeout(_LINGER_SECONDS):
            for _ in range(MOST_HANDSHAKE_BYTES // CHUNK):
                if not await reader.read(CHUNK):
                    return
