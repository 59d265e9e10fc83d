"""A network namespace as another machine: one cable to it, no files shared by what is reached through it."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cable import DELAY_SECONDS, LOSS

ROOT = Path(__file__).resolve().parents[1]


def obstacle() -> str:
    """Why there can be no ``far_network``; empty where there can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need Linux and root"
    if missing := [name for name in ("ip", "tc", "nsenter") if shutil.which(name) is None]:
        return f"there is no {missing[0]}: apt-get install iproute2 util-linux"
    return ""


@dataclass(frozen=True)
class Cable:
    """``prefix`` is put before a command line that shall run at the far end. Not ``ip netns exec``, which hides the
    control groups."""

    name: str
    prefix: Sequence[str]

    def cut(self) -> None:
        """From now on nothing arrives, and nobody is told."""
        _ip("-n", self.name, "link", "set", f"{self.name}1", "down")

    def mend(self) -> None:
        """As it was; what was sent meanwhile is lost."""
        _ip("-n", self.name, "link", "set", f"{self.name}1", "up")


@contextlib.contextmanager
def network(name: str, here: str, there: str) -> Iterator[Sequence[str]]:
    """Makes namespace ``name`` with address ``there``, reached from ``here`` (IPv4, one /24); yields what is put before
    a command line that shall run in it."""
    with _namespace(name), _wire(name):
        _plug(name, here, there)
        yield _prefix(name)


@contextlib.contextmanager
def far_network(name: str, here: str, there: str) -> Iterator[Cable]:
    """The same with a cable that delays and loses packets, and that can be cut: tests/cable.py carries them. Where it
    cannot, the kernel shall, and where that cannot either, a line says so and the cable is a short one."""
    is_carried = Path("/dev/net/tun").exists()
    with _namespace(name), (_carrier if is_carried else _wire)(name):
        _plug(name, here, there)
        if not is_carried:
            _lengthen(name)
        yield Cable(name, _prefix(name))


@contextlib.contextmanager
def _wire(name: str) -> Iterator[None]:
    _ip("link", "add", f"{name}0", "type", "veth", "peer", "name", f"{name}1")
    try:
        yield
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "delete", f"{name}0")


@contextlib.contextmanager
def _carrier(name: str) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.cable", name]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as carrier:
        try:
            if not carrier.stdout.readline():
                raise subprocess.CalledProcessError(carrier.wait(), command)
            yield
        finally:
            carrier.stdin.close()


def _lengthen(name: str) -> None:
    netem = ["root", "netem", "delay", f"{DELAY_SECONDS * 1000:g}ms", "loss", f"{LOSS:.1%}"]
    for device, words in ((f"{name}0", ["tc"]), (f"{name}1", ["tc", "-n", name])):
        command = [*words, "qdisc", "add", "dev", device, *netem]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{device} neither delays nor loses packets: {done.stderr.strip()}")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _prefix(name: str) -> Sequence[str]:
    return ["nsenter", f"--net=/run/netns/{name}", "--"]


@contextlib.contextmanager
def _namespace(name: str) -> Iterator[None]:
    with contextlib.suppress(subprocess.CalledProcessError):
        _ip("netns", "delete", name)
    _ip("netns", "add", name)
    try:
        yield
    finally:
        _ip("netns", "delete", name)


def _plug(name: str, here: str, there: str) -> None:
    """Gives both ends of a cable their addresses, the far one in its namespace."""
    _ip("link", "set", f"{name}1", "netns", name)
    _ip("address", "add", f"{here}/24", "dev", f"{name}0")
    _ip("link", "set", f"{name}0", "up")
    _ip("-n", name, "address", "add", f"{there}/24", "dev", f"{name}1")
    _ip("-n", name, "link", "set", f"{name}1", "up")
    _ip("-n", name, "link", "set", "lo", "up")
