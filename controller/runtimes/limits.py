"""What a container may take of its machine: the same for every runner of a campaign, and read back from inside."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from controller.errors import HostError, UsageError
from controller.runtimes.engine import Engine

_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
NAMES = ("cpus", "cpuset", "memory", "shm", "tmp", "pids")
# Left for the machine itself, so that a runner that takes too much is killed and nothing else.
_RESERVE_SHARE, _RESERVE_BYTES = 0.1, 512 * 2**20
_SHM_BYTES, _TMP_BYTES, _PIDS = 4 * 2**30, 4 * 2**30, 4096


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, ``cpus`` in cores; None or empty: no limit. Shared memory and temporary files are held in
    memory and count towards it."""

    cpus: float | None = None
    cpuset: str = ""
    memory: int | None = None
    shm: int = _SHM_BYTES
    tmp: int = _TMP_BYTES
    pids: int | None = _PIDS

    def text(self) -> str:
        """For people, such as "cpuset 0-1, memory 21.2 GB, shm 4.3 GB"."""
        parts = [f"cpus {self.cpus:g}"] if self.cpus else []
        parts += [f"cpuset {self.cpuset}"] if self.cpuset else []
        parts += [f"{name} {size / 1e9:.1f} GB" for name, size in (("memory", self.memory), ("shm", self.shm)) if size]
        return ", ".join(parts)


def parse(texts: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` pairs as options. Raises UsageError for an unknown name or a value that is none."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or name not in NAMES:
            raise UsageError(f"--limit {text!r} is not NAME=VALUE", f"names are {', '.join(NAMES)}; e.g. memory=8g")
        found[name] = value
        _applied(Limits(), {name: value})
    return found


def limits(engine: Engine, asked: dict[str, str]) -> Limits:
    """What was asked for, and for the rest what this engine can give without harm to its machine. Raises HostError
    for a limit that the engine cannot impose."""
    able = _able(engine)
    for name in asked:
        if not able.get(name, True):
            raise HostError(f"{engine.text()} cannot limit {name}", "docker info shows why; leave out --limit " + name)
    return _applied(_default(engine, able), asked)


def _able(engine: Engine) -> dict[str, bool]:
    """What the engine says that it can limit: a rootless one often cannot."""
    keys = {"memory": "MemoryLimit", "cpus": "CpuCfsQuota", "cpuset": "CPUSet", "pids": "PidsLimit"}
    return {name: engine.info.get(key) is not False for name, key in keys.items()}


def _default(engine: Engine, able: dict[str, bool]) -> Limits:
    total = engine.memory_bytes
    memory = int(total - max(total * _RESERVE_SHARE, _RESERVE_BYTES)) // 2**20 * 2**20
    half = max(64 * 2**20, memory // 2)
    return Limits(
        cpuset=_own_cpus() if engine.is_local and able["cpuset"] else "",
        memory=memory if memory > 0 and able["memory"] else None,
        shm=min(_SHM_BYTES, half),
        tmp=min(_TMP_BYTES, half),
        pids=_PIDS if able["pids"] else None,
    )


def _own_cpus() -> str:
    """The processors that this process may use, so that a container and a process have the same ones."""
    if not hasattr(os, "sched_getaffinity"):
        return ""
    return ranges(sorted(os.sched_getaffinity(0)))


def ranges(numbers: Sequence[int]) -> str:
    """Such as "0-3,6" for [0, 1, 2, 3, 6]."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _applied(start: Limits, asked: dict[str, str]) -> Limits:
    for name, value in asked.items():
        if name == "cpus":
            start = replace(start, cpus=_positive(name, value))
        elif name == "cpuset":
            start = replace(start, cpuset=_cpuset(value))
        elif name == "pids":
            start = replace(start, pids=int(_positive(name, value)))
        elif name == "memory":
            start = replace(start, memory=_size(name, value))
        elif name == "shm":
            start = replace(start, shm=_size(name, value))
        else:
            start = replace(start, tmp=_size(name, value))
    return start


def _positive(name: str, value: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", value) or float(value) <= 0 or (name == "pids" and "." in value):
        raise UsageError(f"--limit {name}={value} is no number above 0")
    return float(value)


def _cpuset(value: str) -> str:
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", value):
        raise UsageError(f"--limit cpuset={value} is no list of processors", "write e.g. cpuset=0-3,6")
    return value


def _size(name: str, value: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([bkmgt]?)b?", value.lower())
    size = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if size < 2**20:
        raise UsageError(f"--limit {name}={value} is no size of at least 1 MiB", f"write e.g. {name}=8g")
    return size
