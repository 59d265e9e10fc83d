"""The front over real sockets, a real gRPC server behind it: who gets in, who does not, and what each side reads."""

import contextlib
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from controller.errors import HostError, UsageError
from controller.tls import frames
from controller.tls.diagnosis import diagnose
from controller.tls.front import Front
from controller.tls.identity import Identity
from controller.tls.journal import LINES_OF_ONE
from controller.tls.reading import CLIENT, SERVER
from tests.unit.tls_world import (
    LOOPBACK,
    PATIENCE,
    Lines,
    World,
    channel_to,
    echo_server,
    failure,
    front_before,
    parts,
    whole,
)

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with echo_server(f"{HOST}:0") as address:
        yield address


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def foreign(tmp_path: Path) -> World:
    (tmp_path / "foreign").mkdir()
    return World(tmp_path / "foreign")


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


# Who gets in


def test_a_controller_gets_a_large_message_and_a_long_stream_through(world: World, target: str) -> None:
    client, message = world.client(), bytes(range(256)) * 20480
    with front_before(target, world.server()) as (port, _), channel_to(port, client) as channel:
        assert whole(channel, message) == message
        sent = [bytes([number % 256]) * (number % 7000) for number in range(2000)]
        assert list(parts(channel, iter(sent))) == sent
        assert diagnose(HOST, port, client, PATIENCE) == ""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows' Python has no Unix sockets")
def test_the_server_behind_may_be_a_unix_socket(world: World, tmp_path: Path) -> None:
    path = f"unix://{tmp_path}/inner"
    with (
        echo_server(path),
        front_before(path, world.server()) as (port, _),
        channel_to(port, world.client(), "localhost") as channel,
    ):
        assert whole(channel) == b"hello"


