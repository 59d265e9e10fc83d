"""Images as one file: for machines without a registry, and to repeat a result years later.

A tar with two members: ``images.tar``, what ``docker save`` writes, and after it ``trainyard-images.json``, which names
each image with the digests of what it was made from, and the SHA-256 of ``images.tar``. An image's id is a digest of
its content and outlives saving and loading: it is the one that stands with every trial.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import controller
from controller.errors import HostError, UsageError
from controller.images.recipes import FLAVOUR_LABEL, LOCK_LABEL, RECIPE_LABEL, RUNNER_LABEL, SERVICE_LABEL
from controller.images.states import engine_errors
from controller.runtimes.engine import Engine
from controller.runtimes.engine_errors import translated

FORMAT, VERSION = "trainyard-images", 1
IMAGES, MANIFEST = "images.tar", "trainyard-images.json"
_CHUNK = 1 << 20
Written = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Entry:
    """One image: its name and id, and the digests that its labels hold."""

    reference: str
    identifier: str
    runner: str
    flavour: str
    lock: str
    recipe: str
    service: str


def entry(engine: Engine, reference: str) -> Entry:
    """What the engine has under that name. Raises HostError when it has none."""
    from docker.errors import ImageNotFound

    try:
        found: dict[str, Any] = engine.client.api.inspect_image(reference)
    except ImageNotFound as error:
        raise HostError(f"there is no image {reference}", "controller build makes it") from error
    except engine_errors() as error:
        raise translated(error, f"looking for {reference}") from error
    labels = (found.get("Config") or {}).get("Labels") or {}
    names = (RUNNER_LABEL, FLAVOUR_LABEL, LOCK_LABEL, RECIPE_LABEL, SERVICE_LABEL)
    return Entry(reference, str(found["Id"]), *(str(labels.get(name, "")) for name in names))


def save(engine: Engine, references: Sequence[str], target: Path, written: Written) -> list[Entry]:
    """Writes the images into ``target``, which appears whole or not at all; ``written`` gets the bytes so far. Raises
    HostError, UsageError."""
    entries = [entry(engine, reference) for reference in references]
    partial = target.with_name(target.name + ".partial")
    try:
        with partial.open("wb") as file:
            digest = _save(engine, references, file, written)
            manifest = {"format": FORMAT, "version": VERSION, "written_by": f"trainyard {controller.__version__}"}
            document = {**manifest, "sha256": digest, "images": [asdict(item) for item in entries]}
            _append(file, MANIFEST, json.dumps(document, indent=1).encode("utf-8"))
            file.write(b"\0" * 1024)
        partial.replace(target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return entries


def _save(engine: Engine, references: Sequence[str], file: IO[bytes], written: Written) -> str:
    """Streams the engine's archive into ``file`` as its first member, whose size is known only afterwards."""
    total, size = hashlib.sha256(), 0
    file.write(_header(IMAGES, 0))
    try:
        response = engine.client.api._get(
            engine.client.api._url("/images/get"), params={"names": list(references)}, stream=True
        )
        engine.client.api._raise_for_status(response)
        for chunk in response.iter_content(_CHUNK):
            total.update(chunk)
            size += file.write(chunk)
            written(size)
    except engine_errors() as error:
        raise translated(error, "saving images") from error
    file.write(b"\0" * (-size % tarfile.BLOCKSIZE))
    file.seek(0)
    file.write(_header(IMAGES, size))
    file.seek(0, io.SEEK_END)
    return total.hexdigest()


def _header(name: str, size: int) -> bytes:
    entry_ = tarfile.TarInfo(name)
    entry_.size = size
    return entry_.tobuf(tarfile.GNU_FORMAT)


def _append(file: IO[bytes], name: str, content: bytes) -> None:
    file.write(_header(name, len(content)) + content + b"\0" * (-len(content) % tarfile.BLOCKSIZE))


def read(source: Path) -> tuple[str, list[Entry]]:
    """The SHA-256 and the images that a file says it holds. Raises UsageError for a file that is none of ours, damaged,
    or of a newer version."""
    try:
        with tarfile.open(source) as archive:
            member = archive.extractfile(MANIFEST)
            document = json.load(member) if member else {}
        if document["format"] != FORMAT:
            raise ValueError("another format")
        if int(document["version"]) > VERSION:
            raise UsageError(f"{source} was written by a newer version of this tool", "update trainyard")
        return str(document["sha256"]), [Entry(**item) for item in document["images"]]
    except (OSError, tarfile.TarError, KeyError, ValueError, TypeError) as error:
        raise UsageError(f"{source} is no archive of images of this tool: {error}") from error


def load(engine: Engine, source: Path, sent: Written) -> list[Entry]:
    """Loads the images of a file into the engine and checks that each has the id that the file names. Raises
    UsageError when the file is damaged: nothing is loaded then."""
    digest, entries = read(source)
    with tarfile.open(source) as archive:
        if _digest(archive) != digest:
            raise UsageError(f"{source} is damaged: its content does not have SHA-256 {digest}")
        try:
            for _ in engine.client.api.load_image(_chunks(archive, sent)):
                pass
        except engine_errors() as error:
            raise translated(error, f"loading {source}") from error
    for item in entries:
        found = entry(engine, item.reference)
        if found.identifier != item.identifier:
            raise HostError(f"{item.reference} has become {found.identifier}, not {item.identifier}")
    return entries


def _digest(archive: tarfile.TarFile) -> str:
    total = hashlib.sha256()
    for chunk in _chunks(archive, lambda size: None):
        total.update(chunk)
    return total.hexdigest()


def _chunks(archive: tarfile.TarFile, sent: Written) -> Iterator[bytes]:
    file, size = archive.extractfile(IMAGES), 0
    if file is None:
        raise UsageError(f"{archive.name!s} has no images in it")
    while chunk := file.read(_CHUNK):
        yield chunk
        size += len(chunk)
        sent(size)
