"""What a host accepts from controllers, and its refusals."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import grpc
from trainyard import graph
from trainyard.v1.workload_pb2 import Workload

from controller.errors import ControllerError
from controller.hosts import usable_memory
from controller.runtimes.links import REASON_KEY

_NAME = re.compile(r"[A-Za-z0-9-]{0,64}")
_MAX_DETAILS, _MAX_REASON = 1000, 200


@dataclass(frozen=True, slots=True)
class Limits:
    """``message_bytes``: of one message; ``blob_bytes``: of one array, ``store_bytes`` of all that are received;
    ``steps``: warm-up and measured ones of a trial; ``seconds``: how long a runner may live."""

    message_bytes: int = 16 * 2**20
    blob_bytes: int = 16 * 2**30
    store_bytes: int = 64 * 2**30
    steps: int = 1_000_000
    seconds: int = 24 * 3600

    def named(self) -> dict[str, int]:
        """By their names."""
        return asdict(self)


class Refusal(Exception):  # noqa: N818 - an answer, not an error of the host
    """``code`` is a gRPC status; ``reason`` a word for machines, ``message`` one line for people."""

    def __init__(self, code: grpc.StatusCode, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message


def invalid(reason: str, message: str) -> Refusal:
    """What no host would accept."""
    return Refusal(grpc.StatusCode.INVALID_ARGUMENT, reason, message)


def too_large(reason: str, message: str) -> Refusal:
    """What is more than this host accepts."""
    return Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, reason, message)


def of_error(error: ControllerError, reason: str = "HOST") -> Refusal:
    """What this host lacks."""
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, getattr(error, "reason", reason), error.line())


def abort(context: Any, refusal: Refusal) -> NoReturn:
    """Ends a call. The texts may quote the request: what no header can hold would leave the call without an end."""
    context.set_trailing_metadata(((REASON_KEY, _printable(refusal.reason)[:_MAX_REASON]),))
    context.abort(refusal.code, _printable(" ".join(refusal.message.split()))[:_MAX_DETAILS])
    raise AssertionError("abort raises")


def _printable(text: str) -> str:
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)


def check_label(text: str, what: str) -> str:
    """A campaign's or trial's name, which becomes part of a file's. Raises Refusal."""
    if not _NAME.fullmatch(text):
        raise invalid(what, f"{what} must be letters, digits and dashes, at most 64")
    return text


def check_request(message: bytes, labels: Path | None, limits: Limits) -> None:
    """Whether a request's workload is small enough to be trained here; ``labels``: the file of its training labels,
    None where the host does not have it. What else is wrong, the runner says. Raises Refusal."""
    import numpy as np

    try:
        model = graph.parse(Workload.FromString(message))
        samples = 0 if labels is None else len(np.lib.format.open_memmap(labels, mode="r"))
        steps = sum(graph.step_counts(model.workload.schedule, samples)[:2]) if samples else 0
    except Exception as error:  # whatever the message and the file hold: it is refused, and the host lives
        raise invalid("workload", f"the workload cannot be read: {error}") from error
    if steps > limits.steps:
        raise too_large("steps", f"{steps:,} steps are more than the {limits.steps:,} that this host allows")
    needed, here = _least_bytes(model), usable_memory()
    if needed > here > 0:
        raise too_large("memory", f"the workload needs at least {needed:,} bytes of memory; this host has {here:,}")


def _least_bytes(model: Any) -> int:
    """What training holds at the same time in any case: all weights, or the largest output of a layer for one batch."""
    largest = max(graph.size(node.shape) for node in model.nodes)
    return int(4 * max(model.parameter_count, model.workload.schedule.batch_size * largest))