def test_many_controllers_at_once_do_not_mix(world: World, target: str) -> None:
    answers: dict[int, bool] = {}

    def talk(number: int, port: int, client: Identity) -> None:
        with channel_to(port, client) as channel:
            message = bytes([number]) * 300_000
            answers[number] = all(answer == message for answer in parts(channel, iter([message] * 20)))

    with front_before(target, world.server()) as (port, _):
        threads = [threading.Thread(target=talk, args=(number, port, world.client())) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert answers == dict.fromkeys(range(6), True)


def test_a_reader_that_stops_holds_the_sender_back(world: World) -> None:
    """The server sends without end: what it got rid of while nobody reads stays far below what it wants to send."""
    with (
        socket.create_server((HOST, 0)) as inner,
        front_before(address_of(inner), world.server()) as (port, _),
        shake_hands(port, world.client()) as client,
    ):
        server, _ = inner.accept()
        server.settimeout(1.0)
        piece, sent = bytes(2**20), 0
        with pytest.raises(TimeoutError):
            while sent < 2**29:
                sent += server.send(piece)
        assert sent < 2**27
        server.close()
        # What was under way still arrives, and then the end.
        assert len(until_closed(client)) >= sent - 2**20


def test_each_direction_ends_by_itself(world: World) -> None:
    with socket.create_server((HOST, 0)) as inner, front_before(address_of(inner), world.server()) as (port, _):
        client = shake_hands(port, world.client())
        server, _ = inner.accept()
        server.settimeout(PATIENCE)
        server.sendall(b"the server's last")
        server.shutdown(socket.SHUT_WR)
        assert until_closed(client) == b"the server's last"
        client.sendall(b"the client's last")
        client.close()
        assert until_closed(server) == b"the client's last"


def test_a_controller_that_vanishes_frees_the_server_behind(world: World) -> None:
    with socket.create_server((HOST, 0)) as inner, front_before(address_of(inner), world.server()) as (port, _):
        client = shake_hands(port, world.client())
        server, _ = inner.accept()
        server.settimeout(PATIENCE)
        client.close()  # no word of TLS, only the end of the connection
        assert until_closed(server) == b""


# Who does not


def test_without_a_certificate(world: World, target: str) -> None:
    with front_before(target, world.server()) as (port, lines):
        assert diagnose(HOST, port, None, PATIENCE) == "the server wants a certificate: give --certificate FILE"
        assert lines.until("refused") == "127.0.0.1: refused: no certificate"


def test_a_controller_of_another_authority(world: World, foreign: World, target: str) -> None:
    """It trusts this host, but was not issued by its authority."""
    theirs, ours = foreign.client(), world.client()
    mixed = Identity(
        theirs.path, CLIENT, "mixed", (), "", theirs.expires, theirs.key, theirs.certificate, ours.authority
    )
    with front_before(target, world.server()) as (port, lines):
        assert refused(port, mixed) == "the server refused this certificate: unknown authority"
        assert lines.until("refused") == "127.0.0.1: refused: certificate of another authority"


def test_an_expired_controller(world: World, target: str) -> None:
    late = world.identity(CLIENT, days=(-9, -2), name="late")
    with front_before(target, world.server()) as (port, lines):
        assert refused(port, late) == "the server refused this certificate: expired"
        line = lines.until("refused")
        assert line.startswith(f"127.0.0.1: refused: certificate expired on {late.expires:%Y-%m-%d %H:%M} UTC (late, ")


def test_a_controller_of_tomorrow(world: World, target: str) -> None:
    early = world.identity(CLIENT, days=(1, 2), name="early")
    with front_before(target, world.server()) as (port, lines):
        assert refused(port, early).startswith("the server refused this certificate: ")
        assert "refused: certificate not valid before" in lines.until("refused")


def test_a_hosts_certificate_is_no_controllers(world: World, target: str) -> None:
    host = world.identity(SERVER, name="win")
    with front_before(target, world.server()) as (port, lines):
        assert refused(port, host).startswith("the server refused this certificate: not of the kind that it wants; ")
        assert "refused: not a controller's certificate (win, serial" in lines.until("refused")


def test_a_revoked_controller(world: World, target: str) -> None:
    thief, honest = world.identity(CLIENT, name="thief"), world.client()
    world.authority.revoke("thief")
    with front_before(target, world.server(), revoked=world.revoked) as (port, lines):
        assert refused(port, thief) == "the server refused this certificate: revoked"
        assert lines.until("refused").startswith("127.0.0.1: refused: certificate revoked (thief, serial ")
        with channel_to(port, honest) as channel:
            assert whole(channel) == b"hello"


def test_revoked_while_the_front_runs_and_connected(world: World, target: str) -> None:
    thief = world.identity(CLIENT, name="thief")
    with front_before(target, world.server(), revoked=world.revoked) as (port, lines):
        with channel_to(port, thief) as channel:
            assert whole(channel) == b"hello"
            world.authority.revoke("thief")
            assert "ended: certificate revoked (thief" in lines.until("ended")
        assert refused(port, thief) == "the server refused this certificate: revoked"
        lines.until("refused: certificate revoked (thief")


@pytest.mark.parametrize("kind", ["damaged", "foreign", "expired", "gone"])
def test_a_list_that_cannot_be_used_lets_nobody_in(world: World, foreign: World, target: str, kind: str) -> None:
    good = world.revoked.read_bytes()
    bad = {"damaged": good[:200], "foreign": foreign.revoked.read_bytes(), "expired": expired_list(world), "gone": b""}
    says = {"damaged": "damaged", "foreign": "another authority", "expired": "expired on", "gone": "cannot read"}
    client = world.client()
    with front_before(target, world.server(), revoked=world.revoked) as (port, lines):
        if kind == "gone":
            world.revoked.unlink()
        else:
            replace(world.revoked, bad[kind])
        assert "every new connection is refused" in lines.until(says[kind])
        assert "accepts no certificate now" in refused(port, client)
        assert says[kind] in lines.until("127.0.0.1: refused")
        replace(world.revoked, good)
        lines.until("read anew")
        with channel_to(port, client) as channel:
            assert whole(channel) == b"hello"


@pytest.mark.parametrize("kind", ["damaged", "foreign", "expired"])
def test_a_front_does_not_begin_with_such_a_list(world: World, foreign: World, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "list.pem"
    lists = {"damaged": b"no list", "foreign": foreign.revoked.read_bytes(), "expired": expired_list(world)}
    path.write_bytes(lists[kind])
    with pytest.raises(UsageError) as raised:
        Front((HOST, 0), world.server(), "127.0.0.1:1", path, print)
    assert raised.value.line().startswith(f"{path}: ")
    assert raised.value.line().endswith("make a fresh one with: controller certs crl")


def expired_list(world: World) -> bytes:
    from datetime import timedelta

    from controller.tls import building, reading

    ends = reading.now() - timedelta(days=1)
    made = world.authority
    return building.pem_of(building.revocation_list(made.certificate, made.key, {}, ends - timedelta(days=1), ends))


def replace(path: Path, data: bytes) -> None:
    beside = path.with_suffix(".new")
    beside.write_bytes(data)
    beside.replace(path)


def test_old_tls_and_other_protocols(world: World, target: str) -> None:
    client = world.client()
    with front_before(target, world.server()) as (port, lines):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.load_into(context)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(connect(port), server_hostname=HOST)
        lines.until("refused: it does not speak TLS 1.3")
        with shake_hands(port, client, "http/1.1") as web:
            assert until_closed(web) == b""
        lines.until("refused: it does not speak HTTP/2")


def test_no_session_can_be_taken_up_again(world: World, target: str) -> None:
    """A ticket would let a controller in whose certificate is not looked at any more."""
    with front_before(target, world.server()) as (port, _), shake_hands(port, world.client()) as client:
        client.sendall(frames.PREFACE + frames.settings())
        assert client.recv(2**14)
        assert client.session is None or not client.session.has_ticket


# What a controller refuses


def test_a_host_of_another_authority(world: World, foreign: World, target: str) -> None:
    with front_before(target, foreign.server()) as (port, lines):
        assert refused(port, world.client()) == "the server's certificate is of another authority"
        assert "it does not accept this host's certificate: unknown authority" in lines.until("accept")


def test_a_host_by_another_name(world: World, target: str) -> None:
    win = world.identity(SERVER, ("10.0.0.5", "my-host"), name="win")
    with front_before(target, win) as (port, _):
        assert refused(port, world.client()) == (
            "the server's certificate is for other names than 127.0.0.1 (it says: win, 10.0.0.5, my-host)"
        )


def test_a_host_whose_certificate_is_over(world: World, target: str) -> None:
    old = world.identity(SERVER, days=(-9, -2))
    with front_before(target, old) as (port, lines):
        assert refused(port, world.client()) == (
            f"the server's certificate expired on {old.expires:%Y-%m-%d %H:%M} UTC"
        )
        lines.until("this host's certificate expired on")
        lines.until("it does not accept this host's certificate: expired")


def test_a_controllers_certificate_is_no_hosts(world: World, target: str) -> None:
    wrong = world.identity(CLIENT)
    posing = Identity(
        wrong.path, SERVER, "x", LOOPBACK, "", wrong.expires, wrong.key, wrong.certificate, wrong.authority
    )
    with front_before(target, posing) as (port, _):
        assert refused(port, world.client()) == "the server's certificate is not a host's"
    with pytest.raises(UsageError, match="not a host's"):
        Front((HOST, 0), wrong, target, None, print)


# Strangers


def test_plain_grpc_is_told_from_garbage(world: World, target: str) -> None:
    with front_before(target, world.server()) as (port, lines):
        with grpc.insecure_channel(f"{HOST}:{port}") as channel:
            assert failure(lambda: whole(channel)).code() is grpc.StatusCode.UNAVAILABLE
        assert lines.until("refused").endswith("refused: not TLS but plain gRPC; the client must use grpcs://")
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100_000, b"\x16\x01"):
            with connect(port) as stranger, contextlib.suppress(ConnectionError):
                stranger.sendall(garbage)
                until_closed(stranger)
            lines.until("refused: not TLS")


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\xff\xff" + b"A" * 300_000, b"\x16\x03\x01\x00\x05hello", b"\x16\x03"]
)
def test_garbage_that_begins_as_tls(world: World, target: str, garbage: bytes) -> None:
    with front_before(target, world.server()) as (port, lines):
        with connect(port) as stranger, contextlib.suppress(ConnectionError):
            stranger.sendall(garbage)
            stranger.shutdown(socket.SHUT_WR)
            until_closed(stranger)
        lines.until("refused: ")
        with channel_to(port, world.client()) as channel:
            assert whole(channel) == b"hello"


