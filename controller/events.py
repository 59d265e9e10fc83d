"""What happens while a campaign is prepared and run, as values: live displays and logs are functions of these."""

from collections.abc import Callable
from dataclasses import dataclass

from controller.results import Cell, Trial


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """One runner's environment. ``state`` is waiting, running, done (built now), ready (was there) or failed;
    ``fraction`` is None where it cannot be known."""

    runner: str
    state: str
    stage: str = ""
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class DataProgress:
    """One dataset. ``state`` as in BuildProgress; ``stage`` such as "downloading mnist.npz"."""

    dataset: str
    state: str
    stage: str = ""
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Something that is not as asked, in words; it also stands on the table."""

    text: str


@dataclass(frozen=True, slots=True)
class ProbeProgress:
    """One runner's probe of one workload. ``state`` is running, done or failed; ``text`` is how it ended."""

    number: int
    total: int
    runner: str
    workload: str
    state: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class TrialProgress:
    """The trial that is running: number ``number`` of ``total``. ``phase`` as in runner.proto, or "starting"."""

    number: int
    total: int
    cell: Cell
    phase: str
    steps_done: int = 0
    steps_total: int = 0
    steps_per_epoch: int = 0
    samples_per_second: float = 0.0
    campaign_seconds_left: float | None = None


@dataclass(frozen=True, slots=True)
class TrialDone:
    """A trial has ended, in whatever state, and is stored."""

    number: int
    total: int
    trial: Trial


Event = BuildProgress | DataProgress | Note | ProbeProgress | TrialProgress | TrialDone
Observer = Callable[[Event], None]
