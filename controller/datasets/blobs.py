"""Arrays as .npy files named by the SHA-256 of the whole file: the same bytes on every machine and NumPy."""

import hashlib
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOAT = "<f4"
INTEGER = "<i4"
PART_BYTES = 8 * 2**20
_MAGIC = b"\x93NUMPY\x01\x00"
_ALIGNMENT = 64

Report = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Blocks:
    """An array to be written part by part, so that one larger than memory can be.

    ``dtype`` is FLOAT or INTEGER; ``parts`` are consecutive pieces along the first axis.
    """

    shape: tuple[int, ...]
    dtype: str
    parts: Iterable[NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Blob:
    """A written array: ``<sha256>.npy`` of ``size_bytes`` bytes."""

    sha256: str
    size_bytes: int


def whole(array: NDArray[Any], dtype: str) -> Blocks:
    """An array that is there already."""
    return Blocks(array.shape, dtype, [array])


def rows_per_part(shape: tuple[int, ...]) -> int:
    """How many samples of this shape make a part of about PART_BYTES."""
    return max(1, PART_BYTES // (4 * max(1, math.prod(shape))))


def spans(count: int, step: int) -> Iterator[tuple[int, int]]:
    """Consecutive (start, stop) that cover ``count``."""
    for start in range(0, count, step):
        yield start, min(start + step, count)


def header(shape: tuple[int, ...], dtype: str) -> bytes:
    """Header of .npy format 1.0. Written here because NumPy's own differs in padding between its versions."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode("ascii")
    padding = -(len(_MAGIC) + 2 + len(text) + 1) % _ALIGNMENT
    text += b" " * padding + b"\n"
    return _MAGIC + len(text).to_bytes(2, "little") + text


def write(folder: Path, blocks: Blocks, report: Report = lambda fraction: None) -> Blob:
    """Writes one array into ``folder``; the file appears whole or not at all. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix="writing-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            digest, size = hashlib.sha256(), 0
            for piece in _pieces(blocks, report):
                digest.update(piece)
                size += file.write(piece)
        Path(temporary).chmod(0o644)  # other users' runners and containers read it too
        Path(temporary).replace(path(folder, digest.hexdigest()))
    finally:
        Path(temporary).unlink(missing_ok=True)
    return Blob(digest.hexdigest(), size)


def _pieces(blocks: Blocks, report: Report) -> Iterator[bytes | memoryview]:
    yield header(blocks.shape, blocks.dtype)
    rows = 0
    for part in blocks.parts:
        yield np.ascontiguousarray(part, dtype=blocks.dtype).reshape(-1).view(np.uint8).data
        rows += len(part)
        report(rows / max(1, blocks.shape[0]))
    if rows != blocks.shape[0]:
        raise ValueError(f"an array of shape {blocks.shape} got {rows} rows")


def path(folder: Path, sha256: str) -> Path:
    """Where an array lies."""
    return folder / f"{sha256}.npy"