def test_slow_handshakes_end(world: World, target: str) -> None:
    with front_before(target, world.server(), handshake_seconds=0.2) as (port, lines):
        with connect(port) as silent:
            assert until_closed(silent) == b""
        lines.until("refused: no handshake within 0.2 s")


def test_half_open_connections_do_not_keep_a_controller_out(world: World, target: str) -> None:
    with (
        front_before(target, world.server(), handshake_seconds=PATIENCE) as (port, lines),
        contextlib.ExitStack() as held,
    ):
        for _ in range(200):
            held.enter_context(connect(port)).sendall(b"\x16\x03\x01\x02\x00")
        with channel_to(port, world.client()) as channel:
            assert whole(channel) == b"hello"
        lines.until("too many unfinished handshakes")


def test_a_flood_of_lines_is_counted(world: World, target: str) -> None:
    lines = Lines()
    front = Front((HOST, 0), world.server(), target, None, lines.say)
    _, port = front.start()
    for _ in range(LINES_OF_ONE + 7):
        with connect(port) as stranger, contextlib.suppress(ConnectionError):
            stranger.sendall(b"garbage")
            until_closed(stranger)
    front.stop()
    assert lines.until("more").startswith("7 more connections were refused")
    assert len(lines.seen) == LINES_OF_ONE + 1


