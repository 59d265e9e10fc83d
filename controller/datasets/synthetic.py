"""Made-up data that can be learned, from the Synthetic message alone, and what stands in for real data with it.

Each class has a coarse pattern (features) or prefers some tokens; a twentieth of the labels is drawn anew, so a
model that has learned everything there is scores a little under 1 and never exactly 1.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from trainyard.graph import NIETZSCHE_CHARACTERS
from trainyard.v1.workload_pb2 import Dataset, Synthetic, Workload

from controller.datasets import blobs
from controller.datasets.text import MAX_EVALUATED_WINDOWS

SIGNAL = 0.25  # share of a feature that is the class's pattern, and of tokens that tell the class
RELABELLED = 0.05
GRID = 4  # cells of a pattern along each axis but the last
_BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))

# Sizes of the real data, for what stands in for it.
_NIETZSCHE_TEXT = 600_893
_IMDB_REVIEWS = 25_000
_IMDB_BIGRAM_TOKENS = 1_200_000  # 12,452 reviews have 736,682 pairs; the count grows as the 0.7th power or so


def blocks(options: Synthetic) -> dict[str, blobs.Blocks]:
    """The four arrays of a Synthetic message; the same for the same message, on every machine."""
    arrays: dict[str, blobs.Blocks] = {}
    for stream, (part, count) in enumerate((("train", options.samples), ("test", options.test_samples))):
        drawn = _classes(_random(2 * stream), count, options.classes)
        make = _tokens if options.vocabulary else _features
        arrays[f"x_{part}"] = make(2 * stream + 1, drawn, options)
        arrays[f"y_{part}"] = blobs.whole(_relabelled(_random(10 + stream), drawn, options.classes), blobs.INTEGER)
    return arrays


def _random(stream: int) -> np.random.RandomState:
    """NumPy's frozen generator; the streams are independent."""
    return np.random.RandomState([20_220_409, stream])


def _classes(random: np.random.RandomState, count: int, classes: int) -> NDArray[np.int64]:
    return (random.random_sample(count) * classes).astype(np.int64)


def _relabelled(random: np.random.RandomState, drawn: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    chosen = random.random_sample(len(drawn)) < RELABELLED
    return np.where(chosen, _classes(random, len(drawn), classes), drawn)


def _features(stream: int, drawn: NDArray[np.int64], options: Synthetic) -> blobs.Blocks:
    shape = tuple(options.shape)
    random, patterns = _random(stream), _patterns(shape, options.classes)

    def parts() -> Iterator[NDArray[np.float32]]:
        for start, stop in blobs.spans(len(drawn), blobs.rows_per_part(shape)):
            noise = random.random_sample((stop - start, *shape))
            noise *= 1 - SIGNAL
            noise += SIGNAL * _spread(patterns[drawn[start:stop]], shape)
            yield np.minimum(noise.astype(np.float32), _BELOW_ONE)

    return blobs.Blocks((len(drawn), *shape), blobs.FLOAT, parts())


def _patterns(shape: tuple[int, ...], classes: int) -> NDArray[np.float64]:
    """One coarse pattern a class: (classes, at most GRID for every axis but the last, last)."""
    coarse = (*(min(length, GRID) for length in shape[:-1]), shape[-1])
    return _random(20).random_sample((classes, *coarse))


def _spread(patterns: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Coarse patterns (samples, ...) at full size, each cell repeated."""
    for axis, length in enumerate(shape[:-1], 1):
        cells = patterns.shape[axis]
        patterns = patterns.take(np.arange(length) * cells // length, axis=axis)
    return patterns


def _tokens(stream: int, drawn: NDArray[np.int64], options: Synthetic) -> blobs.Blocks:
    shape, vocabulary, classes = tuple(options.shape), options.vocabulary, options.classes
    # A stream each, so that the values do not depend on how the array is cut in parts.
    random, chance = _random(stream), _random(30 + stream)

    def parts() -> Iterator[NDArray[Any]]:
        for start, stop in blobs.spans(len(drawn), blobs.rows_per_part(shape)):
            size = (stop - start, *shape)
            place = random.random_sample(size)
            token = (vocabulary * (place * place * place)).astype(np.int64)  # small numbers are frequent, as in text
            own = token - token % classes + drawn[start:stop].reshape(-1, *(1 for _ in shape))
            tells = (chance.random_sample(size) < SIGNAL) & (own < vocabulary)
            yield np.where(tells, own, token).astype(np.int32)

    return blobs.Blocks((len(drawn), *shape), blobs.INTEGER, parts())


def instead_of(workload: Workload) -> Workload:
    """A copy whose dataset is synthetic, with the shapes and sizes of the real one."""
    changed = Workload()
    changed.CopyFrom(workload)
    changed.dataset.CopyFrom(Dataset(synthetic=_like(workload.dataset)))
    words = changed.dataset.synthetic.vocabulary
    for layer in changed.layers:
        if layer.WhichOneof("op") == "embedding" and layer.embedding.vocabulary < words:
            layer.embedding.vocabulary = words
    return changed


def _like(dataset: Dataset) -> Synthetic:
    kind = dataset.WhichOneof("kind")
    if kind == "mnist":
        return Synthetic(shape=(28, 28, 1), classes=10, samples=60_000, test_samples=10_000)
    if kind == "cifar10":
        return Synthetic(shape=(32, 32, 3), classes=10, samples=50_000, test_samples=10_000)
    if kind == "imdb":
        options = dataset.imdb
        tokens = options.vocabulary + (_IMDB_BIGRAM_TOKENS if options.bigrams else 0)
        return Synthetic(
            shape=(options.maxlen,), classes=2, samples=_IMDB_REVIEWS, test_samples=_IMDB_REVIEWS, vocabulary=tokens
        )
    options = dataset.nietzsche
    return Synthetic(
        shape=(options.maxlen, NIETZSCHE_CHARACTERS),
        classes=NIETZSCHE_CHARACTERS,
        samples=max(1, len(range(0, _NIETZSCHE_TEXT - options.maxlen, options.step))),
        test_samples=MAX_EVALUATED_WINDOWS,
    )
