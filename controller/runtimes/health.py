"""Waits until a runner is SERVING: its framework imported and described, not merely its port open."""

import contextlib
from collections.abc import Callable

from controller.errors import RunnerError

CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
"""A loopback address must be reached directly, whatever proxy this user's variables name; and a server that is still
starting is asked again soon."""

_WATCH_SECONDS = 2.0


def wait_until_serving(target: str, check: Callable[[], None]) -> None:
    """Watches, so that it is known at once; ``check`` is called where there is no answer, and every two seconds:
    it waits a moment, and raises when there is nothing to wait for."""
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with grpc.insecure_channel(target, options=CHANNEL_OPTIONS) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        while True:
            watched = health.Watch(health_pb2.HealthCheckRequest(), timeout=_WATCH_SECONDS)
            with contextlib.suppress(grpc.RpcError):
                for response in watched:
                    if response.status == health_pb2.HealthCheckResponse.SERVING:
                        watched.cancel()
                        return
            check()


def facts(target: str, seconds: float = 20.0) -> dict[str, str]:
    """What a serving runner finds around itself (``Describe``). Raises RunnerError."""
    import grpc
    from trainyard.v1 import runner_pb2, runner_pb2_grpc

    with grpc.insecure_channel(target, options=CHANNEL_OPTIONS) as channel:
        try:
            reply = runner_pb2_grpc.RunnerStub(channel).Describe(runner_pb2.DescribeRequest(), timeout=seconds)
        except grpc.RpcError as error:
            raise RunnerError(
                f"the runner does not describe itself: {error.details()}", reason="RUNNER_LOST"
            ) from error
    return dict(reply.facts)
