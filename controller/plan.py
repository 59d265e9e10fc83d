"""The order of trials: random complete blocks, from a stored seed. Pure."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from controller.results import Cell


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """The ``position``-th trial (from 0) of the campaign; ``block`` is which repetition it belongs to."""

    block: int
    position: int
    cell: Cell


def interleave(cells: Sequence[Cell], trial_count: int, seed: int) -> list[PlannedTrial]:
    """Every block holds each cell once, in an order of its own, so that drift of the machine meets all alike."""
    generator = random.Random(seed)  # noqa: S311 - an order that can be repeated, not a secret
    planned: list[PlannedTrial] = []
    for block in range(trial_count):
        order = list(cells)
        generator.shuffle(order)
        planned += [PlannedTrial(block, position, cell) for position, cell in enumerate(order, len(planned))]
    return planned
