"""A whole small house for tests of runtimes: runner files, a service that can misbehave, and a package index in a
folder. Real uv, real processes, real gRPC health; no network and no framework."""

import base64
import hashlib
import os
import re
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import psutil

from controller.catalog.runners import load

# Behaves as its --adapter says. It needs grpcio, which the tests' own interpreter has.
SERVER = """
import argparse, json, os, signal, subprocess, sys, threading, time
parser = argparse.ArgumentParser()
for name in ("--adapter", "--listen", "--address-file", "--blobs"):
    parser.add_argument(name)
parser.add_argument("--exit-with-stdin", action="store_true")
options = parser.parse_args()
behaviour = options.adapter.rsplit(".", 1)[-1]
print("adapter says", behaviour, flush=True)
with open(os.path.join(options.blobs, "environment.json"), "w") as file:
    json.dump(dict(os.environ), file)
if behaviour == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if behaviour == "refusing":
    sys.exit("no such framework here")
if behaviour == "family":
    # A child in the group, and one that has left it and heeds no signal that can be ignored.
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    children = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]),
                subprocess.Popen([sys.executable, "-c", stubborn], start_new_session=True)]
    with open(os.path.join(options.blobs, "children"), "w") as file:
        file.write(" ".join(str(child.pid) for child in children))
if behaviour == "silent":
    with open(os.path.join(options.blobs, "silent"), "w") as file:
        file.write(str(os.getpid()))
    time.sleep(600)
import grpc
from concurrent import futures
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
server = grpc.server(futures.ThreadPoolExecutor(2))
servicer = health.HealthServicer()
health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
serving = behaviour != "importing"
servicer.set("", health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING)
port = server.add_insecure_port(options.listen)
server.start()
with open(options.address_file + ".new", "w") as file:
    file.write("127.0.0.1:%d" % port)
os.replace(options.address_file + ".new", options.address_file)
sys.stdin.read()
"""

RUNNER = """
[[runner]]
name = "{name}"
version = "1.0"
distribution = "tiny"
python = ""
default = {default}
{more}
[runner.locks]
cpu = "locks/{lock}"
[runner.environment]
PLACE = "{{environment}}/cache"
"""


class House:
    """Folders below ``root``: ``runners`` (catalog and service), ``wheels`` (an index), ``cache``."""

    def __init__(self, root):
        self.root = Path(root)
        self.runners = self.root / "runners"
        self.cache = self.root / "cache"
        self.blobs = self.root / "blobs"
        self.wheels = self.root / "wheels"
        self.blobs.mkdir(parents=True)
        self.wheels.mkdir()
        write(self.runners / "__init__.py", "")
        write(self.runners / "core" / "__init__.py", "")
        write(self.runners / "core" / "server.py", SERVER)
        write(self.runners / "tiny" / "__init__.py", "")
        write(self.runners / "tiny" / "adapter.py", "")
        self._blocks = ['framework = "tiny"\ndisplay_name = "Tiny"\nadapter = "runners.tiny.adapter"\n'
                        'homepage = "https://example.org"\n']  # fmt: skip
        self.hash = wheel(self.wheels, "tiny", "1.0")

    def add(self, name, prepare="", lock=None, default=True, more=""):
        """A runner; ``prepare`` is the source of its module, ``lock`` the text of its lock."""
        if prepare:
            module = "prepare_" + re.sub(r"\W", "_", name)
            write(self.runners / "tiny" / f"{module}.py", prepare)
            more += f'\nprepare = "runners.tiny.{module}"'
        text = f"tiny==1.0 --hash=sha256:{self.hash}\n" if lock is None else lock
        write(self.runners / "tiny" / "locks" / f"{name}.txt", text)
        flag = str(default).lower()
        self._blocks.append(RUNNER.format(name=name, default=flag, lock=f"{name}.txt", more=more))
        write(self.runners / "tiny" / "runner.toml", "\n".join(self._blocks))
        return self.specs()[name]

    def specs(self):
        return load(self.runners)

    def offline(self, monkeypatch):
        """Only the packages in ``wheels`` exist, as this user's pip configuration has it; nothing else is read."""
        for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
            monkeypatch.delenv(name)
        config = write(self.root / "pip.conf", f"[global]\nno-index = true\nfind-links = {self.wheels}\n")
        monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
        monkeypatch.setenv("UV_CACHE_DIR", str(self.root / "uv"))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def wheel(folder, name, version):
    """Writes a wheel with one module and returns the file's SHA-256."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in files.items())
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(file, text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def gone(pid):
    """Whether the process is gone or only waits to be reaped; gives it a moment."""
    return until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def until(condition, seconds=20.0):
    """Polls for a condition that must come true; the seconds only bound a failing test."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if condition():
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


OWN_PYTHON = Path(sys.executable)
