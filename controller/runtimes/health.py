"""Waits until a runner is SERVING: its framework imported and described, not merely its port open."""

import contextlib
from collections.abc import Callable

CHANNEL_OPTIONS = (("grpc.enable_http_proxy", 0),)
"""A loopback address must be reached directly, whatever proxy this user's variables name."""


def wait_until_serving(target: str, check: Callable[[], None]) -> None:
    """Asks again and again; ``check`` waits a moment in between, and raises when there is nothing to wait for."""
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with grpc.insecure_channel(target, options=CHANNEL_OPTIONS) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        while True:
            with contextlib.suppress(grpc.RpcError):
                response = health.Check(health_pb2.HealthCheckRequest(), timeout=2.0)
                if response.status == health_pb2.HealthCheckResponse.SERVING:
                    return
            check()
