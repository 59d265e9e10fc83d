"""Files that only their owner may read, written whole or not at all."""

import contextlib
import os
import secrets
import stat
from pathlib import Path

from controller.errors import HostError, UsageError

_MOST_BYTES = 4 * 2**20


def write_new(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Writes a file that must not exist. Raises UsageError if it does, HostError if it cannot be written."""
    try:
        _write(path, data, mode)
    except FileExistsError:
        raise UsageError(f"{path} exists already", "it is not overwritten") from None
    except OSError as error:
        raise _unwritten(path, error) from error


def replace(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Writes or replaces a file in one step, so that a reader finds the old or the new one, whole. Raises HostError."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _write(beside, data, mode)
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise _unwritten(path, error) from error


def private_folder(path: Path) -> None:
    """Makes a folder that is its owner's alone, with its parents; one that exists stays as it is. Raises HostError."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _unwritten(path, error) from error


def read(path: Path) -> bytes:
    """A file's bytes. Raises UsageError where it is absent, unreadable, or far too large to be a certificate."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path} is too large to hold certificates")
    return data


def is_open_to_others(path: Path) -> bool:
    """Whether other users of this machine may read the file. Windows has no such bits: there it is always False."""
    if os.name == "nt":
        return False
    try:
        return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    except OSError:
        return False


def _write(path: Path, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:  # a full disk: no half of a key stays behind
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def _unwritten(path: Path, error: OSError) -> HostError:
    return HostError(f"cannot write {path}: {error.strerror}")
