"""What is said of the running trial: its progress as events, and how long the rest will take."""

from collections.abc import Sequence
from time import monotonic

from controller import interrupts
from controller.client import Progress, Started
from controller.events import Observer, TrialProgress
from controller.plan import PlannedTrial
from controller.results import Cell


class Clock:
    """How long trials took, to say how long the rest will take."""

    def __init__(self) -> None:
        self._taken: dict[Cell, list[float]] = {}
        self._begun = 0.0

    def begin(self) -> None:
        self._begun = monotonic()

    def end(self, cell: Cell) -> None:
        self._taken.setdefault(cell, []).append(monotonic() - self._begun)

    def seconds_left(self, cells: Sequence[Cell]) -> float | None:
        """For ``cells``, the running one first; None before anything is known."""
        means = {cell: sum(taken) / len(taken) for cell, taken in self._taken.items()}
        if not means:
            return None
        overall = sum(means.values()) / len(means)
        expected = sum(means.get(cell, overall) for cell in cells)
        return max(0.0, expected - (monotonic() - self._begun))


class Watch:
    """Turns what a runner reports into events."""

    def __init__(
        self, planned: PlannedTrial, total: int, observe: Observer, clock: Clock, left: Sequence[Cell]
    ) -> None:
        self._planned = planned
        self._total = total
        self._observe = observe
        self._clock = clock
        self._left = left
        self._per_epoch = 0

    def __call__(self, event: Started | Progress) -> None:
        interrupts.check()
        if isinstance(event, Started):
            self._per_epoch = event.steps_per_epoch
            self.show("started")
        else:
            self.show(event.phase, event.steps_done, event.steps_total, event.samples_per_second)

    def show(self, phase: str, done: int = 0, total: int = 0, rate: float = 0.0) -> None:
        self._observe(
            TrialProgress(
                number=self._planned.position + 1,
                total=self._total,
                cell=self._planned.cell,
                phase=phase,
                steps_done=done,
                steps_total=total,
                steps_per_epoch=self._per_epoch,
                samples_per_second=rate,
                campaign_seconds_left=self._clock.seconds_left(self._left),
            )
        )
