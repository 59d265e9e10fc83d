"""Reads files of pictures: MNIST's .npz, CIFAR-10's archive of batches, and CIFAR-10 as JPEG files in an .npz."""

import hashlib
import io
import itertools
import pickle
import struct
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.datasets import blobs
from controller.datasets.sources import Found, wrong_digest
from controller.errors import DatasetError, HostError

Bytes = NDArray[np.uint8]

# SHA-256 of the four uncompressed files that MNIST was published as (IDX format): they prove the pictures
# whatever they are packed in.
MNIST_IDX = {
    "x_train": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "y_train": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "x_test": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "y_test": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
CIFAR_SIDE = 32
CIFAR_CLASSES = 10


@dataclass(frozen=True, slots=True)
class Pictures:
    """uint8 pictures (samples, height, width, channels) and their class numbers (samples,)."""

    x_train: Bytes
    y_train: Bytes
    x_test: Bytes
    y_test: Bytes

    def blocks(self) -> dict[str, blobs.Blocks]:
        """The arrays that are trained on: float32 pixel / 255, int32 labels."""
        return {
            "x_train": _scaled(self.x_train),
            "y_train": blobs.whole(self.y_train, blobs.INTEGER),
            "x_test": _scaled(self.x_test),
            "y_test": blobs.whole(self.y_test, blobs.INTEGER),
        }


def _scaled(x: Bytes) -> blobs.Blocks:
    def parts() -> Iterator[NDArray[np.float32]]:
        for start, stop in blobs.spans(len(x), blobs.rows_per_part(x.shape[1:])):
            yield x[start:stop].astype(np.float32) / np.float32(255)

    return blobs.Blocks(x.shape, blobs.FLOAT, parts())


def read_mnist(found: Found) -> Pictures:
    """mnist.npz, or any other packing of the same arrays. Raises DatasetError for other contents."""
    try:
        arrays = load_arrays(found.path)
        checked = {role: arrays[role] for role in MNIST_IDX}
    except (DatasetError, KeyError) as error:
        raise wrong_digest(found, f"is corrupt or no mnist.npz ({error})") from None
    if not found.is_canonical:
        for role, expected in MNIST_IDX.items():
            if _idx_digest(checked[role]) != expected:
                raise wrong_digest(found, f"does not hold MNIST (its {role} differs)")
    return Pictures(
        checked["x_train"][..., np.newaxis], checked["y_train"], checked["x_test"][..., np.newaxis], checked["y_test"]
    )


def _idx_digest(array: NDArray[Any]) -> str:
    """SHA-256 of a uint8 array as an IDX file: two zeros, type 8, number of axes, big-endian lengths, bytes."""
    if array.dtype != np.uint8:
        return ""
    digest = hashlib.sha256(struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape))
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def read_cifar10(found: Found) -> Pictures:
    """The canonical archive. It holds pickles, so it is opened only if it is the very file that the digest names."""
    if not found.is_canonical:
        raise wrong_digest(found, "is corrupt or not the canonical file")
    with tarfile.open(found.path) as archive:
        train = [_batch(archive, f"data_batch_{number}") for number in range(1, 6)]
        x_test, y_test = _batch(archive, "test_batch")
    return Pictures(np.concatenate([x for x, _ in train]), np.concatenate([y for _, y in train]), x_test, y_test)


def _batch(archive: tarfile.TarFile, name: str) -> tuple[Bytes, Bytes]:
    """One batch: rows of 3,072 bytes, all red, then all green, then all blue."""
    file = archive.extractfile(f"cifar-10-batches-py/{name}")
    if file is None:
        raise DatasetError(f"the CIFAR-10 archive has no {name}", "replace it")
    data = pickle.load(file, encoding="bytes")  # noqa: S301 - of known SHA-256
    planes = np.asarray(data[b"data"], dtype=np.uint8).reshape(-1, 3, CIFAR_SIDE, CIFAR_SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), np.asarray(data[b"labels"], dtype=np.uint8)


def read_cifar10_jpeg(found: Found) -> Pictures:
    """``jpeg`` uint8 (all files end to end), ``offset`` int64 (samples + 1), ``label``, ``split`` (0 train, 1 test)."""
    arrays = load_arrays(found.path)
    try:
        jpeg, offset, label, split = (arrays[name] for name in ("jpeg", "offset", "label", "split"))
        if not len(offset) - 1 == len(label) == len(split) or offset[-1] > len(jpeg):
            raise DatasetError(f"{found.path} is corrupt: its arrays do not fit each other", "replace it")
    except KeyError as error:
        raise DatasetError(f"{found.path} is corrupt: {error}", "replace it") from None
    x = np.empty((len(label), CIFAR_SIDE, CIFAR_SIDE, 3), np.uint8)
    for row, (start, stop) in enumerate(itertools.pairwise(offset)):
        x[row] = _decoded(jpeg[start:stop].tobytes(), found.path, row)
    train, test = split == 0, split == 1
    return Pictures(x[train], label[train], x[test], label[test])


def _decoded(content: bytes, path: Path, row: int) -> Bytes:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise HostError(f"{path.name} needs Pillow to be read", "install it: pip install 'trainyard[jpeg]'") from None
    try:
        picture = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        raise DatasetError(f"{path} is corrupt: picture {row}: {error}", "replace it") from None
    if picture.shape != (CIFAR_SIDE, CIFAR_SIDE, 3):
        raise DatasetError(f"{path} is corrupt: picture {row} has shape {picture.shape}", "replace it")
    return picture


def load_arrays(path: Path, allow_pickle: bool = False) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz file. Raises DatasetError if it is damaged. Pickles only from files of known digest."""
    import zipfile
    import zlib

    # What is no archive could only be an array of its own, or a pickle.
    if not zipfile.is_zipfile(path):
        raise DatasetError(f"{path} is no .npz file", "replace it")
    try:
        with np.load(path, allow_pickle=allow_pickle) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise DatasetError(f"{path} is no readable .npz file: {error}", "replace it") from None
