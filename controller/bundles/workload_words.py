"""In which fields two workloads differ, in words, from their serialized messages. A pure function."""

from collections.abc import Iterable
from typing import Any

from controller.results import WorkloadSummary

_WORDS = {
    "schedule.batch_size": "batch size",
    "schedule.warmup_steps": "warm-up steps",
    "schedule.warmup_epochs": "warm-up epochs",
    "schedule.steps": "measured steps",
    "schedule.epochs": "measured epochs",
    "optimizer.learning_rate": "learning rate",
}
_MOST = 4
_ABSENT = "none"


def differences(one: WorkloadSummary, other: WorkloadSummary) -> tuple[tuple[str, str, str], ...]:
    """Name of each field that differs, with its value in both; the schedule and the seed before the layers."""
    mine, theirs = _fields(one), _fields(other)
    names = [*dict.fromkeys([*mine, *theirs])]
    found = [
        (_WORDS.get(name, name.replace("_", " ")), mine.get(name, _ABSENT), theirs.get(name, _ABSENT))
        for name in names
        if mine.get(name) != theirs.get(name)
    ]
    return tuple(sorted(found, key=lambda entry: entry[0].startswith("layers")))


def text(one: WorkloadSummary, other: WorkloadSummary, here: str, there: str) -> str:
    """Such as ``batch size 8 in here, 16 in there``."""
    found = differences(one, other)
    parts = [f"{name} {mine} in {here}, {theirs} in {there}" for name, mine, theirs in found[:_MOST]]
    if len(found) > _MOST:
        parts.append(f"and {len(found) - _MOST} more fields")
    return "; ".join(parts) or "its messages are written differently"


def _fields(workload: WorkloadSummary) -> dict[str, str]:
    """Every field of the message that is set, by its path."""
    from google.protobuf.message import DecodeError
    from trainyard.v1.workload_pb2 import Workload

    try:
        message = Workload.FromString(bytes.fromhex(workload.message))
    except (ValueError, DecodeError):
        return {"message": workload.digest[:12]}
    return dict(_walk(message, ""))


def _walk(message: Any, prefix: str) -> Iterable[tuple[str, str]]:
    for field, value in message.ListFields():
        path = f"{prefix}{field.name}"
        if isinstance(value, str | bytes) or not hasattr(value, "__len__"):
            yield from _entry(path, value)
            continue
        yield f"{path} (count)", str(len(value))
        for number, entry in enumerate(value, 1):
            yield from _entry(f"{path} {number}", entry)


def _entry(path: str, value: Any) -> Iterable[tuple[str, str]]:
    """An empty message, such as a dataset without options, is there all the same."""
    if hasattr(value, "ListFields"):
        inner = list(_walk(value, f"{path}."))
        yield from inner or [(path, "set")]
    else:
        yield path, f"{value:g}" if isinstance(value, float) else str(value)
