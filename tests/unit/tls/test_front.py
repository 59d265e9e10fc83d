"""The front over real sockets, a real gRPC server behind it: who gets in, who does not, and what each side reads."""

import socket
import ssl
import sys
import threading
from pathlib import Path

import pytest

from controller.errors import UsageError
from controller.tls import frames
from controller.tls.diagnosis import diagnose
from controller.tls.front import Front
from controller.tls.identity import Identity
from controller.tls.reading import CLIENT, SERVER
from tests.unit.tls.world import (
    HOST,
    LOOPBACK,
    PATIENCE,
    World,
    address_of,
    channel_to,
    connect,
    echo_server,
    front_before,
    parts,
    refused,
    shake_hands,
    until_closed,
    whole,
)

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
