"""What a user asked of a comparison, checked and complete."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.addresses import LOCAL, Address
from controller.results import Campaign, Variant
from controller.runtimes import choice

REFERENCE = "reference"


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """``workloads`` are Workload messages with all overrides applied;
    ``runners`` empty: the default ones that each host can have, or with ``every_runner`` all of them.
    ``interpreters``: pairs of a runner's or framework's name and a Python, as ``runtimes.interpreter.resolve`` takes
    them. ``runtime`` and ``limits`` as in ``runtimes.choice.Wish``; ``certificate``: the controller's own, for hosts
    that want one; ``exclusive``: hosts that are one physical machine.
    ``threads`` 0: as many as the smallest of the hosts has cores.
    ``until_precision`` and ``max_trials`` as in results.Campaign.
    ``verify``: whether cells are certified first; with ``fresh`` no earlier probe counts.
    ``pause_seconds``: the longest wait before a trial for the machine to be quiet; ``calibrate``: whether the host is
    measured first.
    ``resumed``: the campaign that is continued, which the rest must be that of; with ``rerun`` none of its trials
    counts as done, with ``rerun_failed`` none that failed."""

    workloads: tuple[Any, ...]
    runners: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = (Variant(),)
    device: str = "cpu"
    gpu_index: int | None = None
    trials: int = 5
    until_precision: float | None = None
    max_trials: int = 0
    order_seed: int = 0
    threads: int = 1
    data_dir: Path | None = None
    interpreters: tuple[tuple[str, Path], ...] = ()
    command: str = ""
    runtime: str = choice.AUTO
    hosts: tuple[Address, ...] = (Address(LOCAL),)
    exclusive: tuple[str, ...] = ()
    certificate: Path | None = None
    limits: Mapping[str, str] = field(default_factory=dict)
    every_runner: bool = False
    verify: bool = True
    fresh: bool = False
    pause_seconds: float = 0.0
    calibrate: bool = False
    resumed: Campaign | None = None
    rerun: bool = False
    rerun_failed: bool = False
