"""Downloads one file: resumed where it was cut, checked by SHA-256, given up soon where there is no internet."""

import http.client
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from controller import __version__
from controller.datasets.sources import Source, file_digest
from controller.errors import DatasetError

OPEN_SECONDS = 5.0  # until an answer begins: name resolution, every address, TLS and redirects together
READ_SECONDS = 20.0  # a transfer that stalls for so long is cut, and resumed
ATTEMPTS = 4
_CHUNK = 1 << 18

# fraction done, or None where the server does not say how much there is
Report = Callable[[float | None], None]


class UnreachableError(Exception):
    """The file cannot be had now; the text says why. Not an error of the controller: there may be a fallback."""


class _CutError(Exception):
    """The transfer ended early; what came is kept."""


def download(source: Source, folder: Path, report: Report) -> Path:
    """Brings ``source`` into ``folder`` and returns its path.

    Raises UnreachableError without internet, DatasetError if what comes is not the file that the digest names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target, part = folder / source.file, folder / f"{source.file}.part"
    reason = ""
    for _ in range(ATTEMPTS):
        resumed = part.exists()
        try:
            _transfer(source.url, part, report)
        except _CutError as error:
            reason = str(error)
            continue
        found = file_digest(part)
        if found == source.sha256:
            return part.replace(target)
        part.unlink()
        if not resumed:
            raise DatasetError(
                f"the download of {source.url} has SHA-256 {found}, expected {source.sha256}",
                "something between here and the server changes it; bring the file and use --data-dir",
            )
    raise UnreachableError(f"{source.url}: {reason or 'what was there from an earlier download does not fit'}")


def _transfer(url: str, part: Path, report: Report) -> None:
    """One request; appends to ``part`` where the server agrees to go on from there."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": f"trainyard/{__version__}"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        response = _open(urllib.request.Request(url, headers=headers))  # noqa: S310 - addresses are ours
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            return  # all of it is here already
        raise UnreachableError(f"{url}: HTTP {error.code} {error.reason}") from None
    with response:
        goes_on = response.status == http.client.PARTIAL_CONTENT and _begins_at(response, start)
        if not goes_on:
            start = 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        with part.open("ab" if goes_on else "wb") as file:
            _copy(response, file, start, total, report)


def _begins_at(response: http.client.HTTPResponse, start: int) -> bool:
    return (response.headers.get("Content-Range") or "").startswith(f"bytes {start}-")


def _copy(response: http.client.HTTPResponse, file: BinaryIO, received: int, total: int | None, report: Report) -> None:
    """Writes the body. Raises _CutError if it ends before ``total``."""
    try:
        while chunk := response.read(_CHUNK):
            received += file.write(chunk)
            report(received / total if total else None)
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(f"the connection broke after {received} bytes: {error or type(error).__name__}") from None
    if total is not None and received < total:
        raise _CutError(f"the connection ended after {received} of {total} bytes")


def _open(request: urllib.request.Request) -> http.client.HTTPResponse:
    """Opens with one deadline for everything that comes before the answer.

    A socket's own time-out does not bound name resolution, and counts anew for each address of a name.
    """
    answers: queue.SimpleQueue[http.client.HTTPResponse | Exception] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put(urllib.request.urlopen(request, timeout=READ_SECONDS))  # noqa: S310 - addresses are ours
        except Exception as error:  # handed to the caller below
            answers.put(error)

    threading.Thread(target=work, name="download", daemon=True).start()
    try:
        answer = answers.get(timeout=OPEN_SECONDS)
    except queue.Empty:
        raise UnreachableError(f"{request.full_url}: no answer within {OPEN_SECONDS:g} s") from None
    if isinstance(answer, urllib.error.HTTPError):
        raise answer
    if isinstance(answer, Exception):
        reason = getattr(answer, "reason", None) or answer
        raise UnreachableError(f"{request.full_url}: {getattr(reason, 'strerror', None) or reason}") from None
    return answer
