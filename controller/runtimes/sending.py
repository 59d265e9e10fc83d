"""Brings dataset arrays to a host: once, by SHA-256, in chunks, from where an earlier try was cut off."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
from trainyard.v1 import host_pb2, host_pb2_grpc

from controller import interrupts
from controller.errors import RunnerError
from controller.runtimes.links import SHORT_SECONDS, Link

CHUNK_BYTES = 1 << 20
SEND_SECONDS = 6 * 3600.0
# A link that is cut may come back: sending goes on where it stopped, as long as it gets on at all.
# A host notices after 15 s that the link was cut.
TRIES, PAUSE_SECONDS = 8, 3.0
_PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.ABORTED)


class Sender:
    """Of one host. It remembers what the host was seen to have."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._known: set[str] = set()
        self._is_lost = False

    def send(self, folder: Path, digests: Sequence[str]) -> None:
        """Sends those that the host lacks. Raises RunnerError."""
        for digest in dict.fromkeys(digests):
            if digest not in self._known:
                self._send(folder / f"{digest}.npy", digest)
                self._known.add(digest)

    def _send(self, path: Path, digest: str) -> None:
        tries, reached = 0, -1
        while True:
            interrupts.check()
            tries += 1
            try:
                with self._link.channel() as channel:
                    stub = host_pb2_grpc.HostStub(channel)
                    state = stub.BlobState(host_pb2.BlobStateRequest(sha256=digest), timeout=SHORT_SECONDS)
                    if state.received_bytes > reached:  # it got on since the last time
                        tries, reached = 1, state.received_bytes
                    if not state.present:
                        stub.SendBlob(_messages(path, digest, state.received_bytes), timeout=SEND_SECONDS)
                    self._is_lost = False
                    return
            except grpc.RpcError as error:
                # A host that did not come back the last time is not waited for again.
                if error.code() not in _PASSING or tries >= (1 if self._is_lost else TRIES):
                    self._is_lost = True
                    found = self._link.translated(error, "sending a dataset")
                    raise RunnerError(found.line(), reason="BLOB_NOT_SENT") from error
                time.sleep(PAUSE_SECONDS)


def _messages(path: Path, digest: str, offset: int) -> Iterator[Any]:
    first = {"sha256": digest, "size_bytes": path.stat().st_size, "offset": offset}
    with path.open("rb") as file:
        file.seek(offset)
        while chunk := file.read(CHUNK_BYTES):
            yield host_pb2.SendBlobRequest(chunk=chunk, **first)
            first = {}
    if first:  # nothing was left but to check it
        yield host_pb2.SendBlobRequest(**first)
