"""What is said of the running trial: its progress as events, and how long the rest will take."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from controller import interrupts
from controller.client import Progress, Started
from controller.events import Observer, TrialProgress
from controller.plan import PlannedTrial
from controller.results import Cell

_LONGEST = "measure"  # the phase that a trial spends most of its time in


class Clock:
    """How long trials took, to say how long the rest will take."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._taken: dict[Cell, list[float]] = {}
        self._begun = 0.0
        self._phase: tuple[str, int, float] | None = None  # its name, steps and time when it was first seen
        self._to_go: float | None = None  # of the measured section, by the pace of its steps so far

    def begin(self) -> None:
        self._begun = self._now()
        self._phase = self._to_go = None

    def end(self, cell: Cell) -> None:
        self._taken.setdefault(cell, []).append(self._now() - self._begun)

    def step(self, phase: str, done: int, total: int) -> None:
        """How far the running trial is. Its measured section is most of it, and what follows is not counted."""
        if self._phase is None or self._phase[0] != phase:
            self._phase = (phase, done, self._now())
            self._to_go = None
        _, first, since = self._phase
        if phase == _LONGEST and done > first:
            self._to_go = (total - done) * (self._now() - since) / (done - first)

    def seconds_left(self, cells: Sequence[Cell]) -> float | None:
        """For ``cells``, the running one first; None before anything is known. A row that was not seen yet is taken
        for an average one of its runner, or else of all; 0 where the running trial takes longer than expected."""
        elapsed = self._now() - self._begun
        seen = {cell: sum(taken) / len(taken) for cell, taken in self._taken.items()}
        if self._to_go is not None:
            seen.setdefault(cells[0], elapsed + self._to_go)
        if not seen:
            return None
        rest = sum(_expected(cell, seen) for cell in cells[1:])
        running = self._to_go if self._to_go is not None else _expected(cells[0], seen) - elapsed
        return max(0.0, running + rest)


def _expected(cell: Cell, seen: Mapping[Cell, float]) -> float:
    """Seconds of a trial of ``cell``, by those of the cells seen."""
    if cell in seen:
        return seen[cell]
    alike = [seconds for other, seconds in seen.items() if other.runner == cell.runner] or list(seen.values())
    return sum(alike) / len(alike)


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
        self._clock.step(phase, done, total)
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
