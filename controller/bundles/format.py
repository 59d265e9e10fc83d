"""A bundle as a file: a zip of three members, checked before anything of it is believed. See docs/bundles.md.

Nothing is ever extracted to a path. Sizes are limited before anything is decompressed.
"""

import errno
import hashlib
import json
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import controller
from controller.bundles import records
from controller.bundles.records import BundleError, Saved, shorten
from controller.errors import ControllerError, UsageError
from controller.results import Campaign, Trial

FORMAT = "trainyard-bundle"
VERSION = 1
SUFFIX = ".trainyard"
MANIFEST, CAMPAIGNS, TRIALS = "manifest.json", "campaigns.jsonl", "trials.jsonl"
LIMITS = {MANIFEST: 64 * 2**10, CAMPAIGNS: 64 * 2**20, TRIALS: 512 * 2**20}
"""Bytes of each member at most, before compression."""
FILE_LIMIT = 512 * 2**20
_CHUNK = 2**20
_LINE_LIMIT = 64 * 2**20
_DIRECTORY_LIMIT, _MEMBER_LIMIT = 64 * 2**10, 64
_BEGIN, _END, _LOCATOR = b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x07"
_END_SIZE, _LOCATOR_SIZE = 22, 20
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError,
    struct.error,
)  # fmt: skip
_AGAIN = "save or copy it again"


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a file holds. ``controller_version`` wrote it."""

    saved: tuple[Saved, ...]
    controller_version: str


# --- writing -----------------------------------------------------------------------------------------------


def check_writable(path: Path) -> None:
    """Before hours of training: whether a file can be made there. Raises UsageError."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder", f"give a file, such as {path / ('results' + SUFFIX)}")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"{path} cannot be written: no folder {path.parent} that may be written", "give another file")


