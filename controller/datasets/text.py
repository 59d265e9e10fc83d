"""Reads files of text, and turns reviews into padded word numbers and a book into windows of characters."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from trainyard.graph import NIETZSCHE_CHARACTERS

from controller.datasets import blobs
from controller.datasets.pictures import load_arrays
from controller.datasets.sources import Found, wrong_digest
from controller.errors import DatasetError

PADDING, START, OTHER, FIRST = 0, 1, 2, 3  # word rank r is number r + FIRST
MAX_EVALUATED_WINDOWS = 10_000

Words = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Reviews:
    """Word ranks (from 1, the most frequent) of every review, and labels: 1 is a good review."""

    train: Sequence[Words]
    y_train: NDArray[Any]
    test: Sequence[Words]
    y_test: NDArray[Any]


def read_imdb(found: Found) -> Reviews:
    """The canonical file. It holds pickled lists, so it is opened only if it is the very file that the digest names."""
    if not found.is_canonical:
        raise wrong_digest(found, "is corrupt or not the canonical file")
    arrays = load_arrays(found.path, allow_pickle=True)
    train, test = ([np.asarray(row, np.int32) for row in arrays[name]] for name in ("x_train", "x_test"))
    return Reviews(train, arrays["y_train"], test, arrays["y_test"])


def read_imdb_half(found: Found) -> Reviews:
    """``train_words`` int32 end to end, ``train_offset`` int64 (reviews + 1), ``y_train``; the same for ``test``."""
    arrays = load_arrays(found.path)
    try:
        train, test = (_split(arrays[f"{part}_words"], arrays[f"{part}_offset"]) for part in ("train", "test"))
        reviews = Reviews(train, arrays["y_train"], test, arrays["y_test"])
    except (KeyError, ValueError) as error:
        raise DatasetError(f"{found.path} is corrupt: {error}", "replace it") from None
    if len(reviews.train) != len(reviews.y_train) or len(reviews.test) != len(reviews.y_test):
        raise DatasetError(f"{found.path} is corrupt: reviews and labels differ in number", "replace it")
    return reviews


def _split(words: Words, offset: NDArray[np.int64]) -> list[Words]:
    if words.dtype != np.int32 or offset[0] != 0 or offset[-1] != len(words) or (np.diff(offset) < 0).any():
        raise ValueError("words and offsets do not fit each other")
    return [words[start:stop] for start, stop in itertools.pairwise(offset)]


def review_blocks(reviews: Reviews, vocabulary: int, maxlen: int, bigrams: bool) -> tuple[dict[str, blobs.Blocks], int]:
    """The arrays that are trained on, and how many different tokens there can be."""
    train, test = ([_numbered(row, vocabulary) for row in part] for part in (reviews.train, reviews.test))
    tokens = vocabulary
    if bigrams:
        known = _distinct(np.concatenate([_pairs(row, vocabulary) for row in train]))
        train, test = ([_with_bigrams(row, known, vocabulary) for row in part] for part in (train, test))
        tokens += len(known)
    return {
        "x_train": blobs.whole(_padded(train, maxlen), blobs.INTEGER),
        "y_train": blobs.whole(reviews.y_train, blobs.INTEGER),
        "x_test": blobs.whole(_padded(test, maxlen), blobs.INTEGER),
        "y_test": blobs.whole(reviews.y_test, blobs.INTEGER),
    }, tokens


def _numbered(ranks: Words, vocabulary: int) -> Words:
    """START, then the words as numbers; those that are not kept become OTHER."""
    numbers = np.empty(len(ranks) + 1, np.int32)
    numbers[0] = START
    numbers[1:] = ranks + FIRST
    numbers[1:][numbers[1:] >= vocabulary] = OTHER
    return numbers


def _pairs(numbers: Words, vocabulary: int) -> NDArray[np.int64]:
    """Every pair of neighbours as one number, in the order of the pairs."""
    return numbers[:-1].astype(np.int64) * vocabulary + numbers[1:]


def _distinct(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sorted, each once. (Several times as fast as ``np.unique`` for millions of values.)"""
    ordered = np.sort(pairs)
    is_new = np.ones(len(ordered), bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_new]


def _with_bigrams(numbers: Words, known: NDArray[np.int64], vocabulary: int) -> Words:
    """The words, then the number of every pair of neighbours that is known."""
    if not len(known):
        return numbers
    pairs = _pairs(numbers, vocabulary)
    places = np.searchsorted(known, pairs)
    is_known = known[np.minimum(places, len(known) - 1)] == pairs
    return np.concatenate([numbers, (vocabulary + places[is_known]).astype(np.int32)])


def _padded(rows: Sequence[Words], maxlen: int) -> NDArray[np.int32]:
    """(reviews, maxlen), filled and cut at the front."""
    table = np.full((len(rows), maxlen), PADDING, np.int32)
    for target, row in zip(table, rows, strict=True):
        kept = row[-maxlen:]
        target[maxlen - len(kept) :] = kept
    return table


def read_nietzsche(found: Found) -> NDArray[np.uint8]:
    """The text in lower case as character numbers, characters sorted."""
    if not found.is_canonical:
        raise wrong_digest(found, "is corrupt or not the canonical text")
    return character_numbers(found.path.read_text(encoding="utf-8"))


def character_numbers(text: str) -> NDArray[np.uint8]:
    """Numbers from 0, in the order of the characters. Raises DatasetError if there are not as many as specified."""
    codes = np.frombuffer(text.lower().encode("utf-32-le"), dtype="<u4")
    characters, numbers = np.unique(codes, return_inverse=True)
    if len(characters) != NIETZSCHE_CHARACTERS:
        raise DatasetError(
            f"the text has {len(characters)} different characters, not {NIETZSCHE_CHARACTERS}", "replace the file"
        )
    return numbers.astype(np.uint8)


def window_blocks(numbers: NDArray[np.uint8], maxlen: int, step: int) -> dict[str, blobs.Blocks]:
    """One-hot windows and the character after each. The evaluated windows are some of those trained on."""
    starts = np.arange(0, len(numbers) - maxlen, step)
    if not len(starts):
        raise DatasetError(f"the text of {len(numbers)} characters has no window of {maxlen}", "lower maxlen")
    evaluated = starts[:: -(-len(starts) // MAX_EVALUATED_WINDOWS)]
    return {
        "x_train": _one_hot(numbers, starts, maxlen),
        "y_train": blobs.whole(numbers[starts + maxlen], blobs.INTEGER),
        "x_test": _one_hot(numbers, evaluated, maxlen),
        "y_test": blobs.whole(numbers[evaluated + maxlen], blobs.INTEGER),
    }


def _one_hot(numbers: NDArray[np.uint8], starts: NDArray[np.int64], maxlen: int) -> blobs.Blocks:
    shape = (maxlen, NIETZSCHE_CHARACTERS)

    def parts() -> Iterator[NDArray[np.float32]]:
        rows = np.eye(NIETZSCHE_CHARACTERS, dtype=np.float32)
        for start, stop in blobs.spans(len(starts), blobs.rows_per_part(shape)):
            yield rows[numbers[starts[start:stop, np.newaxis] + np.arange(maxlen)]]

    return blobs.Blocks((len(starts), *shape), blobs.FLOAT, parts())
