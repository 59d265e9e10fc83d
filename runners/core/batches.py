"""The order of samples, from (seed, epoch) alone, and what an adapter's loader is made from."""

from runners.core.initial import random_state


class Source(object):
    """Training samples and their order, for ``Adapter.loader``.

    x                float32 or int32, (samples, ...), C-contiguous; read-only
    y                int32, (samples,); read-only
    batch_size, steps_per_epoch
    pipeline         "native" or "memory"
    workers, prefetch  of the native pipeline
    transform        None, or ``transform(x_batch, epoch, indices) -> x_batch``: augmentation, to be applied by the
                     loader to every batch, in its workers where it has some (picklable)
    """

    def __init__(self, x, y, seed, batch_size, variant, transform=None):
        self.x = x
        self.y = y
        self.seed = int(seed)
        self.batch_size = int(batch_size)
        self.steps_per_epoch = len(x) // self.batch_size
        self.pipeline = variant.pipeline
        self.workers = int(variant.workers)
        self.prefetch = int(variant.prefetch)
        self.transform = transform

    def order(self, epoch):
        """int64 (steps_per_epoch, batch_size): the numbers of the samples of each batch of an epoch."""
        return order(self.seed, epoch, len(self.x), self.batch_size)

    def take(self, epoch, indices):
        """(x, y) of the samples ``indices``, transformed: what every framework must see as a batch."""
        x = self.x[indices]
        if self.transform is not None:
            x = self.transform(x, epoch, indices)
        return x, self.y[indices]


def order(seed, epoch, sample_count, batch_size):
    """A permutation by ``RandomState``, cut into full batches: int64 (steps, batch_size)."""
    steps = sample_count // batch_size
    shuffled = random_state(int(seed), "order", int(epoch)).permutation(sample_count)
    return shuffled[:steps * batch_size].reshape(steps, batch_size)
