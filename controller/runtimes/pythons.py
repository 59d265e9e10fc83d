"""Finds a CPython of a given minor version on this machine, or lets uv fetch one."""

import functools
import json
import os
import re
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from controller.catalog.runners import own_python
from controller.errors import HostError
from controller.runtimes.commands import Command
from controller.runtimes.packages import clean_environment, uv_cause, uv_environment, uv_program

# The oldest of which `uv python list` has builds.
_OLDEST_FETCHED = (3, 8)
PLACES = "PATH, pyenv, uv, the Windows launcher and conda"
FETCH_SECONDS = 120.0
_WINDOWS = sys.platform == "win32"
_PROBE = (
    "import sys, json; print(json.dumps([sys.implementation.name, list(sys.version_info[:3]), sys.version_info[3], "
    "64 if sys.maxsize > 2**32 else 32, 't' in getattr(sys, 'abiflags', ''), "
    "getattr(sys, '_base_executable', None) or sys.executable]))"
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A 64-bit release of CPython that was run. ``version`` such as "3.9.18"."""

    path: Path
    version: str

    @property
    def minor(self) -> str:
        return self.version.rsplit(".", 1)[0]

    def patch(self) -> int:
        return int(self.version.rsplit(".", 1)[1])


class Pythons:
    """Interpreters by minor version; each candidate is run once. May be used from several threads."""

    def __init__(self, cache: Path) -> None:
        self._fetched = cache / "pythons"
        self._found: dict[str, Interpreter | None] = {}
        self._fetching: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def find(self, minor: str) -> Interpreter | None:
        """The newest patch release of ``minor`` that is on this machine."""
        if minor not in self._found:
            self._found[minor] = self._search(minor)
        return self._found[minor]

    def get(self, minor: str, command: Command) -> Interpreter:
        """As ``find``, but fetched by uv when there is none. Raises HostError naming where it was looked for."""
        with self._fetching[minor]:  # Two runners may need the same one.
            found, cause = self.find(minor), ""
            if found is None:
                cause = self._fetch(minor, command)
                self._found[minor] = found = self._search(minor)
        if found is None:
            message = f"Python {minor} was not found ({PLACES}), and uv could not fetch it: {cause}"
            raise HostError(message, remedy(minor))
        return found

    def _search(self, minor: str) -> Interpreter | None:
        # A shim or a virtual environment's link acts by its own name: none is taken for what it leads to.
        found = [_probed(path) for path in self._candidates(minor)]
        fitting = [interpreter for interpreter in found if interpreter and interpreter.minor == minor]
        return max(fitting, key=Interpreter.patch, default=None)

    def _candidates(self, minor: str) -> Iterator[Path]:
        """Programs that may be this version, the likeliest first; none is promised to run."""
        if minor == own_python():
            yield Path(getattr(sys, "_base_executable", sys.executable))
        yield from _on_path(minor)
        yield from _below(_pyenv_folder(), minor)
        yield from _below(self._fetched, minor)
        yield from _below(_uv_folder(), minor)
        yield from _from_launcher(minor)
        yield from _from_conda()

    def _fetch(self, minor: str, command: Command) -> str:
        """Returns why it failed; empty when it did not. Only the controller's own folder is written to."""
        environment = {**uv_environment(), "UV_HTTP_TIMEOUT": "20", "UV_HTTP_RETRIES": "1"}
        environment |= {"UV_PYTHON_INSTALL_BIN": "0", "UV_PYTHON_INSTALL_REGISTRY": "0"}
        arguments = [uv_program(), "python", "install", "--install-dir", str(self._fetched), minor]
        code, output = command.run(arguments, environment, seconds=FETCH_SECONDS)
        if code is None:
            return f"no answer within {FETCH_SECONDS:.0f} s"
        return uv_cause(output) if code else ""


def may_fetch(minor: str) -> bool:
    """Whether uv knows a build of this Python, and the user lets it download interpreters."""
    if tuple(map(int, minor.split("."))) < _OLDEST_FETCHED:
        return False
    forbidden = os.environ.get("UV_PYTHON_DOWNLOADS", "").lower() in ("never", "manual", "false", "0")
    return not forbidden and os.environ.get("UV_OFFLINE", "").lower() not in ("1", "true")


def remedy(minor: str) -> str:
    """The next step of a user without this Python."""
    return f"install it, such as by: pyenv install {minor}, conda create -n py{minor.replace('.', '')} python={minor}"


def probe(path: Path, seconds: float = 15.0) -> Interpreter | None:
    """Runs a program and says what Python it is; None unless it is a 64-bit release of CPython with its lock."""
    try:
        done = subprocess.run(
            [str(path), "-I", "-S", "-c", _PROBE],
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        name, version, level, bits, free_threaded, base = json.loads(done.stdout.decode("utf-8"))
    except (OSError, subprocess.TimeoutExpired, ValueError, TypeError):
        return None
    if name != "cpython" or level != "final" or bits != 64 or free_threaded:
        return None
    return Interpreter(Path(base), ".".join(str(part) for part in version))


@functools.cache
def _probed(path: Path) -> Interpreter | None:
    return probe(path)


def _on_path(minor: str) -> Iterator[Path]:
    names = ["python.exe"] if _WINDOWS else [f"python{minor}", "python3", "python"]
    folders = (Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder)
    for folder in {os.path.realpath(folder): folder for folder in folders}.values():
        # A shim only starts, slowly, one of the versions that are looked at anyway.
        if folder.name != "shims":
            yield from (path for name in names if (path := folder / name).is_file())


def _pyenv_folder() -> Path:
    root = os.environ.get("PYENV_ROOT") or os.environ.get("PYENV")  # The second is pyenv-win's.
    default = Path.home() / ".pyenv" / "pyenv-win" if _WINDOWS else Path.home() / ".pyenv"
    return (Path(root) if root else default) / "versions"


def _uv_folder() -> Path:
    chosen = os.environ.get("UV_PYTHON_INSTALL_DIR")
    if chosen:
        return Path(chosen)
    if _WINDOWS:
        return Path(os.environ.get("APPDATA", Path.home())) / "uv" / "python"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "uv" / "python"


def _below(folder: Path, minor: str) -> Iterator[Path]:
    """Interpreters of a folder that has one folder a version, such as ``3.9.18`` or ``cpython-3.9.18-linux-...``."""
    if folder.is_dir():
        for version in sorted(folder.iterdir(), reverse=True):
            if re.search(rf"(^|-){re.escape(minor)}\.\d+(-|$)", version.name):
                yield from _of_prefix(version)


def _of_prefix(prefix: Path) -> Iterator[Path]:
    path = prefix / "python.exe" if _WINDOWS else prefix / "bin" / "python3"
    if path.is_file():
        yield path


def _from_launcher(minor: str) -> Iterator[Path]:
    """What ``py -0p`` lists: lines such as `` -V:3.9 *   C:\\Python39\\python.exe``."""
    if not _WINDOWS:
        return
    try:
        done = subprocess.run(["py", "-0p"], capture_output=True, text=True, timeout=10, check=False)  # noqa: S607
    except (OSError, subprocess.TimeoutExpired):
        return
    yield from launcher_paths(done.stdout, minor)


def launcher_paths(listing: str, minor: str) -> list[Path]:
    """The paths of 64-bit interpreters of ``minor`` in what ``py -0p`` printed."""
    pattern = rf"^\s*-(?:V:)?{re.escape(minor)}(?:-64)?\s+(?:\*\s+)?(\S.*?)\s*$"
    return [Path(match) for match in re.findall(pattern, listing, re.MULTILINE)]


def _from_conda() -> Iterator[Path]:
    listed = Path.home() / ".conda" / "environments.txt"
    prefixes = [os.environ.get("CONDA_PREFIX", "")]
    if listed.is_file():
        prefixes += listed.read_text(encoding="utf-8", errors="replace").splitlines()
    for prefix in dict.fromkeys(filter(None, (text.strip() for text in prefixes))):
        yield from _of_prefix(Path(prefix))
