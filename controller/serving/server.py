"""Runs a host: one gRPC server, on loopback as it is, elsewhere behind TLS."""

import tempfile
from collections.abc import Callable
from concurrent import futures
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import grpc
from trainyard.v1 import host_pb2_grpc, runner_pb2_grpc

from controller import paths
from controller.errors import HostError
from controller.runtimes.links import KEEPALIVE_SECONDS, KEEPALIVE_TIMEOUT_SECONDS
from controller.serving.blob_store import BlobStore
from controller.serving.limits import Limits
from controller.serving.offers import Offers
from controller.serving.service import Forwarder, HostService, logs_folder
from controller.serving.sessions import Sessions

if TYPE_CHECKING:
    from controller.tls.identity import Identity

# A call holds a thread: a session takes three at a time, and others still want to be answered.
_MAX_CALLS = 32
_STOP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Serving:
    """``identity`` None: only loopback is served, without TLS. ``revoked``: a file of revoked certificates."""

    listen: tuple[str, int]
    runtime: str = "auto"
    identity: "Identity | None" = None
    revoked: Path | None = None
    limits: Limits = field(default_factory=Limits)


class Stop(Protocol):
    """When to end."""

    def wait(self, seconds: float) -> bool:
        """Whether it is time; waits up to that long."""


def serve(wanted: Serving, ready: Callable[[str], None], say: Callable[[str], None], stop: Stop) -> None:
    """Serves until ``stop`` says or raises so. ``ready`` is told the address. Raises HostError."""
    sessions = Sessions(wanted.limits.seconds)
    server = _server(wanted, sessions)
    with ExitStack() as stack:
        stack.callback(lambda: server.stop(0.5).wait())
        stack.callback(sessions.wait_until_idle, _STOP_SECONDS)
        stack.callback(sessions.close)
        ready(_listen(server, wanted, say, stack))
        while not stop.wait(0.5):
            pass


def _server(wanted: Serving, sessions: Sessions) -> grpc.Server:
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=_MAX_CALLS),
        maximum_concurrent_rpcs=_MAX_CALLS,
        options=[
            ("grpc.max_receive_message_length", wanted.limits.message_bytes),
            ("grpc.so_reuseport", 0),
            # A controller that is gone, or cut off, must not keep a runner.
            ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_SECONDS * 1000),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_SECONDS * 500),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", KEEPALIVE_SECONDS * 500),
            ("grpc.http2.max_ping_strikes", 0),
        ],
    )
    blobs = BlobStore(paths.cache_folder() / "blobs", wanted.limits)
    service = HostService(Offers(wanted.runtime, wanted.limits), sessions, blobs, logs_folder())
    host_pb2_grpc.add_HostServicer_to_server(service, server)
    runner_pb2_grpc.add_RunnerServicer_to_server(Forwarder(sessions, blobs, wanted.limits), server)
    return server


def _listen(server: grpc.Server, wanted: Serving, say: Callable[[str], None], stack: ExitStack) -> str:
    """The address that controllers give as ``--host``."""
    host, port = wanted.listen
    if wanted.identity is None:
        bound = _bind(server, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        server.start()
        return f"grpc://{host}:{bound}"
    from controller.tls.front import Front

    inner = _inner(server, stack)
    server.start()
    front = Front((host, port), wanted.identity, inner, wanted.revoked, say)
    stack.callback(front.stop)
    bound_host, bound_port = front.start()
    return f"grpcs://{bound_host}:{bound_port}"


def _inner(server: grpc.Server, stack: ExitStack) -> str:
    """Where the server listens behind the front: a socket that only this user reaches, where the system has them."""
    import os

    if os.name == "nt":
        return f"127.0.0.1:{_bind(server, '127.0.0.1:0')}"
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="trainyard-serve-"))
    path = f"unix://{folder}/grpc"
    _bind(server, path)
    return path


def _bind(server: grpc.Server, address: str) -> int:
    try:
        port = server.add_insecure_port(address)
    except RuntimeError:
        port = 0
    if not port:
        raise HostError(f"cannot listen at {address}: it is taken, or not an address of this machine")
    return int(port)
