"""Folders for Unix sockets: of this user alone, in a place with a short path."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_LONGEST = 60
"""Bytes of a place's path: the path of a Unix socket has at most 107."""


def places() -> Iterator[Path]:
    """Where such folders are made."""
    usual = Path(tempfile.gettempdir())
    if len(os.fsencode(str(usual))) <= _LONGEST:
        yield usual
    yield Path("/tmp")  # noqa: S108


def new_folder(prefix: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=prefix, dir=next(places())))
