"""The JSON Schema (2020-12) of the document that report/json_.py writes; ``controller schema`` prints it.

The types of results are taken from their definitions, the rest is written out here. Within a version keys are only
added, so a schema lets further keys pass, and requires those that it has.
"""

from typing import Any

from controller.report.json_ import FORMAT, VERSION

URL = "https://json-schema.org/draft/2020-12/schema"
_NUMBER = {"type": ["number", "null"]}
_COUNT = {"type": ["integer", "null"]}
_WHOLE = {"type": "integer"}
_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_REFERENCES = "#/$defs/{model}"


def schema() -> dict[str, Any]:
    """The schema of the current version."""
    definitions, types = _types()
    whole = _object(
        {
            "format": {"const": FORMAT},
            "version": {"const": VERSION},
            "campaign": types["Campaign"],
            "stored_at": _TEXT,
            "footer": _TEXTS,
            "accuracy": _array(types["AccuracySpread"]),
            "workloads": _array(_workload()),
            "rows": _array(_row(types)),
            "trials": _array(types["Trial"]),
            "against": {"anyOf": [_against(), {"type": "null"}]},
        }
    )
    title = f"{FORMAT}, version {VERSION}"
    note = "Seconds, bytes, fractions of 1. A number that does not exist or is not finite is null."
    return {"$schema": URL, "title": title, "description": note, **whole, "$defs": definitions}


def _types() -> tuple[dict[str, Any], dict[str, Any]]:
    """Definitions of all types of results that the document has, and a reference to each."""
    from pydantic import TypeAdapter

    from controller import results, rows, spread, statistics
    from controller.flags import Flag

    kinds = {
        "Campaign": results.Campaign,
        "Trial": results.Trial,
        "Certificate": results.Certificate,
        "Memory": results.Memory,
        "Environment": results.Environment,
        "Flag": Flag,
        "Interval": statistics.Interval,
        "RowSpread": rows.Spread,
        "AccuracySpread": spread.Spread,
    }
    entries: list[Any] = [(name, "serialization", TypeAdapter(kind)) for name, kind in kinds.items()]
    found, whole = TypeAdapter.json_schemas(entries, ref_template=_REFERENCES)
    definitions: dict[str, Any] = {name: _completed(entry) for name, entry in whole["$defs"].items()}
    definitions["Measurement"]["properties"]["step_seconds"] = _steps()
    return definitions, {name: _completed(found[name, "serialization"]) for name in kinds}


def _completed(value: Any) -> Any:
    """All fields are always there, and any number may be null; defaults mean nothing in what is read."""
    if isinstance(value, list):
        return [_completed(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    changed = {key: _completed(entry) for key, entry in value.items() if key not in ("default", "title")}
    if changed.get("type") == "number":
        changed["type"] = ["number", "null"]
    if "properties" in changed:
        changed["required"] = list(changed["properties"])
    return changed


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _optional(kind: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [kind, {"type": "null"}]}


def _steps() -> dict[str, Any]:
    """A summary in place of the durations: only a count where there are none."""
    names = ("min", "q1", "median", "q3", "max")
    return {
        "type": "object",
        "properties": {"count": _WHOLE, **dict.fromkeys(names, _NUMBER)},
        "required": ["count"],
    }


def _workload() -> dict[str, Any]:
    holders = {"type": "array", "prefixItems": [_TEXT, _TEXTS]}
    problem = _object({"what": _TEXT, "holders": _array(holders), "text": _TEXT})
    return _object(
        {
            "name": _TEXT,
            "digest": _TEXT,
            "heading": _TEXT,
            "verdict": _TEXT,
            "fastest": {"type": ["string", "null"]},
            "tied": _TEXTS,
            "same_work": _TEXT,
            "problems": _array(problem),
            "between_hosts": _array(_between()),
        }
    )


def _between() -> dict[str, Any]:
    interval = {"anyOf": [_object({"low": _NUMBER, "high": _NUMBER}), {"type": "null"}]}
    texts = dict.fromkeys(("label", "host", "base", "text"), _TEXT)
    different = {"type": ["boolean", "null"]}
    return _object({**texts, "ratio": _NUMBER, "ratio_interval": interval, "is_different": different})


def _row(types: dict[str, Any]) -> dict[str, Any]:
    texts = ("label", "runner", "host", "device", "workload", "workload_digest", "state", "text")
    numbers = ("ratio", "epoch_seconds", "step_seconds", "samples_per_second", "accuracy", "test_loss", "learning_rate")
    return _object(
        {
            **dict.fromkeys(texts, _TEXT),
            "variant": _variant(),
            "rank": _COUNT,
            "trials": _object({"succeeded": _WHOLE, "asked": _WHOLE}),
            **dict.fromkeys(("epochs", "steps", "batch_size", "parameter_count"), _COUNT),
            "optimizer": _TEXT,
            "warmup": _TEXT,
            **dict.fromkeys(numbers, _NUMBER),
            "seconds": _optional(types["RowSpread"]),
            "ratio_interval": _optional(types["Interval"]),
            "ties": _TEXT,
            "flags": _array(types["Flag"]),
            "memory": _array(types["Memory"]),
            "versions": {"type": "object", "additionalProperties": _TEXT},
            "python": _TEXT,
            "environment": _optional(types["Environment"]),
            "certificate": _optional(types["Certificate"]),
            "shown": {"type": "object", "additionalProperties": _TEXT},
        }
    )


def _variant() -> dict[str, Any]:
    return _object(
        {
            "label": _TEXT,
            "jit": {"type": "boolean"},
            **dict.fromkeys(("layout", "precision", "pipeline"), _TEXT),
            "workers": _WHOLE,
            "prefetch": _WHOLE,
        }
    )


def _against() -> dict[str, Any]:
    places = dict.fromkeys(("runner", "variant", "host", "device"), _TEXT)
    value = _object({**places, "seconds": _NUMBER, "ratio": _NUMBER})
    column = _object({**dict.fromkeys(("header", "unit", "meaning"), _TEXT), "values": _array(value)})
    workload = _object({"digest": _TEXT, "title": _TEXT, "lines": _TEXTS, "columns": _array(column)})
    return _object({"name": _TEXT, "lines": _TEXTS, "workloads": _array(workload)})
