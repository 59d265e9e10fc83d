"""Arrays that controllers send, by SHA-256; one that was cut off waits for its rest.

A digest is 64 hexadecimal digits and the only name that comes from the wire.
"""

import hashlib
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import grpc

from controller.serving.limits import Limits, Refusal, invalid, too_large

_SHA256 = re.compile(r"[0-9a-f]{64}")
_CHUNK_BYTES = 1 << 20
_PARTIAL = "partial-"


class BlobStore:
    """The folder of arrays, which this machine's own comparisons use too."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder = folder
        self._limits = limits
        self._receiving: set[str] = set()
        self._lock = threading.Lock()

    def path(self, digest: str) -> Path:
        """Where the array lies, or would. Raises Refusal for what is no digest."""
        if not _SHA256.fullmatch(digest):
            raise invalid("sha256", "sha256 must be 64 lower case hexadecimal digits")
        return self.folder / f"{digest}.npy"

    def has(self, digest: str) -> bool:
        """Whether all of it is here. Raises Refusal."""
        return self.path(digest).is_file()

    def received(self, digest: str) -> int:
        """How many of its first bytes are here. Raises Refusal."""
        for path in (self.path(digest), self._partial(digest)):
            if path.is_file():
                return path.stat().st_size
        return 0

    def receive(self, messages: Iterator[Any]) -> str:
        """Takes an array, or the rest of one, from SendBlobRequest messages, and returns its digest. What has come
        stays when the call breaks off. Raises Refusal."""
        first = next(messages, None)
        if first is None:
            raise invalid("sha256", "the first message must name the array")
        digest: str = first.sha256
        target = self.path(digest)
        if target.is_file():
            return digest
        self._check_size(first.size_bytes)
        with self._lock:
            if digest in self._receiving:
                # The call that was cut off may not have been noticed yet: it is worth another try.
                raise Refusal(grpc.StatusCode.ABORTED, "RECEIVING", "this array is being received already")
            self._receiving.add(digest)
        try:
            self._write(first, _chunks(first, messages))
            self._publish(digest, target, first.size_bytes)
        finally:
            with self._lock:
                self._receiving.discard(digest)
        return digest

    def _partial(self, digest: str) -> Path:
        return self.folder / f"{_PARTIAL}{digest}"

    def _check_size(self, size: int) -> None:
        if not 0 < size <= self._limits.blob_bytes:
            limit = self._limits.blob_bytes
            raise too_large("size_bytes", f"an array may have 1 to {limit:,} bytes on this host, not {size:,}")
        used = sum(path.stat().st_size for path in self.folder.glob("*") if path.is_file())
        if used + size > self._limits.store_bytes:
            limit = self._limits.store_bytes
            raise too_large("store", f"{used:,} bytes of arrays are here; {size:,} more are over the limit {limit:,}")

    def _write(self, first: Any, chunks: Iterable[bytes]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._partial(first.sha256)
        here = path.stat().st_size if path.is_file() else 0
        if not 0 <= first.offset <= here:
            raise invalid("offset", f"{here:,} bytes are here: what is sent cannot begin at {first.offset:,}")
        with path.open("r+b" if path.is_file() else "wb") as file:
            file.truncate(first.offset)
            file.seek(first.offset)
            self._append(file, first, chunks)

    def _append(self, file: BinaryIO, first: Any, chunks: Iterable[bytes]) -> None:
        received = first.offset
        for chunk in chunks:
            received += len(chunk)
            if len(chunk) > _CHUNK_BYTES or received > first.size_bytes:
                raise invalid("chunk", f"a chunk has at most {_CHUNK_BYTES:,} bytes, all {first.size_bytes:,}")
            file.write(chunk)
        if received != first.size_bytes:
            raise invalid("size_bytes", f"{first.size_bytes:,} bytes were announced, {received:,} are here")

    def _publish(self, digest: str, target: Path, size: int) -> None:
        path = self._partial(digest)
        total = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                total.update(chunk)
        if total.hexdigest() != digest or path.stat().st_size != size:
            path.unlink()
            raise invalid("sha256", f"the bytes received have SHA-256 {total.hexdigest()}")
        path.replace(target)


def _chunks(first: Any, others: Iterator[Any]) -> Iterator[bytes]:
    yield first.chunk
    for message in others:
        yield message.chunk