def test_only_so_many_connections(world: World, target: str) -> None:
    client = world.client()
    with front_before(target, world.server(), most_connections=1) as (port, lines), channel_to(port, client) as channel:
        assert whole(channel) == b"hello"
        assert refused(port, client) == "the server refused the connection: 1 connections are open already"
        lines.until("refused: 1 connections are open already")
        assert whole(channel) == b"hello"


def test_a_dead_server_behind_is_said(world: World) -> None:
    with socket.create_server((HOST, 0)) as inner:
        target = f"{HOST}:{inner.getsockname()[1]}"
    with front_before(target, world.server()) as (port, lines):
        said = refused(port, world.client())
        assert said == "the server refused the connection: the server behind the TLS front does not answer"
        lines.until("the server behind the TLS front does not answer")


# Beginning and end


def test_a_taken_port_and_a_foreign_address(world: World, target: str) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HostError, match=f"port {port} of 127.0.0.1 is taken"):
            Front((HOST, port), world.server(), target, None, print).start()
    with pytest.raises(HostError, match=r"has no address 192\.0\.2\.1"):
        Front(("192.0.2.1", 0), world.server(), target, None, print).start()


def test_stop_ends_what_is_open(world: World, target: str) -> None:
    front = Front((HOST, 0), world.server(), target, None, print)
    _, port = front.start()
    with shake_hands(port, world.client()) as client, connect(port) as stranger:
        client.sendall(frames.PREFACE + frames.settings())
        assert client.recv(2**14)
        front.stop()
        front.stop()
        until_closed(client)
        until_closed(stranger)
    with pytest.raises(ConnectionRefusedError):
        connect(port)
    assert not [thread for thread in threading.enumerate() if thread.name == "tls-front"]


# Diagnosis without a front


def test_nobody_there_and_plain_servers(world: World, target: str) -> None:
    client = world.client()
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    assert diagnose(HOST, port, client) == f"nothing listens at 127.0.0.1:{port}"
    assert diagnose("no-such-host.invalid", 1, client) == "there is no host no-such-host.invalid"
    assert diagnose(HOST, int(target.rpartition(":")[2]), client, PATIENCE) == "it does not speak TLS: use grpc://"
    with socket.create_server((HOST, 0)) as mute:
        port = mute.getsockname()[1]
        assert "does not answer as TLS does" in diagnose(HOST, port, client, 0.2)
