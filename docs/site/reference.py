"""Writes docs/workload-reference.md from the comments of workload.proto, which are the specification itself.

``python docs/site/reference.py`` writes it; ``tests/unit/test_docs.py`` holds the page to the proto.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "proto" / "trainyard" / "v1" / "workload.proto"
PAGE = ROOT / "docs" / "workload-reference.md"

_BLOCK = re.compile(r"(message|enum|oneof) (\w+) \{(\})?")
_FIELD = re.compile(r"(?:(repeated|optional) )?(\w+) (\w+) = \d+;")
_VALUE = re.compile(r"(\w+) = \d+;")
_TYPES = {"int64": "whole number", "double": "number", "string": "text", "bool": "true or false"}
_INTRODUCTION = """# Workload reference

Generated from the comments of `proto/trainyard/v1/workload.proto` by `docs/site/reference.py`: change them there. How
the same things are written in a file is in [workload files](workload-files.md).
"""


@dataclass
class Entry:
    """A field, or a value of an enum. ``group`` is the oneof that it is in."""

    name: str
    kind: str
    comment: list[str]
    group: str = ""


@dataclass
class Block:
    """A message or an enum. ``groups`` are the comments of its oneofs."""

    name: str
    is_enum: bool
    comment: list[str]
    entries: list[Entry] = field(default_factory=list)
    groups: dict[str, list[str]] = field(default_factory=dict)


def parse(text: str) -> tuple[list[str], list[Block]]:
    """The comment at the top, and all messages and enums in their order. Raises ValueError for a line that it does not
    know: what is written in the proto must not be lost here."""
    head, blocks, comment, group = [], [], [], ""
    is_open = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("//"):
            comment.append(line.removeprefix("//").removeprefix(" "))
            continue
        if line.startswith("syntax"):
            head = comment
        elif found := _BLOCK.fullmatch(line):
            if found[1] == "oneof":
                group, blocks[-1].groups[found[2]] = found[2], comment
            else:
                blocks.append(Block(found[2], found[1] == "enum", comment))
                is_open = not found[3]
        elif line == "}":
            group, is_open = ("", is_open) if group else ("", False)
        elif is_open and (entry := _entry(line, comment, group)):
            blocks[-1].entries.append(entry)
        elif line and not line.startswith("package"):
            raise ValueError(f"{SOURCE.name}: not understood: {line}")
        comment = []
    return head, blocks


def _entry(line: str, comment: list[str], group: str) -> Entry | None:
    if found := _FIELD.fullmatch(line):
        kind = f"list of {found[2]}" if found[1] == "repeated" else found[2]
        return Entry(found[3], kind, comment, group)
    if found := _VALUE.fullmatch(line):
        return Entry(found[1], "", comment)
    return None


def page(text: str) -> str:
    """The whole page."""
    head, blocks = parse(text)
    named = {block.name: block for block in blocks}
    members = {entry.kind for block in blocks for entry in block.entries if entry.group and entry.kind in named}
    parts = [_INTRODUCTION, *_prose(head)]
    for block in blocks:
        if block.name not in members:
            parts += _section(block, named)
    return "\n".join(parts).rstrip() + "\n"


def _section(block: Block, named: dict[str, Block]) -> list[str]:
    parts = [f"## {block.name}", "", *_prose(block.comment)]
    plain = [entry for entry in block.entries if entry.kind not in named or not entry.group]
    parts += _list(plain, block, named)
    for entry in block.entries:
        if entry not in plain:
            member = named[entry.kind]
            parts += [f"### `{entry.name}`", "", *_prose(entry.comment), *_prose(member.comment)]
            parts += _list(member.entries, member, named)
    return parts


def _list(entries: list[Entry], block: Block, named: dict[str, Block]) -> list[str]:
    """Entries as a list; those of one oneof stand behind what is said of it."""
    lines: list[str] = []
    groups: set[str] = set()
    for entry in entries:
        if block.is_enum and not entry.comment:
            continue  # the value for "not given", which no message may carry
        if entry.group and entry.group not in groups:
            groups.add(entry.group)
            said = " ".join(block.groups[entry.group])
            lines += ["", f"`{entry.group}`: {said}" if said else f"`{entry.group}`: one of", ""]
        lines += _item(entry, block, named)
    return [*lines, ""] if lines else []


def _item(entry: Entry, block: Block, named: dict[str, Block]) -> list[str]:
    if block.is_enum:
        prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", block.name).upper() + "_"
        head = f'- `"{entry.name.removeprefix(prefix).lower()}"`'
    else:
        head = f"- `{entry.name}` ({_type(entry.kind, named)})"
    text = _prose(entry.comment)
    if not text:
        return [head]
    return [f"{head}: {text[0]}", *(f"    {line}" if line else "" for line in text[1:-1])]


def _type(kind: str, named: dict[str, Block]) -> str:
    many, name = ("list of ", kind.removeprefix("list of ")) if kind.startswith("list of ") else ("", kind)
    text = f"[{name}](#{name.lower()})" if name in named else _TYPES[name]
    plural = {"whole number": "whole numbers", "number": "numbers", "text": "texts"}
    return many + (plural.get(text, text) if many else text)


def _prose(comment: list[str]) -> list[str]:
    """A comment as Markdown: indented lines are formulas, an empty line ends a paragraph. Ends in an empty line."""
    lines: list[str] = []
    was_formula = False
    for line in comment:
        is_formula = line.startswith("    ")
        if is_formula != was_formula and lines:
            lines.append("")
        lines.append(line if is_formula else re.sub(r"(?<= )\*(?= )", r"\\*", line))
        was_formula = is_formula
    return [*lines, ""] if lines else []


def main() -> None:
    PAGE.write_text(page(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
