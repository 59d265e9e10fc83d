"""Augmentation of pictures, from (seed, epoch, number of the sample) alone: the same bytes for every framework."""

import numpy as np

from runners.core.initial import random_state

SHARE = 0.1


def of(workload, sample_count):
    """The ``transform`` of a ``runners.core.batches.Source`` for a Workload message, or None without augmentation."""
    dataset = workload.dataset
    if dataset.WhichOneof("kind") != "cifar10" or dataset.cifar10.augment == "none":
        return None
    return ShiftFlip(workload.seed, sample_count)


class ShiftFlip(object):
    """Cifar10's "shift-flip" in workload.proto. Called as ``transform(x, epoch, indices)`` with pictures (batch,
    height, width, channels), from any process or thread.

    An epoch has three uniform draws for each of its ``sample_count`` samples, by the sample's number: of the shift
    down, of the shift to the right, and of the mirror; so a picture does not depend on the batch it is in.
    """

    def __init__(self, seed, sample_count):
        self._seed = int(seed)
        self._count = int(sample_count)
        self._drawn = (None, None)

    def __call__(self, x, epoch, indices):
        down, right, mirror = self._draws(int(epoch))[:, indices]
        height, width = x.shape[1:3]
        rows = _sources(height, down)
        columns = _sources(width, right)
        columns = np.where((mirror < 0.5)[:, None], columns[:, ::-1], columns)
        return x[np.arange(len(x))[:, None, None], rows[:, :, None], columns[:, None, :]]

    def _draws(self, epoch):
        """float64 (3, sample_count) in [0, 1); kept for the epoch, in one store because threads may share this."""
        drawn = self._drawn
        if drawn[0] != epoch:
            drawn = self._drawn = (epoch, random_state(self._seed, "augment", epoch).uniform(size=(3, self._count)))
        return drawn[1]


def _sources(length, draws):
    """Of each place of one axis, the place that its value comes from: int (batch, length)."""
    most = int(round(SHARE * length))
    shifts = np.floor(draws * (2 * most + 1)).astype(np.int64) - most
    return np.clip(np.arange(length)[None, :] - shifts[:, None], 0, length - 1)
