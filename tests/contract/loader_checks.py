"""Loaders: every batch must be exactly ``Source.take`` of its turn. Python 3.6 syntax.

What is in a batch is the framework's secret, so a batch is known by its loss, at a learning rate that moves nothing;
where it is a pair of arrays it is compared number by number too.
"""

import itertools

import numpy as np

from runners.core.batches import Source
from tests.contract.bench import LOSS, Deviation
from tests.contract.sketch import Sketch, samples

# Check name -> (pipeline, workers, whether samples are tokens, whether batches are transformed).
LOADERS = {
    "native-0": ("native", 0, False, False),
    "native-2": ("native", 2, False, False),
    "memory": ("memory", 0, False, False),
    "native-tokens": ("native", 2, True, False),
    "memory-tokens": ("memory", 0, True, False),
    "native-transform-0": ("native", 0, False, True),
    "native-transform-2": ("native", 2, False, True),
    "memory-transform": ("memory", 0, False, True),
}


def moved(x, epoch, indices):
    """A transformation that depends on the epoch and on each sample's number."""
    shift = np.asarray(indices, np.float32).reshape((-1,) + (1,) * (x.ndim - 1))
    return (x * np.float32(1 + epoch) + shift / np.float32(50)).astype(np.float32)


def check_loader(bench, name):
    """A whole epoch, one that is abandoned after two batches, then another whole one, told before where it can be."""
    pipeline, workers, tokens, transformed = LOADERS[name]
    model = _tokens() if tokens else _pictures()
    bench.open_with.variant.pipeline = pipeline
    bench.open_with.variant.workers = workers
    subject, oracle = bench.pair(model)
    x, y = samples(model)
    # Two of them: the expected batches do not depend on what a loader does to its own.
    source, given = (Source(x, y, model.workload.seed, model.workload.schedule.batch_size, bench.open_with.variant,
                            moved if transformed else None) for _ in range(2))
    loader = subject.loader(given)
    try:
        for number, count in ((0, None), (1, 2), (2, None), (3, 1), (0, None)):
            if number == 2 and hasattr(loader, "skip_to"):
                loader.skip_to(number)
            _check_epoch(bench, subject, oracle, source, loader, number, count)
    finally:
        loader.close()


def _check_epoch(bench, subject, oracle, source, loader, number, count):
    count = source.steps_per_epoch if count is None else count
    batches = iter(loader.epoch(number))
    taken = []
    for step, batch in enumerate(itertools.islice(batches, count)):
        taken.append(step)
        where = "epoch {} batch {}".format(number, step)
        x, y = source.take(number, source.order(number)[step])
        _check_content(where, batch, x, y)
        found, wanted = subject.read(subject.step(batch)), oracle.step((x, y))
        bench.outcome.limit("loss of " + where, abs(found - wanted) / abs(wanted), LOSS,
                            ": {:.7g}, not {:.7g}, so it is another batch".format(found, wanted))
    if len(taken) != count:
        raise Deviation("epoch {} has {} batches, not {}".format(number, len(taken), count))
    if count == source.steps_per_epoch and next(batches, None) is not None:
        raise Deviation("epoch {} has more than {} batches".format(number, count))


def _check_content(where, batch, x, y):
    """Compares numbers where ``batch`` is a pair of things that can become arrays."""
    arrays = _arrays(batch)
    if arrays is None:
        return
    found_x, found_y = arrays
    if found_x.shape != x.shape and found_x.ndim == 4:
        found_x = found_x.transpose(0, 2, 3, 1)
    if not np.array_equal(found_x, x):
        raise Deviation("{}: the samples are not those of Source.take".format(where))
    if not np.array_equal(found_y.reshape(-1), y):
        raise Deviation("{}: the labels are not those of Source.take".format(where))


def _arrays(batch):
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        return None
    converted = [part.numpy() if hasattr(part, "numpy") else part for part in batch]
    return converted if all(isinstance(part, np.ndarray) for part in converted) else None


def _pictures():
    sketch = Sketch((5, 4, 2), samples=67).optimizer("sgd", 1e-30)
    sketch.add("flatten")
    sketch.add("dense", "logits", units=3)
    return sketch.model()


def _tokens():
    sketch = Sketch((5,), vocabulary=40, samples=67).optimizer("sgd", 1e-30)
    sketch.add("embedding", "words", vocabulary=40, dim=4)
    sketch.add("flatten")
    sketch.add("dense", "logits", units=3)
    return sketch.model()
