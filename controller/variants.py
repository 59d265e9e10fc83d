"""Variants as they are written on the command line, such as ``jit,workers=0``."""

from dataclasses import replace
from typing import Any

from controller.errors import UnknownNameError, UsageError
from controller.results import Variant

CHOICES = {
    "jit": ("true", "false"),
    "layout": ("default", "nhwc", "nchw"),
    "precision": ("float32", "tf32", "amp"),
    "pipeline": ("native", "memory"),
}
MAX_COUNT = 256  # as runners/core/check.py has it
# Numbers: name, and the smallest that makes sense.
COUNTS = {"workers": 0, "prefetch": 1}


def parse_variant(text: str) -> Variant:
    """``option=value`` pairs, separated by commas; ``jit`` alone is ``jit=true``, ``default`` changes nothing.

    Raises UsageError naming the option and what it can be.
    """
    variant, seen = Variant(), set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        if part == "default":
            continue
        name, has_value, value = (piece.strip() for piece in part.partition("="))
        if name in seen:
            raise UsageError(f"variant {text!r} gives {name} twice", "give it once")
        seen.add(name)
        variant = replace(variant, **_change(name, value if has_value else None))
    return variant


def _change(name: str, value: str | None) -> dict[str, Any]:
    if name in COUNTS:
        return {name: _count(name, value or "")}
    if name not in CHOICES:
        raise UnknownNameError("variant option", name, [*CHOICES, *COUNTS])
    if value is None and name == "jit":
        value = "true"
    if value not in CHOICES[name]:
        what = "needs a value" if value is None else f"cannot be {value!r}"
        raise UsageError(f"variant option {name} {what}", f"write {name}=" + "|".join(CHOICES[name]))
    return {name: value == "true" if name == "jit" else value}


def _count(name: str, value: str) -> int:
    low = COUNTS[name]
    if not (value.isascii() and value.isdigit() and low <= int(value[:9]) <= MAX_COUNT and len(value) < 9):
        raise UsageError(
            f"variant option {name} cannot be {value!r}", f"write {name}=N with N from {low} to {MAX_COUNT}"
        )
    return int(value)