def write(path: Path, saved: Sequence[Saved]) -> None:
    """Writes campaigns to a file, in place of what was there; all of it or nothing. Raises UsageError where it cannot
    be written, ControllerError for more than a bundle may hold."""
    check_writable(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                _write(file, saved)
            os.chmod(name, 0o666 & ~_umask())  # noqa: PTH101 - a file like any other, not a secret
            os.replace(name, path)  # noqa: PTH105 - a name, not a Path
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", "give another file") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write(file: BinaryIO, saved: Sequence[Saved]) -> None:
    lines = {
        CAMPAIGNS: (records.campaign_line(each.campaign) for each in saved),
        TRIALS: (records.trial_line(trial) for each in saved for trial in each.trials),
    }
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        members = {name: _write_member(archive, name, texts) for name, texts in lines.items()}
        manifest = {
            "format": FORMAT, "version": VERSION, "controller_version": controller.__version__, "members": members,
        }  # fmt: skip
        _write_member(archive, MANIFEST, [json.dumps(manifest, indent=2) + "\n"])


def _write_member(archive: zipfile.ZipFile, name: str, texts: Iterable[str]) -> dict[str, Any]:
    """Its size and SHA-256. No time and no system is in it: the same campaigns give the same file."""
    info = zipfile.ZipInfo(name)
    info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
    digest, size = hashlib.sha256(), 0
    with archive.open(info, "w") as member:
        for text in texts:
            line = text.encode()
            digest.update(line)
            size += len(line)
            if size > LIMITS[name] or len(line) > _LINE_LIMIT:
                raise ControllerError(f"{name} would be too large for a bundle", "save fewer campaigns in one file")
            member.write(line)
    return {"bytes": size, "sha256": digest.hexdigest()}


# --- reading -----------------------------------------------------------------------------------------------


def read(path: Path) -> Bundle:
    """All campaigns of a file. Raises UsageError for none that can be read, BundleError for one that is damaged, made
    by a newer version, or not a bundle at all."""
    try:
        with path.open("rb") as file:
            _check_ends(path, file)
            with _damage(path), zipfile.ZipFile(file) as archive:
                return _read(path, archive)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", "give a bundle file") from error


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Whatever the zip's reader stumbles over is damage of the file."""
    try:
        yield
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # the disk's fault; a place before the file's beginning is the file's
        text = shorten(" ".join(str(error).split())) or type(error).__name__
        raise BundleError(f"{path} is damaged: {text}", _AGAIN) from error


def _check_ends(path: Path, file: BinaryIO) -> None:
    """The zip's first and last bytes, by which its reader would take memory for as many members as they say."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    begin = file.read(len(_BEGIN))
    if begin != _BEGIN:
        raise BundleError(f"{path} is not a bundle of Trainyard: it is {'no zip' if size else 'empty'}")
    if size > FILE_LIMIT:
        raise BundleError(f"{path} has {size:,} bytes; a bundle has at most {FILE_LIMIT:,}")
    file.seek(max(0, size - _END_SIZE - _LOCATOR_SIZE))
    tail = file.read()
    end = tail[-_END_SIZE:]
    if not end.startswith(_END) or len(tail) < _END_SIZE:
        raise BundleError(f"{path} is damaged: it was cut short, or something was added to its end", _AGAIN)
    count, directory = struct.unpack("<10xHI6x", end)
    if tail.startswith(_LOCATOR) or count > _MEMBER_LIMIT or directory > _DIRECTORY_LIMIT:
        raise BundleError(f"{path} is not a bundle of Trainyard: it says that it has {count:,} members")


def _read(path: Path, archive: zipfile.ZipFile) -> Bundle:
    infos = _members(path, archive)
    manifest = _manifest(path, _content(archive, infos[MANIFEST]))
    if strange := sorted(infos.keys() - LIMITS.keys()):
        raise BundleError(f"{path} holds what format {VERSION} has not: {shorten(strange[0])!r}", _AGAIN)
    if missing := sorted(LIMITS.keys() - infos.keys()):
        raise BundleError(f"{path} is damaged: it has no {missing[0]}", _AGAIN)
    for name, entry in manifest["members"].items():
        _check_digest(path, archive, infos[name], entry)
    campaigns = _records(path, archive, infos[CAMPAIGNS], records.read_campaign)
    trials = _records(path, archive, infos[TRIALS], records.read_trial)
    return Bundle(_sorted(path, campaigns, trials), manifest["controller_version"])


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """By name. Raises BundleError unless the zip has a manifest, and nothing twice or larger than allowed."""
    infos = archive.infolist()
    names = [info.filename for info in infos]
    if MANIFEST not in names:
        raise BundleError(f"{path} is not a bundle of Trainyard: it has no {MANIFEST}")
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise BundleError(f"{path} is damaged: {shorten(twice)} is in it twice", _AGAIN)
    for info in infos:
        limit = LIMITS.get(info.filename, 0)
        if limit and info.file_size > limit:
            raise BundleError(f"{path}: {info.filename} would have {info.file_size:,} bytes, more than {limit:,}")
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BundleError(f"{path}: {shorten(info.filename)} is encrypted or compressed in another way", _AGAIN)
    return {info.filename: info for info in infos}


def _manifest(path: Path, content: bytes) -> dict[str, Any]:
    """Raises BundleError. The version comes first: what a newer one has beside it is not this version's to judge."""
    try:
        found = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is damaged: {MANIFEST} is not JSON", _AGAIN) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BundleError(f"{path} is not a bundle of Trainyard: {MANIFEST} does not say {FORMAT}")
    version = found.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BundleError(f"{path} is damaged: its version is no number", _AGAIN)
    if version > VERSION:
        number = shorten(str(version)) if version.bit_length() < 64 else "far above"
        raise BundleError(f"{path} was made by a newer Trainyard (format {number})", "upgrade trainyard")
    if found.keys() != {"format", "version", "controller_version", "members"} or not _is_plain(found):
        raise BundleError(f"{path} is damaged: {MANIFEST} has not the keys of format {VERSION}", _AGAIN)
    return found


def _is_plain(found: dict[str, Any]) -> bool:
    members, writer = found["members"], found["controller_version"]
    return (
        isinstance(writer, str)
        and isinstance(members, dict)
        and members.keys() == {CAMPAIGNS, TRIALS}
        and all(isinstance(entry, dict) and entry.keys() == {"bytes", "sha256"} for entry in members.values())
    )


def _check_digest(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, entry: dict[str, Any]) -> None:
    digest, size = hashlib.sha256(), 0
    with archive.open(info) as member:
        while chunk := member.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    if size != entry["bytes"] or digest.hexdigest() != entry["sha256"]:
        raise BundleError(f"{path} is damaged: {info.filename} is not what {MANIFEST} says (SHA-256)", _AGAIN)


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as member:
        return member.read(LIMITS[info.filename])


def _records(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, read_line: Any) -> list[Any]:
    found: list[Any] = []
    with archive.open(info) as member:
        while line := member.readline(_LINE_LIMIT + 1):
            number = len(found) + 1
            if not line.endswith(b"\n"):
                raise BundleError(f"{path}: line {number} of {info.filename} has no end, or is too long", _AGAIN)
            try:
                found.append(read_line(line))
            except ValueError as error:
                raise BundleError(f"{path}: line {number} of {info.filename}: {error}", _AGAIN) from error
    return found


def _sorted(path: Path, campaigns: Sequence[Campaign], trials: Sequence[Trial]) -> tuple[Saved, ...]:
    """Each campaign with its trials. Raises BundleError where the two do not fit."""
    by_campaign: dict[str, list[Trial]] = {campaign.id: [] for campaign in campaigns}
    if not campaigns or len(by_campaign) != len(campaigns):
        raise BundleError(f"{path}: it has no campaign, or one twice", _AGAIN)
    if len({trial.id for trial in trials}) != len(trials):
        raise BundleError(f"{path}: two trials have the same id", _AGAIN)
    for trial in trials:
        if trial.campaign not in by_campaign:
            raise BundleError(f"{path}: trial {trial.id} is of a campaign that is not in the file", _AGAIN)
        by_campaign[trial.campaign].append(trial)
    for campaign in campaigns:
        try:
            records.belongs(by_campaign[campaign.id], campaign)
        except ValueError as error:
            raise BundleError(f"{path}: campaign {campaign.id}: {error}", _AGAIN) from error
    return tuple(Saved(campaign, tuple(by_campaign[campaign.id])) for campaign in campaigns)
