"""A comparison as GitHub Flavored Markdown, which pastes into an issue as it is.

Where the results lie is left out: a path of this machine tells others nothing.
"""

import re
from collections.abc import Iterable, Sequence

from controller.against import Against
from controller.comparison import Comparison, Group
from controller.report.beside import beside_columns, beside_lines
from controller.report.columns import ABSENT, Column, filled
from controller.report.hosts import host_lines, machine_lines
from controller.report.words import certificate_line, flag_lines, footer, heading
from controller.rows import Row

# What would be taken as markup. "@" and "#" alone are links to people and issues on GitHub, "~~" strikes out.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~])")
_MENTION = re.compile(r"(?<!\w)([@#])(?=\w)")


def render(comparison: Comparison, against: Against | None = None) -> str:
    """The whole as text, ending in a line feed."""
    parts: list[str] = []
    for group in comparison.groups:
        parts += [f"### {escape(heading(group.workload))}", _table(group, against), *_findings(group, against)]
    if lines := [*_notes(comparison), *(against.lines if against else ())]:
        parts.append(_list(lines))
    parts.append(_details(comparison))
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """Text that is shown as it is. GFM knows entities: a backslash would not stop a mention."""
    escaped = _SPECIAL.sub(r"\\\1", text)
    return _MENTION.sub(lambda found: f"&#{ord(found[1])};", escaped)


def _table(group: Group, against: Against | None) -> str:
    columns = (*filled(group.rows), *beside_columns(group, against))
    lines = [
        _line(column.header for column in columns),
        "|" + "|".join(" ---: " if column.is_number else " --- " for column in columns) + "|",
        *(_line(_cell(column, row, group) for column in columns) for row in group.rows),
    ]
    return "\n".join(lines)


def _line(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _cell(column: Column, row: Row, group: Group) -> str:
    text = escape(column.text(row) or ABSENT)
    is_fastest = column.key == "runner" and group.fastest and row.label() == group.fastest
    return f"**{text}**" if is_fastest else text


def _findings(group: Group, against: Against | None) -> Iterable[str]:
    yield f"**{escape(group.verdict)}**"
    lines = [f"problem: {problem.text()}" for problem in group.problems]
    for row in group.rows:
        lines += [f"{row.label()}: {text}" for text in (*flag_lines(row), row.text) if text]
    lines += host_lines(group)
    if same := certificate_line(group):
        lines.append(same)
    lines += [line.strip() for line in beside_lines(group, against)]
    yield _list(lines)


def _notes(comparison: Comparison) -> Iterable[str]:
    return (f"note: {note}" for note in comparison.campaign.notes)


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escape(line)}" for line in lines)


def _details(comparison: Comparison) -> str:
    """What identifies the campaign. The command that repeats it can be copied."""
    command = comparison.campaign.command
    first = next(machine_lines(comparison))
    lines = [line for line in footer(comparison) if line != first and not line.startswith("repeat: ")]
    machine = f"Measured on {escape(first.partition(': ')[2])}. To repeat it:"
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", command)), default=0))
    return f"{machine}\n\n{fence}sh\n{command}\n{fence}\n\n{_list(lines)}"
