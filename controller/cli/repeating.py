"""The command line under every table: what repeats a campaign, from any folder."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_FILES = {"--data-dir", "--certificate", "--save", "--workload", "-w", "--interpreter"}
_WORKLOAD = ("--workload", "-w")
_WORKLOAD_SUFFIX = ".toml"  # a workload without it is a name of the catalog


def command(arguments: Sequence[str], settings: Sequence[str], drawn_seed: int | None) -> str:
    """The command line of ``arguments`` (without the program's name), with the ``settings`` that stood for options not
    given, and the seed that was drawn for it. Relative paths are made absolute."""
    words = ["controller", *_absolute([*arguments, *settings])]
    if drawn_seed is not None:
        words += ["--order-seed", str(drawn_seed)]
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def _absolute(words: Sequence[str]) -> list[str]:
    found: list[str] = []
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if option:
            found.append(_path(option, word))
        elif equals and name in _FILES:
            found.append(f"{name}={_path(name, value)}")
        elif word.startswith("-w") and word != "-w":
            found.append(f"-w{_path('-w', word[2:])}")
        else:
            found.append(word)
        option = word if word in _FILES and not option else ""
    return found


def _path(option: str, value: str) -> str:
    if option in _WORKLOAD and not value.endswith(_WORKLOAD_SUFFIX):
        return value
    if option == "--interpreter":
        name, _, python = value.partition("=")
        return f"{name}={Path(python).expanduser().absolute()}"
    return str(Path(value).absolute())
