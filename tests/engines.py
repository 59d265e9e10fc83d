"""Container engines for tests: the one that answers, or one of our own that is started and stopped here.

Our own has its own socket, data and control folders, and needs root and ``dockerd`` (Debian: apt-get install docker.io
iptables mmdebstrap). It is stopped by its number, never by its name.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from controller.runtimes import engine as engines

START_SECONDS = 60.0
STOP_SECONDS = 30.0


@dataclass(frozen=True)
class OwnEngine:
    """A daemon of ours. ``url`` is for DOCKER_HOST; ``folder`` holds all that it writes."""

    url: str
    folder: Path
    process: "subprocess.Popen[bytes]"


def obstacle() -> str:
    """Why no engine can be had; empty when one can."""
    if engines.find() is not None:
        return ""
    if shutil.which("dockerd") is None:
        return "no Docker engine answers, and there is no dockerd: apt-get install docker.io iptables mmdebstrap"
    return "" if os.geteuid() == 0 else "no Docker engine answers, and only root can start one"


@contextlib.contextmanager
def own(
    folder: Path, *more: str, prefix: Sequence[str] = (), url: str = "", environment: Mapping[str, str] | None = None
) -> Iterator[OwnEngine]:
    """Starts a daemon in ``folder`` and stops it in the end. ``prefix`` is put before its command line, ``more`` after
    it; ``url`` is an address besides its socket."""
    for name in ("data", "exec"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    socket = f"unix://{folder}/docker.sock"
    command = [*prefix, "dockerd", "--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")]
    command += ["--pidfile", str(folder / "docker.pid"), "--host", socket]
    command += ["--host", url] if url else []
    with (folder / "dockerd.log").open("ab") as log:
        variables = {**os.environ, **(environment or {})}
        process = subprocess.Popen(
            [*command, *more], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables, start_new_session=True
        )
    try:
        _wait(process, folder / "docker.sock", folder / "dockerd.log")
        yield OwnEngine(url or socket, folder, process)
    finally:
        _stop(process, folder / "docker.pid")


def _wait(process: "subprocess.Popen[bytes]", socket: Path, log: Path) -> None:
    from controller.runtimes.engine_address import EngineAddress

    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(Exception):
            if socket.exists() and engines.client(EngineAddress(f"unix://{socket}"), 5.0).ping():
                return
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
            raise RuntimeError(f"dockerd did not start:\n{tail}")
        time.sleep(0.2)


def _stop(process: "subprocess.Popen[bytes]", pidfile: Path) -> None:
    """The daemon itself: its number is in its file, for ``process`` may be what it was started through."""
    with contextlib.suppress(OSError, ValueError):
        os.kill(int(pidfile.read_text()), signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
