"""Installs packages with uv the way this user's pip would: same indexes, same certificates, same proxies.

uv does not read pip's configuration, so what matters of it is handed over as uv's own variables; whatever the user
has set for uv itself wins.
"""

import configparser
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from controller.errors import BuildError, HostError
from controller.runtimes.commands import Command

Report = Callable[[str, float | None], None]
"""Called with the stage in words and the fraction done, or None where it cannot be known."""

_PIP_OPTIONS = ("index-url", "extra-index-url", "find-links", "no-index", "cert", "trusted-host", "proxy")
_TRUE = ("1", "true", "yes", "on")
# Of uv's own variables only those about where packages come from: others, such as UV_CONSTRAINT, change what is built.
_KEPT_UV = re.compile(
    r"UV_(DEFAULT_INDEX|INDEX|INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|INDEX_\w+_(USERNAME|PASSWORD)|CACHE_DIR|HTTP_\w+|"
    r"REQUEST_TIMEOUT|OFFLINE|NATIVE_TLS|SYSTEM_CERTS|INSECURE_HOST|KEYRING_PROVIDER|CONCURRENT_\w+|"
    r"PYTHON_DOWNLOADS|PYTHON_INSTALL_MIRROR|PYTHON_INSTALL_DIR|CONFIG_FILE|NO_CONFIG)"
)
_NETWORK = re.compile(
    r"dns error|error sending request|connection (refused|reset|closed)|timed out|network is unreachable|"
    r"failed to fetch|certificate|temporary failure in name resolution|network connectivity is disabled",
    re.IGNORECASE,
)
_CAUSE = re.compile(r"\s*(?:error:|×|[╰├]─▶|(?:Caused by|cause):)\s*(.*)")


def uv_program() -> str:
    """Path of the uv that came with this package. Raises HostError when it is gone."""
    import uv

    try:
        return str(uv.find_uv_bin())
    except FileNotFoundError as error:
        raise HostError("the uv program is missing", "run: pip install --force-reinstall uv") from error


