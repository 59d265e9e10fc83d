"""Settings: defaults of options from ``trainyard.toml`` files and the environment, each with its origin.

The first that has a value wins: the command line, a variable such as TRAINYARD_TRIALS, ``trainyard.toml`` in the
current folder, in its parents up to the home folder (or the root), the user's own file, the option's default.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller import paths
from controller.errors import UnknownNameError, UsageError

FILE = "trainyard.toml"
_PREFIX = "TRAINYARD_"
INTEGER, NUMBER, TEXT, TEXTS = "a whole number", "a number", "a text", "a text or a list of texts"
# By the option's name. Lists in a variable are divided by spaces, for a variant has commas.
SETTINGS: Mapping[str, str] = {
    "runner": TEXTS,
    "workload": TEXTS,
    "variant": TEXTS,
    "device": TEXT,
    "gpu": INTEGER,
    "trials": INTEGER,
    "until-precision": TEXT,
    "max-trials": INTEGER,
    "threads": INTEGER,
    "pause": NUMBER,
    "data-dir": TEXT,
    "interpreter": TEXTS,
    "runtime": TEXT,
    "host": TEXT,
    "limit": TEXTS,
    "columns": TEXT,
    "sort": TEXT,
    "group-by": TEXT,
}
_ABSOLUTE = ("workload", "data-dir", "interpreter")  # may name files, which a file names relative to itself


@dataclass(frozen=True, slots=True)
class Value:
    """A setting's value and where it is from: a variable's name, or a file and line."""

    value: Any
    origin: str


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return _PREFIX + name.upper().replace("-", "_")


def load(current: Path | None = None, environment: Mapping[str, str] = os.environ) -> dict[str, Value]:
    """The settings that are set, by name. Raises UsageError naming the file and the key."""
    found: dict[str, Value] = {}
    for path in reversed(files(current)):
        found.update(_read(path))
    for name, kind in SETTINGS.items():
        text = environment.get(variable(name), "")
        if text:
            found[name] = Value(_from_text(text, kind, variable(name)), variable(name))
    return found


def files(current: Path | None = None) -> list[Path]:
    """The settings files that exist, the nearest first, the user's own last."""
    places = [folder / FILE for folder in _folders((current or Path.cwd()).absolute())]
    return [path for path in dict.fromkeys([*places, paths.config_file()]) if path.is_file()]


def _folders(current: Path) -> Iterator[Path]:
    for folder in (current, *current.parents):
        yield folder
        if folder == Path.home():
            return


def _read(path: Path) -> dict[str, Value]:
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}", "mend it, or move it away") from error
    found = {}
    for key, value in document.items():
        if key not in SETTINGS:
            unknown = UnknownNameError("setting", key, SETTINGS)
            raise UsageError(f"{path}: {unknown.message}", unknown.hint)
        found[key] = Value(_checked(value, key, path), f"{path}:{_line(text, key)}")
    return found


def _line(text: str, key: str) -> int:
    """Number of the line that sets a key, counted from 1."""
    match = re.search(rf"^\s*[\"']?{re.escape(key)}[\"']?\s*=", text, re.MULTILINE)
    return text.count("\n", 0, match.end()) + 1 if match else 1


def _checked(value: Any, key: str, path: Path) -> Any:
    kind = SETTINGS[key]
    if kind == TEXTS and isinstance(value, str):
        value = [value]
    if not _FITS[kind](value):
        raise UsageError(f"{path}: {key} = {value!r} is not {kind}", f"see controller compare --help, --{key}")
    if key not in _ABSOLUTE:
        return value
    return [_placed(key, text, path) for text in value] if kind == TEXTS else _placed(key, value, path)


def _placed(key: str, text: str, path: Path) -> str:
    """A path of a settings file as an absolute one. A workload may be a name, an interpreter's is after the =."""
    head, separator, tail = text.rpartition("=") if key == "interpreter" else ("", "", text)
    if key == "workload" and not text.endswith(".toml"):
        return text
    return f"{head}{separator}{path.parent / Path(tail).expanduser()}"


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_FITS: Mapping[str, Callable[[Any], bool]] = {
    INTEGER: _is_whole,
    NUMBER: lambda value: _is_whole(value) or isinstance(value, float),
    TEXT: lambda value: isinstance(value, str),
    TEXTS: lambda value: isinstance(value, list) and all(isinstance(text, str) for text in value),
}


def _from_text(text: str, kind: str, name: str) -> Any:
    """The value of a variable."""
    if kind == TEXTS:
        return text.split()
    try:
        return int(text) if kind == INTEGER else float(text) if kind == NUMBER else text
    except ValueError:
        raise UsageError(f"{name}={text} is not {kind}", "change the variable, or unset it") from None
