"""Engines at ``ssh://USER@HOST``: each connection is the other machine's own ``docker system dial-stdio``, through ssh.

This is how Docker's command line reaches them. Here a Unix socket stands before it, so that whoever speaks to engines
needs to know nothing of ssh.
"""

import atexit
import functools
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from controller.runtimes.temporary import new_folder
from controller.runtimes.tunnels import Pipe, Tunnel

_CONNECT_SECONDS = 20


def target(url: str) -> str:
    """Address of a socket of this process that leads to the engine at ``url``."""
    address = _tunnel(url).target
    return address if "://" in address else f"tcp://{address}"


def complaint() -> str:
    """What ssh said last; empty when it said nothing."""
    try:
        lines = (_folder() / "ssh.log").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def command(url: str) -> list[str]:
    """The ssh command line for an address such as ssh://ada@lab:2222."""
    parts = urlsplit(url)
    words = ["ssh", "-T", "-o", f"ConnectTimeout={_CONNECT_SECONDS}"]
    words += ["-l", parts.username] if parts.username else []
    words += ["-p", str(parts.port)] if parts.port else []
    return [*words, "--", str(parts.hostname), "docker system dial-stdio"]


@functools.cache
def _tunnel(url: str) -> Tunnel:
    words = command(url)
    tunnel = Tunnel(_folder() / "engine.sock", lambda: Pipe(words, _folder() / "ssh.log"))
    atexit.register(tunnel.close)
    return tunnel


@functools.cache
def _folder() -> Path:
    folder = new_folder("trainyard-ssh-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
