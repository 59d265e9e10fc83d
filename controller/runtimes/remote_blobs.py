"""Datasets on an engine that cannot see this machine's files: in a volume there, filled once through ``PutBlob``."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainyard.v1 import runner_pb2, runner_pb2_grpc

from controller.errors import RunnerError
from controller.images.recipes import LABEL
from controller.images.states import engine_errors
from controller.runtimes.base import StartOptions
from controller.runtimes.engine import Engine
from controller.runtimes.engine_errors import translated
from controller.runtimes.health import CHANNEL_OPTIONS

if TYPE_CHECKING:
    from controller.runtimes.docker import RunningContainer

VOLUME = "trainyard-blobs"
VOLUME_LABELS = {LABEL + "role": "blobs"}
_CHUNK = 1 << 20
_SECONDS = 3600.0
Open = Callable[[str, bool], "RunningContainer"]


def bring(engine: Engine, options: StartOptions, start: Open) -> str:
    """The name of a volume that holds ``options.arrays``. ``start`` starts a container on a volume, read-only or not:
    arrays are sent to one that ends before any trial, so that a trial finds the same as on a local engine. Raises
    RunnerError."""
    try:
        engine.client.volumes.create(VOLUME, labels=VOLUME_LABELS)
    except engine_errors() as error:
        raise RunnerError(translated(error, "making a volume for datasets").line(), reason="ENGINE_LOST") from error
    known = _KNOWN.setdefault(str(engine.info.get("ID")), set())
    missing = [digest for digest in options.arrays if digest not in known]
    if missing:
        with start(VOLUME, False) as running:
            _send(running.target, options.blobs, missing)
        known.update(missing)
    return VOLUME


_KNOWN: dict[str, set[str]] = {}
"""What each engine was seen to have, by this process."""


def _send(target: str, folder: Path, digests: list[str]) -> None:
    import grpc

    with grpc.insecure_channel(target, options=CHANNEL_OPTIONS) as channel:
        stub = runner_pb2_grpc.RunnerStub(channel)
        try:
            for digest in digests:
                if not stub.HasBlob(runner_pb2.HasBlobRequest(sha256=digest), timeout=60.0).present:
                    stub.PutBlob(_messages(folder / f"{digest}.npy", digest), timeout=_SECONDS)
        except grpc.RpcError as error:
            message = f"a dataset could not be sent: {error.details()}"
            raise RunnerError(message, "check the connection to the engine", "BLOB_NOT_SENT") from error


def _messages(path: Path, digest: str) -> Iterator[Any]:
    with path.open("rb") as file:
        first = {"sha256": digest, "size_bytes": path.stat().st_size}
        while chunk := file.read(_CHUNK):
            yield runner_pb2.PutBlobRequest(chunk=chunk, **first)
            first = {}
