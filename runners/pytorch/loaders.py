"""Batches: PyTorch's ``DataLoader`` over whole batches, and ready tensors on the device."""

import warnings

import numpy as np
import torch
import torch.utils.data


class Arrangement(object):
    """How samples and labels become the tensors that a training step takes.

    ``channels_first``: pictures become (batch, channels, height, width), in the order of that shape, or
    ``channels_last`` in memory; ``binary``: labels become float32 (batch, 1) instead of int64 (batch)."""

    def __init__(self, channels_first, channels_last, binary, device):
        self.channels_first = channels_first
        self.channels_last = channels_last
        self.binary = binary
        self.device = device

    def store(self, x):
        """Samples as a CPU tensor of which ``batch`` takes some: transposed once, so that no batch has to be."""
        if self.channels_first and not self.channels_last:
            x = x.transpose(0, 3, 1, 2)
        tensor = _shared(np.ascontiguousarray(x))
        return tensor if tensor.is_floating_point() else tensor.long()

    def batch(self, stored):
        """Rows of ``store`` as the step takes them."""
        return stored.permute(0, 3, 1, 2) if self.channels_first and self.channels_last else stored

    def labels(self, y):
        """Labels as a CPU tensor."""
        tensor = torch.from_numpy(np.array(y))
        return tensor.to(torch.float32).unsqueeze(1) if self.binary else tensor.long()

    def put(self, x, y):
        """One batch on the device, from NumPy arrays, of which nothing is kept."""
        return self.features(x), self.labels(y).to(self.device)

    def features(self, x):
        """The same for samples alone."""
        return self.batch(self.store(np.array(x))).to(self.device)


def _shared(array):
    """A tensor over the memory of ``array``, which nobody writes to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "not writeable"
        return torch.from_numpy(array)


def make(source, arrangement):
    """The loader of a ``runners.core.batches.Source``, as ``Adapter.loader`` says."""
    return MemoryLoader(source, arrangement) if source.pipeline == "memory" else NativeLoader(source, arrangement)


class NativeLoader(object):
    """``DataLoader`` with whole batches as items: workers index and transform a batch at a time."""

    def __init__(self, source, arrangement):
        self._device = arrangement.device
        self._order = _Order(source)
        options = {}
        if source.workers:
            options = {"prefetch_factor": source.prefetch, "persistent_workers": True}
        self._loader = torch.utils.data.DataLoader(
            _Batches(source, arrangement), sampler=self._order, batch_size=None, num_workers=source.workers,
            pin_memory=self._device.type == "cuda", **options)

    def epoch(self, number):
        self._order.epoch = number
        batches = iter(self._loader)
        return batches if self._device.type == "cpu" else map(self._to_device, batches)

    def _to_device(self, batch):
        return [tensor.to(self._device, non_blocking=True) for tensor in batch]

    def close(self):
        # Persistent workers end when their iterator is collected; whoever keeps an unfinished epoch would keep them.
        iterator = getattr(self._loader, "_iterator", None)
        if iterator is not None:
            iterator._shutdown_workers()
        self._loader = None


class _Order(torch.utils.data.Sampler):
    """The sampler: of the epoch ``epoch``, the numbers of each batch's samples."""

    def __init__(self, source):
        self.source = source
        self.epoch = 0

    def __len__(self):
        return self.source.steps_per_epoch

    def __iter__(self):
        if self.source.transform is None:
            return iter(torch.from_numpy(self.source.order(self.epoch)).unbind(0))
        return ((self.epoch, indices) for indices in self.source.order(self.epoch))


class _Batches(torch.utils.data.Dataset):
    """The data set whose items are batches; with a transform an item's name is (epoch, numbers), else numbers."""

    def __init__(self, source, arrangement):
        self.source = source if source.transform is not None else None
        self.arrangement = arrangement
        self.x = arrangement.store(source.x) if source.transform is None else None
        self.y = arrangement.labels(source.y)

    def __getitem__(self, name):
        if self.source is None:
            return self.arrangement.batch(self.x.index_select(0, name)), self.y.index_select(0, name)
        epoch, indices = name
        x, _ = self.source.take(epoch, indices)
        return self.arrangement.batch(self.arrangement.store(x)), self.y.index_select(0, torch.from_numpy(indices))


class MemoryLoader(object):
    """Everything on the device once; a batch is a selection of rows there. A transform is applied on the way."""

    def __init__(self, source, arrangement):
        self._source = source
        self._arrangement = arrangement
        if source.transform is None:
            self._x = arrangement.store(source.x).to(arrangement.device)
            self._y = arrangement.labels(source.y).to(arrangement.device)

    def epoch(self, number):
        order = self._source.order(number)
        if self._source.transform is not None:
            return (self._arrangement.put(*self._source.take(number, indices)) for indices in order)
        return self._select(torch.from_numpy(order).to(self._arrangement.device))

    def _select(self, order):
        x, y, batch = self._x, self._y, self._arrangement.batch
        for indices in order.unbind(0):
            yield batch(x.index_select(0, indices)), y.index_select(0, indices)

    def close(self):
        self._x = self._y = None
