"""The lines of a bundle: campaigns and trials as JSON, and what a line of elsewhere must hold before it is believed.

A bundle comes from another machine, so nothing of it is trusted: names become parts of tables and of paths.
"""

import hashlib
import json
import math
import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, NoReturn

from controller.errors import ControllerError
from controller.results import CANCELLED, FAILED, SUCCEEDED, UNSUPPORTED, Campaign, Trial

_STATES = (SUCCEEDED, FAILED, CANCELLED, UNSUPPORTED)
_CAMPAIGN_ID = re.compile(r"[0-9][0-9A-Za-z-]{0,63}")
_TRIAL_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}")
_NAME_LENGTH, _TEXT_LENGTH = 200, 20_000
# Texts that may be longer than others, or hold line breaks.
_LONG = {"message": 4_000_000, "log_tail": 1_000_000}
_LINES = {"message", "log_tail", "text", "command", "notes"}
_NAMES = {"name", "runner", "workload", "host", "device", "campaign", "id", "kind", "runtime", "layer", "parameter"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_BREAKS = re.compile(r"[\t\n\r]")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_LARGEST_WHOLE = 2**63 - 1
_LARGEST_COUNT = 1_000_000


class BundleError(ControllerError):
    """A bundle is damaged, from a newer version, or holds what no campaign leaves behind."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A campaign with the trials that have ended, in their order."""

    campaign: Campaign
    trials: tuple[Trial, ...]


# --- writing -----------------------------------------------------------------------------------------------


def campaign_line(campaign: Campaign) -> str:
    """One line of ``campaigns.jsonl``, its line feed included."""
    return _line(_printable(asdict(campaign)))


def trial_line(trial: Trial) -> str:
    """One line of ``trials.jsonl``. Steps are float32 in the store: nine digits give each of them again exactly."""
    found = _printable(asdict(_finite(trial)))
    if trial.measurement is not None and found["measurement"] is not None:
        found["measurement"]["step_seconds"] = [float(f"{step:.9g}") for step in trial.measurement.step_seconds]
    return _line(found)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def _finite(trial: Trial) -> Trial:
    """A trial that failed may hold numbers that are none, which JSON cannot hold; nobody needs them."""
    run = trial.measurement
    if run is None or trial.state == SUCCEEDED:
        return trial
    numbers = (run.measured_seconds, run.test_loss, run.test_accuracy, *run.phases.values(), *run.step_seconds)
    more = (*run.epoch_seconds, *run.losses, *run.telemetry.values())
    return trial if all(map(math.isfinite, (*numbers, *more))) else replace(trial, measurement=None)


def _printable(value: Any) -> Any:
    """What a terminal would take as a command, and what is no character, as a question mark."""
    if isinstance(value, str):
        return _UNPRINTABLE.sub("?", value)
    if isinstance(value, dict):
        return {key: _printable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(entry) for entry in value]
    return value


# --- reading -----------------------------------------------------------------------------------------------


def read_campaign(line: bytes) -> Campaign:
    """A checked campaign. Raises ValueError that says what is wrong."""
    campaign: Campaign = _record(line, _campaigns())
    for wrong in _wrong_campaign(campaign):
        raise ValueError(wrong)
    return campaign


def read_trial(line: bytes) -> Trial:
    """A trial that is whole in itself; ``belongs`` says whether it fits its campaign. Raises ValueError."""
    trial: Trial = _record(line, _trials())
    for wrong in _wrong_trial(trial):
        raise ValueError(wrong)
    if trial.measurement is None:
        return trial
    steps = array("f", trial.measurement.step_seconds)
    if not all(math.isfinite(step) and step >= 0 for step in steps):
        raise ValueError("a step's duration is no positive number")
    return replace(trial, measurement=replace(trial.measurement, step_seconds=tuple(steps)))


def belongs(trials: Sequence[Trial], campaign: Campaign) -> None:
    """Whether trials are of this campaign, each once. Raises ValueError."""
    cells, seen = set(campaign.cells), set()
    for trial in trials:
        if trial.cell not in cells:
            raise ValueError(f"trial {trial.id} is of {shorten(trial.cell.label())}, which the campaign has not")
        if (trial.block, trial.cell) in seen:
            raise ValueError(f"trial {trial.id} stands where another one does")
        seen.add((trial.block, trial.cell))


def shorten(text: str) -> str:
    """Text of elsewhere in an error: one line of what can be printed, not long."""
    clean = text.encode("utf-8", "replace").decode()
    shown = "".join(each if each.isprintable() else "?" for each in clean[:80])
    return shown + ("..." if len(clean) > 80 else "")


def _record(line: bytes, kind: Any) -> Any:
    """A line as its type, without any key or number that is not as written. Raises ValueError."""
    try:
        text = line.decode()
        raw = json.loads(text, parse_constant=_refuse, parse_float=_float, parse_int=_whole, object_pairs_hook=_once)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    _check_texts(raw)
    value = _typed(text, kind)
    _check_keys(raw, asdict(value))
    return value


def _typed(text: str, kind: Any) -> Any:
    from pydantic import ValidationError

    try:
        return kind.validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise ValueError(f"{shorten(where)}: {shorten(first['msg'])}") from error


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"the number {word} is not finite")


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(shorten(text))