def clean_environment() -> dict[str, str]:
    """The caller's variables without those that steer Python, virtual environments, pip or uv."""
    steering = ("PYTHON", "PIP_", "UV_", "CONDA", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
    return {name: value for name, value in os.environ.items() if not name.startswith(steering)}


def uv_environment(link: Literal["hardlink", "copy"] = "hardlink", indexes: Sequence[str] = ()) -> dict[str, str]:
    """Variables for a uv process. ``indexes`` are asked besides the user's own."""
    kept = {name: value for name, value in os.environ.items() if _KEPT_UV.fullmatch(name)}
    environment = {
        "UV_SYSTEM_CERTS": "1",
        "UV_NATIVE_TLS": "1",  # The name of UV_SYSTEM_CERTS in older releases.
        "UV_HTTP_TIMEOUT": "60",
        **clean_environment(),
        **_from_pip(pip_options(), os.environ),
        **kept,
        "UV_LINK_MODE": link,
        # Every package is pinned by hash, so that the index it comes from makes no difference.
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_NO_PROGRESS": "1",
        "NO_COLOR": "1",
    }
    if indexes:
        environment["UV_INDEX"] = " ".join(filter(None, (environment.get("UV_INDEX"), *indexes)))
    return environment


def pip_options(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """pip's options that tell where packages come from: configuration files, then variables, the later winning."""
    options: dict[str, str] = {}
    for path in _pip_files(environment):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError, OSError):
            continue  # pip itself will tell its user; packages may be found without it.
        for section in ("global", "install"):
            if parser.has_section(section):
                options.update({key.replace("_", "-"): value for key, value in parser.items(section)})
    for name in _PIP_OPTIONS:
        value = environment.get("PIP_" + name.upper().replace("-", "_"))
        if value:
            options[name] = value
    return {name: " ".join(value.split()) for name, value in options.items() if name in _PIP_OPTIONS}


def pip_arguments() -> list[str]:
    """What of pip's configuration uv takes only as an argument."""
    return ["--no-index"] if pip_options().get("no-index", "").lower() in _TRUE else []


def _pip_files(environment: Mapping[str, str]) -> list[Path]:
    """Where pip looks, in its order: system, user, environment; PIP_CONFIG_FILE last, or alone when the null device."""
    chosen = environment.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return []
    home = Path.home()
    if sys.platform == "win32":
        places = [Path(environment.get("PROGRAMDATA", "C:/ProgramData")) / "pip" / "pip.ini", home / "pip" / "pip.ini"]
        places += [Path(environment.get("APPDATA", home / "AppData" / "Roaming")) / "pip" / "pip.ini"]
        places += [Path(sys.prefix) / "pip.ini"]
    else:
        system = environment.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep)
        places = [Path(folder) / "pip" / "pip.conf" for folder in reversed(system)] + [Path("/etc/pip.conf")]
        if sys.platform == "darwin":
            places += [Path("/Library/Application Support/pip/pip.conf")]
            places += [home / "Library" / "Application Support" / "pip" / "pip.conf"]
        places += [home / ".pip" / "pip.conf"]
        places += [Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"]
        places += [Path(sys.prefix) / "pip.conf"]
    return places + ([Path(chosen)] if chosen else [])


def _from_pip(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """pip's options as variables that uv and its network library read."""
    found: dict[str, str] = {}
    own_index = any(name in environment for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"))
    if "index-url" in options and not own_index:
        found["UV_DEFAULT_INDEX"] = options["index-url"]
    if "extra-index-url" in options:
        found["UV_INDEX"] = options["extra-index-url"]
    if "find-links" in options:
        found["UV_FIND_LINKS"] = options["find-links"].replace(" ", ",")
    if "trusted-host" in options:
        found["UV_INSECURE_HOST"] = options["trusted-host"]
    if "cert" in options and "SSL_CERT_FILE" not in environment:
        found["SSL_CERT_FILE"] = options["cert"]
    if "proxy" in options:
        url = options["proxy"] if "://" in options["proxy"] else "http://" + options["proxy"]
        found.update({name: url for name in ("HTTP_PROXY", "HTTPS_PROXY") if name not in environment})
    return found


def sync(
    command: Command, python: Path, lock: Path, report: Report, *, indexes: Sequence[str] = (), editable: bool = False
) -> None:
    """Installs exactly what ``lock`` lists, each file checked against its SHA-256.

    ``editable``: the environment's files may be changed, so they are not shared with uv's cache. The runner's
    ``indexes`` are asked only when the user's own do not have a package. Raises BuildError.
    """
    link: Literal["hardlink", "copy"] = "copy" if editable else "hardlink"
    arguments = [uv_program(), "pip", "sync", "--require-hashes", *pip_arguments(), "--python", str(python)]
    build = lock.with_name(lock.name + ".build")
    if build.is_file():
        arguments += ["--build-constraints", str(build)]
    arguments.append(str(lock))
    tried: list[Sequence[str]] = [(), indexes] if indexes else [()]
    for extra in tried:
        progress = _Progress(report)
        code, output = command.run(arguments, uv_environment(link, extra), progress.line, progress.written)
        if code == 0:
            return
        if code is None or _NETWORK.search(output) or extra == tried[-1]:
            raise _failure(code, output, indexes, command.log)


def compile_bytecode(command: Command, python: Path, folder: Path) -> None:
    """Compiles all of ``folder`` but packages' own tests, so that no trial does. Files that are not for this Python
    are no failure; nor is anything else here, for bytecode only saves time. Not uv's own way: that fails on 3.6."""
    arguments = [str(python), "-m", "compileall", "-q", "-j", "0", "-x", r"[/\\]tests?[/\\]", str(folder)]
    command.run(arguments, clean_environment())


def _failure(code: int | None, output: str, indexes: Sequence[str], log: Path) -> BuildError:
    cause = uv_cause(output) if code is not None else "it took too long"
    asked = [index for index in indexes if index in output]
    if asked and _NETWORK.search(output):
        message = f"a package that only {asked[0]} has could not be had: {cause}"
        hint = "connect to that index, or put the file into a folder named by pip's find-links"
    elif _NETWORK.search(output):
        message = f"the package index could not be reached: {cause}"
        hint = "check the network, or pip's index-url and proxy"
    else:
        message, hint = f"packages could not be installed: {cause}", ""
    return BuildError(message, hint or f"see {log}", "\n".join(output.splitlines()[-12:]))


def uv_cause(output: str) -> str:
    """The most telling part of what uv printed when it failed, in one line: its deepest cause."""
    causes: list[str] = []
    for line in output.splitlines():
        if match := _CAUSE.match(line):
            causes.append(match[1].strip())
        elif causes and line.startswith("      "):
            causes[-1] += " " + line.strip()  # uv breaks long causes and indents the rest.
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return (causes or lines or ["it printed nothing"])[-1]


class _Progress:
    """uv's lines and what it writes, as one growing fraction.

    uv names the size of a download when it begins, and unpacks while it downloads; wheels unpack to about twice
    their size. Downloads that are still to be announced are allowed for by a reserve.
    """

    _MEBI: ClassVar = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0}
    _RESERVE, _EXPANSION = 50.0, 2.2

    def __init__(self, report: Report) -> None:
        self._report = report
        self._sizes: dict[str, float] = {}
        self._done = 0.0
        self._stage, self._fraction = "finding packages", 0.0

    def line(self, text: str) -> None:
        if match := re.match(r"\s*Downloading (\S+) \(([\d.]+)(KiB|MiB|GiB)\)", text):
            self._sizes[match[1]] = float(match[2]) * self._MEBI[match[3]]
            self._stage = self._downloading()
        elif match := re.match(r"\s*Downloaded (\S+)", text):
            self._done += self._sizes.get(match[1], 0.0)
            self._downloaded(self._done)
        elif match := re.match(r"\s*Building (\S+)", text):
            self._stage = f"building {match[1]}"
        elif text.strip().startswith("Built ") and self._sizes:
            self._stage = self._downloading()
        elif text.startswith("Prepared "):
            self._stage, self._fraction = "installing", 0.9
        self._report(self._stage, self._fraction)

    def written(self, count: int) -> None:
        self._downloaded(count / 2**20 / self._EXPANSION)
        self._report(self._stage, self._fraction)

    def _downloading(self) -> str:
        return f"downloading {max(self._sizes, key=lambda name: self._sizes[name])}"

    def _downloaded(self, mebibytes: float) -> None:
        total = sum(self._sizes.values())
        if total and self._fraction < 0.9:
            self._fraction = max(self._fraction, 0.89 * min(1.0, mebibytes / (total + self._RESERVE)))
