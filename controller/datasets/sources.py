"""The files that datasets come from: names, addresses and digests, and finding them in a user's folder."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from controller.errors import DatasetError, UsageError


@dataclass(frozen=True, slots=True)
class Source:
    """One public file. ``note`` is what the table must say when it is used; the canonical files have none.

    A file without a ``sha256`` is an alternative form that anyone may make; it is taken from --data-dir only.
    """

    file: str
    sha256: str = ""
    url: str = ""
    note: str = ""


_KERAS = "https://storage.googleapis.com/tensorflow/tf-keras-datasets"

# By dataset, the canonical file first.
SOURCES: dict[str, tuple[Source, ...]] = {
    "mnist": (
        Source(
            "mnist.npz",
            "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
            f"{_KERAS}/mnist.npz",
        ),
    ),
    "cifar10": (
        Source(
            "cifar-10-python.tar.gz",
            "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        ),
        Source(
            "cifar10-jpeg.npz",
            note="CIFAR-10 comes from JPEG-compressed copies (cifar10-jpeg.npz): pixels differ slightly from the "
            "canonical ones",
        ),
    ),
    "imdb": (
        Source(
            "imdb.npz",
            "69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f",
            f"{_KERAS}/imdb.npz",
        ),
        Source(
            "imdb-half.npz",
            note="IMDb is the half set (imdb-half.npz), not the canonical 25,000 + 25,000 reviews: accuracies are not "
            "comparable with published ones",
        ),
    ),
    "nietzsche": (
        Source(
            "nietzsche.txt",
            "23cf69874ab69d3d256099ab530ea4be24d47d9675b673bcc67cbcd6298ec647",
            "https://s3.amazonaws.com/text-datasets/nietzsche.txt",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is here, with the digest it really has."""

    source: Source
    path: Path
    sha256: str

    @property
    def is_canonical(self) -> bool:
        return self.sha256 == self.source.sha256

    def words(self) -> str:
        """For people: the file and its digest."""
        return f"{self.source.file}, SHA-256 {self.sha256}"


def in_folder(dataset: str, folder: Path) -> Found:
    """The dataset's file in a folder that the user named. Raises UsageError, or DatasetError if it is not there.

    Whether its contents are what they should be is for the reader to say.
    """
    if not folder.is_dir():
        raise UsageError(f"--data-dir {folder} is not a folder", "name a folder that holds the dataset files")
    for source in SOURCES[dataset]:
        path = folder / source.file
        if path.is_file():
            return Found(source, path, file_digest(path))
    names = " or ".join(source.file for source in SOURCES[dataset])
    raise DatasetError(f"--data-dir {folder} has no {names}", "put it there, or leave --data-dir out to download it")


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal. Raises DatasetError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DatasetError(f"cannot read {path}: {error.strerror}", "check its permissions") from None


def wrong_digest(found: Found, why: str) -> DatasetError:
    """The error for a file that is not what it should be, with both digests."""
    return DatasetError(
        f"{found.path} {why}: its SHA-256 is {found.sha256}, expected {found.source.sha256}",
        f"replace it by {found.source.url}",
    )
