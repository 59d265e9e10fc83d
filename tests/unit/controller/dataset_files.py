"""Small files in the layouts of the public datasets, and a loopback server for them."""

import contextlib
import hashlib
import http.server
import io
import pickle
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from controller.datasets import pictures, sources

REAL = Path(__file__).resolve().parents[4] / "shared" / "data"


def real(file: str) -> Path:
    """A real file where this checkout has them beside it, else skips the test."""
    if not (REAL / file).is_file():
        pytest.skip(f"no {file} in ../shared/data: this test needs the real file")
    return REAL


def pin(monkeypatch: pytest.MonkeyPatch, dataset: str, path: Path, url: str = "") -> None:
    """Makes a made-up file the canonical one."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "0" * 64
    first, *others = sources.SOURCES[dataset]
    monkeypatch.setitem(sources.SOURCES, dataset, (replace(first, sha256=digest, url=url), *others))


def mnist(folder: Path, monkeypatch: pytest.MonkeyPatch, samples: int = 40) -> dict[str, np.ndarray]:
    random = np.random.RandomState(1)
    arrays = {
        "x_train": random.randint(0, 256, (samples, 28, 28)).astype(np.uint8),
        "y_train": (np.arange(samples) % 10).astype(np.uint8),
        "x_test": random.randint(0, 256, (10, 28, 28)).astype(np.uint8),
        "y_test": np.arange(10).astype(np.uint8),
    }
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "mnist.npz", **arrays)
    digests = {role: pictures._idx_digest(array) for role, array in arrays.items()}
    monkeypatch.setattr(pictures, "MNIST_IDX", digests)
    return arrays


def cifar10(folder: Path) -> None:
    """The archive with batches of two pictures: one all red, one all blue, each plane end to end."""
    rows = np.zeros((2, 3, 32, 32), np.uint8)
    rows[0, 0], rows[1, 2] = 255, 51
    batch = pickle.dumps({b"data": rows.reshape(2, 3072), b"labels": [3, 7]}, protocol=2)
    with tarfile.open(folder / "cifar-10-python.tar.gz", "w:gz") as archive:
        for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
            entry = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            entry.size = len(batch)
            archive.addfile(entry, io.BytesIO(batch))


def cifar10_jpeg(folder: Path) -> None:
    """Three pictures of one colour, which JPEG keeps; the second is the test part."""
    image = pytest.importorskip("PIL.Image")
    files = []
    for grey in (0, 128, 255):
        buffer = io.BytesIO()
        image.new("RGB", (32, 32), (grey, grey, grey)).save(buffer, "JPEG", quality=95)
        files.append(np.frombuffer(buffer.getvalue(), np.uint8))
    np.savez(
        folder / "cifar10-jpeg.npz",
        jpeg=np.concatenate(files),
        offset=np.cumsum([0, *map(len, files)]),
        label=np.array([1, 2, 3], np.uint8),
        split=np.array([0, 1, 0], np.uint8),
    )


def imdb_half(folder: Path, train: list[list[int]], test: list[list[int]]) -> None:
    arrays = {}
    for part, rows in (("train", train), ("test", test)):
        arrays[f"{part}_words"] = np.array([word for row in rows for word in row], np.int32)
        arrays[f"{part}_offset"] = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        arrays[f"y_{part}"] = (np.arange(len(rows)) % 2).astype(np.uint8)
    np.savez(folder / "imdb-half.npz", **arrays)


def imdb(folder: Path, train: list[list[int]], test: list[list[int]]) -> None:
    arrays = {}
    for part, rows in (("train", train), ("test", test)):
        arrays[f"x_{part}"] = np.empty(len(rows), object)
        arrays[f"x_{part}"][:] = rows
        arrays[f"y_{part}"] = np.arange(len(rows)) % 2
    np.savez(folder / "imdb.npz", **arrays)


@dataclass
class Server:
    """What a loopback server answered with. ``cut`` sends only so many bytes of each answer, then closes."""

    url: str
    content: bytes
    cut: int | None = None
    ranges: bool = True
    status: int = 200
    requests: list[str] = field(default_factory=list)  # the Range headers


@contextlib.contextmanager
def serving(content: bytes) -> Iterator[Server]:
    """A server on loopback that has one file."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range", "")
            state.requests.append(wanted)
            if state.status != 200:
                self.send_error(state.status)
                return
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and state.ranges else 0
            if start >= len(state.content) > 0 and start:
                self.send_error(416)
                return
            body = state.content[start:]
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(state.content) - 1}/{len(state.content)}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: state.cut])

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = Server(f"http://127.0.0.1:{server.server_port}/file", content)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
