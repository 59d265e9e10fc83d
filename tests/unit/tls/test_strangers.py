"""What strangers, floods, a dead server behind and its own end do to a front."""

import contextlib
import socket
import threading

import grpc
import pytest

from controller.errors import HostError
from controller.tls import frames
from controller.tls.front import Front
from controller.tls.journal import LINES_OF_ONE
from tests.unit.tls.world import (
    HOST,
    PATIENCE,
    Lines,
    World,
    channel_to,
    connect,
    failure,
    front_before,
    refused,
    shake_hands,
    until_closed,
    whole,
)

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
