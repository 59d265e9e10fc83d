"""Batches for Jittor: its own Dataset with worker processes, or ready Vars."""

import jittor as jt
from jittor.dataset import Dataset

# Epochs that one stream of the Dataset holds. It ends and starts anew after them, at no cost that matters.
AHEAD = 64
# Bytes that a batch takes in a worker's buffer besides its arrays.
OVERHEAD = 4096


class Steps(object):
    """A Jittor sampler: numbers of batches, counted through all epochs, going on where it stopped."""

    def __init__(self, first, count):
        self._first = first
        self._count = count

    def __iter__(self):
        numbers = range(self._first, self._first + self._count)
        self._first += self._count
        return iter(numbers)


class Batches(Dataset):
    """A Jittor Dataset whose samples are whole batches: (number, x, y)."""

    def __init__(self, source, arrange, first):
        count = AHEAD * source.steps_per_epoch
        batch = (source.x[:1].nbytes + source.y[:1].nbytes) * source.batch_size + OVERHEAD
        # A message lies in one piece in a buffer of a power of two, so one more must fit than are prepared.
        super(Batches, self).__init__(batch_size=1, num_workers=source.workers, endless=True,
                                      buffer_size=(max(source.prefetch, 1) + 1) * batch)
        self.set_attrs(total_len=count)
        self.sampler = Steps(first, count)
        self._source = source
        self._arrange = arrange
        self._epoch, self._order = None, None

    def __getitem__(self, number):
        epoch, step = divmod(int(number), self._source.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._source.order(epoch)
        x, y = self._source.take(epoch, self._order[step])
        return int(number), self._arrange(x), y

    def collate_batch(self, batch):
        return list(batch[0])


class NativeLoader(object):
    """Jittor's Dataset. Its workers live through all epochs; they start anew if an epoch was left early."""

    def __init__(self, source, arrange):
        self._source = source
        self._arrange = arrange
        self._dataset = self._stream = None
        self._due = None
        self._early = {}

    def epoch(self, number):
        self.skip_to(number)
        return self._batches(number * self._source.steps_per_epoch)

    def skip_to(self, number):
        """Starts the workers, anew where they have gone on to other batches: it takes a tenth of a second."""
        first = number * self._source.steps_per_epoch
        if self._due != first:
            self._restart(first)

    def _restart(self, first):
        self.close()
        self._dataset = Batches(self._source, self._arrange, first)
        self._stream = iter(self._dataset)
        self._due = first
        # Starts the workers.
        self._receive()

    def _receive(self):
        number, x, y = next(self._stream)
        self._early[number] = (x, y)

    def _batches(self, first):
        for number in range(first, first + self._source.steps_per_epoch):
            # Jittor hands over batches in the order in which its workers announced them.
            while number not in self._early:
                self._receive()
            self._due = number + 1
            yield self._early.pop(number)

    def close(self):
        """Ends the workers."""
        if self._dataset is None:
            return
        self._stream.close()
        self._dataset.terminate()
        for worker in getattr(self._dataset, "workers", []):
            worker.p.join()
        self._dataset = self._stream = self._due = None
        self._early = {}


class MemoryLoader(object):
    """All samples in one Var; a batch is taken out of it by the order."""

    def __init__(self, source, arrange):
        self._source = source
        self._arrange = arrange
        self._x = self._y = None
        if source.transform is None:
            self._x, self._y = _var(arrange(source.x)), _var(source.y)

    def epoch(self, number):
        order = self._source.order(number)
        if self._x is None:
            return (tuple(map(_var, self._transformed(number, indices))) for indices in order)
        return ((self._x[indices], self._y[indices]) for indices in map(_var, order.astype("int32")))

    def _transformed(self, epoch, indices):
        x, y = self._source.take(epoch, indices)
        return self._arrange(x), y

    def close(self):
        self._x = self._y = None


def _var(array):
    return jt.array(array).stop_grad()
