"""Batches for Keras: NumPy arrays, sliced as ``Model.fit`` slices them, or by a ``Sequence`` and its threads.

Keras has no loader for arrays but the slices that ``fit`` takes between two steps, and nothing makes them faster
than that: a queue and its threads cost more than a slice. So ``workers`` take part only where there is work for them,
the transformation of batches, as they do in ``fit_generator``.
"""

import numpy as np
from keras import utils


def make(source, transposed):
    """The loader of a ``Source``. ``transposed``: pictures are to be NCHW."""
    arrays = _Arrays(source, transposed)
    if source.pipeline == "native" and source.transform is not None and source.workers:
        return QueueLoader(arrays)
    return SliceLoader(arrays)


def samples(x, transposed):
    """Samples (batch, ...) as the network takes them."""
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if transposed else x


def labels(y):
    """Labels (batch,) as Keras takes them: float32 (batch, 1)."""
    return y.astype(np.float32)[:, None]


class _Arrays(object):
    """All samples, ready to be sliced: (x, y) of a batch by ``take``."""

    def __init__(self, source, transposed):
        self.source = source
        self._transposed = transposed
        self._x = source.x if source.transform else samples(source.x, transposed)
        self._y = labels(source.y)

    def take(self, epoch, indices):
        x = self._x[indices]
        if self.source.transform is not None:
            x = samples(self.source.transform(x, epoch, indices), self._transposed)
        return x, self._y[indices]


class SliceLoader(object):
    """Slices between the steps."""

    def __init__(self, arrays):
        self._arrays = arrays

    def epoch(self, number):
        return (self._arrays.take(number, indices) for indices in self._arrays.source.order(number))

    def close(self):
        self._arrays = None


class _Batches(utils.Sequence):
    """Keras's protocol of numbered batches, for one epoch after the other."""

    def __init__(self, arrays, epoch):
        self._arrays = arrays
        self._begin(epoch)

    def _begin(self, epoch):
        self._epoch, self._order = epoch, self._arrays.source.order(epoch)

    def __len__(self):
        return len(self._order)

    def __getitem__(self, number):
        return self._arrays.take(self._epoch, self._order[number])

    def on_epoch_end(self):
        self._begin(self._epoch + 1)


class QueueLoader(object):
    """``OrderedEnqueuer``: threads that make batches ahead, ``prefetch`` of them waiting at most."""

    def __init__(self, arrays):
        self._arrays = arrays
        self._enqueuer = None
        self._next = None

    def epoch(self, number):
        if self._next != number:
            self._stop()
            self._start(number)
        self._next = None
        return self._steps(number)

    def _steps(self, number):
        batches = self._batches
        for _ in range(self._arrays.source.steps_per_epoch):
            yield next(batches)
        self._next = number + 1

    def _start(self, number):
        source = self._arrays.source
        self._enqueuer = utils.OrderedEnqueuer(_Batches(self._arrays, number))
        self._enqueuer.start(workers=source.workers, max_queue_size=source.prefetch)
        self._batches = self._enqueuer.get()

    def _stop(self):
        if self._enqueuer is not None:
            self._enqueuer.stop()
            self._enqueuer = None

    def close(self):
        self._stop()
