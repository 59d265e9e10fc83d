"""From a workload to the arrays that every runner gets: one preprocessing, done once, kept by digest."""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainyard import graph
from trainyard.v1.workload_pb2 import Dataset, Workload

from controller.datasets import blobs, pictures, synthetic, text
from controller.datasets.download import UnreachableError, download
from controller.datasets.sources import SOURCES, Found, file_digest, in_folder
from controller.errors import DatasetError, UsageError
from controller.events import DataProgress, Note, Observer
from controller.runtimes.locks import FileLock

# Raised whenever the same source file would give other arrays.
PREPARATION = 1

TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "imdb": "IMDb", "nietzsche": "the Nietzsche text"}
_WINDOWS_NOTE = "Nietzsche has no held-out part: loss and accuracy are of up to 10,000 of the trained windows"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a campaign trains on.

    workload  as asked, or with what only the data could tell: an embedding's size, or another dataset (see ``note``)
    arrays    role ("x_train", "y_train", "x_test", "y_test") -> SHA-256 of ``<blobs>/<SHA-256>.npy``
    note      what the table must say about the data, or None; the observer is not told of it
    source    where the data came from, in words
    """

    workload: Workload
    arrays: dict[str, str]
    blobs: Path
    note: str | None
    source: str


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line of the index: arrays that were prepared before. ``tokens`` is 0 where there are no words."""

    arrays: dict[str, blobs.Blob]
    samples: int
    tokens: int


def prepare(workload: Workload, *, data_dir: Path | None, cache: Path, observer: Observer) -> Prepared:
    """Finds, downloads or makes up the workload's data, and prepares its arrays under ``cache``.

    A file in ``data_dir`` comes first and must be there and sound; without ``data_dir`` the cache, then the
    internet, and where neither has it synthetic data of the same shapes, with a note. Raises DatasetError,
    and UsageError where workload and data contradict each other.
    """
    kind = workload.dataset.WhichOneof("kind")
    waiting = DataProgress(kind, "waiting", "another controller prepares it")
    try:
        with FileLock(cache / f"{kind}.lock", lambda: observer(waiting)):
            return _prepare(workload, data_dir, cache, observer)
    except OSError as error:
        observer(DataProgress(kind, "failed"))
        raise DatasetError(
            f"cannot write to {error.filename or cache}: {error.strerror or error}",
            "free space, or choose another cache with TRAINYARD_CACHE",
        ) from None
    except (DatasetError, UsageError):
        observer(DataProgress(kind, "failed"))
        raise


def _prepare(workload: Workload, data_dir: Path | None, cache: Path, observer: Observer) -> Prepared:
    kind = workload.dataset.WhichOneof("kind")
    if kind == "synthetic":
        return _from_nothing(workload, cache, observer, None)
    try:
        found = in_folder(kind, data_dir) if data_dir else _fetched(kind, cache / "sources", observer)
    except UnreachableError as error:
        note = f"synthetic data in place of {TITLES[kind]} ({error}); give the real file with --data-dir"
        return _from_nothing(synthetic.instead_of(workload), cache, observer, note)
    return _from_file(workload, found, cache, observer)


def _from_nothing(workload: Workload, cache: Path, observer: Observer, note: str | None) -> Prepared:
    options = workload.dataset.synthetic
    entry = _arrays(workload.dataset, "", cache, observer, lambda: (synthetic.blocks(options), options.vocabulary))
    return _prepared(workload, entry, cache, note, "made up from the workload's own numbers")


def _from_file(workload: Workload, found: Found, cache: Path, observer: Observer) -> Prepared:
    entry = _arrays(workload.dataset, found.sha256, cache, observer, lambda: _read(workload.dataset, found))
    notes = [found.source.note] if found.source.note else []
    if workload.dataset.WhichOneof("kind") == "nietzsche":
        notes.append(_WINDOWS_NOTE)
    return _prepared(_sized(workload, entry.tokens), entry, cache, "; ".join(notes) or None, found.words())


def _read(dataset: Dataset, found: Found) -> tuple[dict[str, blobs.Blocks], int]:
    """The arrays of a file, and the number of different tokens (0: no words)."""
    file = found.source.file
    if file == "nietzsche.txt":
        options = dataset.nietzsche
        return text.window_blocks(text.read_nietzsche(found), options.maxlen, options.step), 0
    if file in ("imdb.npz", "imdb-half.npz"):
        reviews = text.read_imdb(found) if file == "imdb.npz" else text.read_imdb_half(found)
        options = dataset.imdb
        return text.review_blocks(reviews, options.vocabulary, options.maxlen, options.bigrams)
    readers = {
        "mnist.npz": pictures.read_mnist,
        "cifar-10-python.tar.gz": pictures.read_cifar10,
        "cifar10-jpeg.npz": pictures.read_cifar10_jpeg,
    }
    return readers[file](found).blocks(), 0