def _whole(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > _LARGEST_WHOLE:
        raise ValueError(f"the number {shorten(text)} is too large")
    return int(text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _check_texts(value: Any, key: str = "") -> None:
    """Raises ValueError for a text that is too long, or that a terminal would obey."""
    if isinstance(value, dict):
        for name, entry in value.items():
            _check_texts(name, "name")
            _check_texts(entry, name)
    elif isinstance(value, list):
        for entry in value:
            _check_texts(entry, key)
    elif isinstance(value, str):
        limit = _NAME_LENGTH if key in _NAMES else _LONG.get(key, _TEXT_LENGTH)
        if len(value) > limit:
            raise ValueError(f"{key or 'a text'} has {len(value):,} characters, more than {limit:,}")
        if _CONTROL.search(value) or (key not in _LINES and _BREAKS.search(value)):
            raise ValueError(f"{key or 'a text'} holds control characters")


def _check_keys(raw: Any, known: Any) -> None:
    """Raises ValueError for a key that this version does not know: it would be lost without a word."""
    if isinstance(raw, dict) and isinstance(known, dict):
        for key, value in raw.items():
            if key not in known:
                raise ValueError(f"the key {shorten(key)!r} is unknown")
            _check_keys(value, known[key])
    elif isinstance(raw, list) and isinstance(known, list | tuple) and raw and isinstance(raw[0], dict):
        for value, entry in zip(raw, known, strict=True):
            _check_keys(value, entry)


def _wrong_campaign(campaign: Campaign) -> Iterable[str]:
    if not _CAMPAIGN_ID.fullmatch(campaign.id):
        yield f"the id {shorten(campaign.id)!r} is none of a campaign"
    if not _is_time(campaign.created_at):
        yield f"created_at {shorten(campaign.created_at)!r} is no time"
    if not 1 <= campaign.trial_count <= _LARGEST_COUNT or not 0 <= campaign.threads <= _LARGEST_COUNT:
        yield "a number of trials or threads is out of range"
    if not campaign.cells or len(set(campaign.cells)) != len(campaign.cells):
        yield "its cells are none, or one stands there twice"
    digests = [workload.digest for workload in campaign.workloads]
    if len(set(digests)) != len(digests) or {cell.workload_digest for cell in campaign.cells} - set(digests):
        yield "its workloads are not those of its cells"
    for workload in campaign.workloads:
        if _digest(workload.message) != workload.digest:
            yield f"the digest of workload {shorten(workload.name)} is not that of its message"
    if any(value <= 0 for entry in campaign.calibrations for value in entry.values.values()):
        yield "a calibration is no positive number"


def _wrong_trial(trial: Trial) -> Iterable[str]:
    run = trial.measurement
    if not _TRIAL_ID.fullmatch(trial.id):
        yield f"the id {shorten(trial.id)!r} is none of a trial"
    if trial.state not in _STATES:
        yield f"trial {trial.id} has the unknown state {shorten(trial.state)!r}"
    if not 0 <= trial.block < _LARGEST_COUNT or not 0 <= trial.position < _LARGEST_WHOLE:
        yield f"trial {trial.id} has no place in an order"
    if trial.state == SUCCEEDED and (run is None or trial.identity is None):
        yield f"trial {trial.id} succeeded without a result"
    if run is not None and trial.state == SUCCEEDED and (run.measured_seconds <= 0 or not 0 <= run.test_accuracy <= 1):
        yield f"trial {trial.id} has a duration or an accuracy that cannot be"


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _digest(message: str) -> str:
    """Of a workload's bytes; empty for what is not hexadecimal."""
    try:
        return hashlib.sha256(bytes.fromhex(message)).hexdigest()
    except ValueError:
        return ""


@cache
def _campaigns() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Campaign)


@cache
def _trials() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Trial)
