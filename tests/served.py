"""Hosts for tests: ``controller serve`` in a process of its own, and the certificates that it and controllers show."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from controller import paths
from tests.environments import ROOT

CONTROLLER = [sys.executable, "-m", "controller"]
CLIENT = "laptop.pem"


def issue(folder: Path, hosts: Mapping[str, str]) -> Path:
    """``folder`` with identity files by the commands that users give: NAME.pem of each host (name to address), and
    ``CLIENT``, a controller's."""
    addresses = [["issue", name, "--address", at, "-o", str(folder / f"{name}.pem")] for name, at in hosts.items()]
    for words in (["init"], *addresses, ["issue", "laptop", "--client", "-o", str(folder / CLIENT)]):
        command = [*CONTROLLER, "certs", *words, "--folder", str(folder / "authority")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stderr
    return folder


@contextlib.contextmanager
def host(
    folder: Path, *options: str, listen: str = "127.0.0.1:0", prefix: Sequence[str] = (), cache: Path | None = None
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A host in a process of its own, which keeps its files in ``folder``: the process and its address."""
    variables = dict(os.environ, TRAINYARD_DATA=str(folder)) | ({"TRAINYARD_CACHE": str(cache)} if cache else {})
    command = [*prefix, *CONTROLLER, "serve", "--listen", listen, *options]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "stderr").open("w") as log:
        serving = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, env=variables)
    try:
        line = serving.stdout.readline()
        assert line.startswith("serving at "), (folder / "stderr").read_text()
        yield serving, line.strip().removeprefix("serving at ")
    finally:
        serving.terminate()
        serving.wait(60)
        serving.stdout.close()


def cache_of_another_machine(folder: Path) -> Path:
    """A cache with the environments of this machine's, but without its arrays: they have to be sent."""
    folder.mkdir(parents=True)
    for name in ("environments", "service"):
        (folder / name).symlink_to(paths.cache_folder() / name)
    return folder