def _prepared(workload: Workload, entry: _Entry, cache: Path, note: str | None, source: str) -> Prepared:
    try:
        graph.parse(workload)
        graph.step_counts(workload.schedule, entry.samples)
    except graph.WorkloadError as error:
        less = "batch size" if error.field == "schedule.batch_size" else "number"
        raise UsageError(f"workload {workload.name}: {error}", f"give a smaller {less}") from None
    arrays = {role: blob.sha256 for role, blob in entry.arrays.items()}
    return Prepared(workload, arrays, cache / "blobs", note, source)


def _sized(workload: Workload, tokens: int) -> Workload:
    """With bigrams: a copy whose embedding holds every token. How many there are, only the data can tell."""
    if workload.dataset.WhichOneof("kind") != "imdb" or not workload.dataset.imdb.bigrams:
        return workload
    changed = Workload()
    changed.CopyFrom(workload)
    for layer in changed.layers:
        if layer.WhichOneof("op") != "embedding":
            continue
        # The words alone can never hold a bigram, so this number means "as many as the data has".
        if layer.embedding.vocabulary == workload.dataset.imdb.vocabulary:
            layer.embedding.vocabulary = tokens
        elif layer.embedding.vocabulary < tokens:
            raise UsageError(
                f"layer {layer.name}: a vocabulary of {layer.embedding.vocabulary} cannot hold the {tokens} words and "
                "bigrams of the data",
                'write vocabulary = "dataset"',
            )
    return changed


# --- sources -----------------------------------------------------------------------------------------------


def _fetched(kind: str, folder: Path, observer: Observer) -> Found:
    """The canonical file from the cache, else from the internet. Raises UnreachableError, DatasetError."""
    source = SOURCES[kind][0]
    path = folder / source.file
    if path.is_file():
        found = file_digest(path)
        if found == source.sha256:
            return Found(source, path, found)
        observer(Note(f"the cached {source.file} is damaged (SHA-256 {found}) and is downloaded again"))
        path.unlink()
    report = _reporter(observer, kind, f"downloading {source.file}")
    report(None)
    return Found(source, download(source, folder, report), source.sha256)


def _reporter(observer: Observer, kind: str, stage: str) -> Callable[[float | None], None]:
    """Tells the observer of a stage's progress, at most once a percent."""
    last = [-1]

    def report(fraction: float | None) -> None:
        percent = -1 if fraction is None else int(100 * fraction)
        if fraction is None or percent != last[0]:
            last[0] = percent
            observer(DataProgress(kind, "running", stage, fraction))

    return report


# --- the index of prepared arrays --------------------------------------------------------------------------


def _arrays(
    dataset: Dataset,
    source_digest: str,
    cache: Path,
    observer: Observer,
    make: Callable[[], tuple[dict[str, blobs.Blocks], int]],
) -> _Entry:
    """Arrays prepared before from the same source for the same options, or made now."""
    kind = dataset.WhichOneof("kind")
    path = cache / "index" / f"{_key(dataset, source_digest)}.json"
    entry = _read_entry(path, cache / "blobs")
    if entry is not None:
        observer(DataProgress(kind, "ready"))
        return entry
    observer(DataProgress(kind, "running", "reading"))
    made, tokens = make()
    written: dict[str, blobs.Blob] = {}
    for role, array in made.items():
        written[role] = blobs.write(cache / "blobs", array, _reporter(observer, kind, f"preparing {role}"))
    entry = _Entry(written, made["x_train"].shape[0], tokens)
    _write_entry(path, entry)
    observer(DataProgress(kind, "done"))
    return entry


def _key(dataset: Dataset, source_digest: str) -> str:
    """What the arrays depend on. Augmentation is the runners' work, so it is not in it."""
    plain = Dataset()
    plain.CopyFrom(dataset)
    if plain.WhichOneof("kind") == "cifar10":
        plain.cifar10.augment = "none"
    message = plain.SerializeToString(deterministic=True)
    return hashlib.sha256(f"{PREPARATION} {source_digest} {message.hex()}".encode()).hexdigest()


def _read_entry(path: Path, folder: Path) -> _Entry | None:
    """An entry whose arrays are all still there, by size; runners check the digests before they train."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        arrays = {role: blobs.Blob(blob["sha256"], blob["size_bytes"]) for role, blob in data["arrays"].items()}
        entry = _Entry(arrays, data["samples"], data["tokens"])
        for blob in arrays.values():
            if blobs.path(folder, blob.sha256).stat().st_size != blob.size_bytes:
                return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return entry


def _write_entry(path: Path, entry: _Entry) -> None:
    data = {
        "arrays": {r: {"sha256": b.sha256, "size_bytes": b.size_bytes} for r, b in entry.arrays.items()},
        "samples": entry.samples,
        "tokens": entry.tokens,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix="writing-", dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(data, file)
    Path(temporary).replace(path)
