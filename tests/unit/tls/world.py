"""An authority, its hosts and controllers, and a real gRPC server behind a real front, for the tests of TLS."""

import contextlib
import queue
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent import futures
from datetime import timedelta
from pathlib import Path

import grpc
from cryptography import x509

from controller.tls import authority as authorities
from controller.tls import building, reading
from controller.tls.diagnosis import diagnose
from controller.tls.front import Front
from controller.tls.identity import Identity
from controller.tls.reading import CLIENT, SERVER, Kind

HOST = "127.0.0.1"
LOOPBACK = ("127.0.0.1", "localhost")
PATIENCE = 60.0
_BIG = [("grpc.max_receive_message_length", 16 * 2**20), ("grpc.max_send_message_length", 16 * 2**20)]
_METHOD = "/test.Echo/"


class Lines:
    """What a front said."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._new: queue.Queue[str] = queue.Queue()

    def say(self, line: str) -> None:
        self._new.put(line)

    def until(self, text: str) -> str:
        """The first line, from now on, with this text; fails if none comes."""
        while True:
            try:
                line = self._new.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(f"no line with {text!r} in {self.seen}") from None
            self.seen.append(line)
            if text in line:
                return line


class World:
    """One authority in a folder, and identities of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = authorities.create(folder / "authority")
        self._count = 0

    @property
    def revoked(self) -> Path:
        return self.authority.list_file

    def identity(
        self, kind: Kind, addresses: tuple[str, ...] = LOOPBACK, days: tuple[int, int] = (-1, 1), name: str = ""
    ) -> Identity:
        """One that may also be over, or begin later: ``days`` are from now. It is not checked."""
        key = building.new_key()
        self._count += 1
        name = name or f"{kind}-{self._count}"
        begins, ends = (reading.now() + timedelta(days=number) for number in days)
        made = building.certificate(
            self.authority.certificate,
            self.authority.key,
            key.public_key(),
            name,
            kind,
            addresses if kind == SERVER else (),
            begins,
            ends,
        )
        path = self.folder / f"{name}.pem"
        parts = (building.pem_of_key(key), building.pem_of(made), building.pem_of(self.authority.certificate))
        path.write_bytes(b"".join(parts))
        path.chmod(0o600)
        record = self.authority.folder / "issued" / f"{reading.serial_of(made)}.pem"
        record.write_bytes(parts[1])
        return identity_of(path, made, kind, parts)

    def server(self) -> Identity:
        return self.identity(SERVER)

    def client(self) -> Identity:
        return self.identity(CLIENT)


def identity_of(path: Path, made: x509.Certificate, kind: Kind, parts: tuple[bytes, bytes, bytes]) -> Identity:
    """As ``Identity.load`` makes it, without any check."""
    return Identity(
        path=path,
        kind=kind,
        name=reading.name_of(made),
        addresses=reading.addresses_of(made),
        serial=reading.serial_of(made),
        expires=made.not_valid_after_utc,
        key=parts[0],
        certificate=parts[1],
        authority=parts[2],
    )


class _Echo(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if details.method == _METHOD + "Whole":
            return grpc.unary_unary_rpc_method_handler(lambda request, _: request)
        if details.method == _METHOD + "Parts":
            return grpc.stream_stream_rpc_method_handler(lambda requests, _: requests)
        return None


@contextlib.contextmanager
def echo_server(address: str) -> Iterator[str]:
    """A gRPC server that sends back what it is sent; gives its address."""
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[_Echo()], options=_BIG)
    port = server.add_insecure_port(address)
    server.start()
    try:
        yield address if address.startswith("unix:") else f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait(PATIENCE)


@contextlib.contextmanager
def front_before(target: str, identity: Identity, **options: object) -> Iterator[tuple[int, Lines]]:
    """A front on a free port of the loopback address, and what it says."""
    lines = Lines()
    revoked = options.pop("revoked", None)
    front = Front(("127.0.0.1", 0), identity, target, revoked, lines.say, **options)
    _, port = front.start()
    try:
        yield port, lines
    finally:
        front.stop()


@contextlib.contextmanager
def channel_to(port: int, identity: Identity | None, name: str = "127.0.0.1") -> Iterator[grpc.Channel]:
    """A secure channel of a controller; without identity one that trusts nobody's certificate but has none."""
    credentials = identity.channel_credentials() if identity else grpc.ssl_channel_credentials()
    with grpc.secure_channel(f"{name}:{port}", credentials, options=_BIG) as channel:
        yield channel


def whole(channel: grpc.Channel, message: bytes = b"hello") -> bytes:
    """Sends one message and returns the answer."""
    return channel.unary_unary(_METHOD + "Whole")(message, timeout=PATIENCE)


def parts(channel: grpc.Channel, messages: Iterator[bytes]) -> Iterator[bytes]:
    """Sends many and gives the answers."""
    return channel.stream_stream(_METHOD + "Parts")(messages, timeout=PATIENCE)


def failure(call: Callable[[], object]) -> grpc.RpcError:
    """The error of a call that must fail."""
    try:
        answer = call()
    except grpc.RpcError as error:
        return error
    raise AssertionError(f"it was let in: {answer!r}")


def refused(port: int, identity: Identity | None) -> str:
    """What the controller reads; gRPC itself must have failed too."""
    with channel_to(port, identity) as channel:
        error = failure(lambda: whole(channel))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    return diagnose(HOST, port, identity, PATIENCE)


def address_of(listener: socket.socket) -> str:
    return f"{HOST}:{listener.getsockname()[1]}"


def connect(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), PATIENCE)


def shake_hands(port: int, identity: Identity, protocol: str = "h2") -> ssl.SSLSocket:
    """A client that is not gRPC."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols([protocol])
    identity.load_into(context)
    return context.wrap_socket(connect(port), server_hostname=HOST)


def until_closed(connection: socket.socket) -> bytes:
    """All that comes until the other side ends it; fails by timeout if it does not."""
    found = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := connection.recv(2**16):
            found += data
    return found
