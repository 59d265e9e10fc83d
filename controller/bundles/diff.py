"""Campaigns of machines that never met, beside each other: what may be compared, and what is not and why. Pure.

- A column is what one campaign measured on one host. The first column is the base of all ratios.
- Cells are matched by digest of the workload, runner, variant and kind of device.
- A ratio is given only where both did the same work in the same environment with the same number of threads. What is
  in the way is said by name; nothing is averaged over it.
- The trials are no pairs: intervals are those of welch.py, corrected for all ratios of one table.
- A row that is flagged, or of which a trial has no result, has a ratio, but nothing is claimed from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controller.bundles import welch, workload_words
from controller.bundles.records import Saved
from controller.comparison import Group, compare
from controller.ranking import SAME_WORK
from controller.results import PASS, SUCCEEDED, Calibration, Campaign, Cell, Machine, Trial, Variant, WorkloadSummary
from controller.rows import Row
from controller.statistics import Interval

FASTER, SLOWER, CANNOT_TELL = "faster", "slower", "cannot tell"
NO_CLAIM, NOT_COMPARABLE, SINGLE = "no claim", "not comparable", "single trial"
# What belongs to the machine rather than to the framework: said, but no reason not to compare machines.
_MACHINE_VERSIONS = {"python", "g++"}


@dataclass(frozen=True, slots=True)
class Source:
    """A campaign, and what it came from: the stem of a file, or the tag that was named."""

    label: str
    saved: Saved


@dataclass(frozen=True, slots=True)
class Key:
    """What is the same cell on two machines, within one workload."""

    runner: str
    variant: Variant
    device: str

    def label(self) -> str:
        """For people."""
        text = Cell(self.runner, "", "", self.variant).label()
        return text if self.device == "cpu" else f"{text} on {self.device}"


@dataclass(frozen=True, slots=True)
class Column:
    """``rows`` by digest of the workload; ``seconds`` are those of each row's succeeded trials."""

    name: str
    label: str
    host: str
    campaign: Campaign
    groups: Mapping[str, Group]
    rows: Mapping[str, Mapping[Key, Row]]
    seconds: Mapping[Cell, tuple[float, ...]]
    twice: tuple[str, ...] = ()

    @property
    def machine(self) -> Machine:
        """Of this host."""
        return self.campaign.machines.get(self.host, self.campaign.machine)

    @property
    def calibration(self) -> Calibration | None:
        """Of this host."""
        found = [entry for entry in self.campaign.calibrations if entry.host == self.host and entry.values]
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Versus:
    """A column's row beside the base's. ``verdict`` is empty where one of the two has no time at all."""

    verdict: str = ""
    ratio: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a table: what each column measured, and what each but the first is to the first."""

    key: Key
    rows: tuple[Row | None, ...]
    versus: tuple[Versus, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One workload. ``blocked``: what could not be compared and why; ``remarks``: what else must be known."""

    workload: WorkloadSummary
    lines: tuple[Line, ...]
    blocked: tuple[str, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The whole. ``blocked`` and ``remarks`` hold for all tables."""

    columns: tuple[Column, ...]
    tables: tuple[Table, ...]
    blocked: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def is_comparable(self) -> bool:
        """Whether there is a single ratio."""
        return any(each.ratio is not None for table in self.tables for line in table.lines for each in line.versus)

    def reasons(self) -> tuple[str, ...]:
        """All that is in the way, each once."""
        tables = (text for table in self.tables for text in table.blocked)
        return tuple(dict.fromkeys([*self.blocked, *tables]))


# --- columns -----------------------------------------------------------------------------------------------


def columns_of(sources: Sequence[Source]) -> tuple[Column, ...]:
    """A column for each campaign and host, named by the system, the host, the machine or the file: by the first that
    tells all of them apart."""
    found = [
        _column(source, host)
        for source in sources
        for host in dict.fromkeys(cell.host for cell in source.saved.campaign.cells)
    ]
    names = next(
        names
        for names in (
            [_system(column) for column in found],
            [column.host for column in found],
            [column.machine.name for column in found],
            [column.label for column in found],
            [f"{column.campaign.id} {column.host}" for column in found],
        )
        if all(names) and len(set(names)) == len(names)
    )
    return tuple(replace(column, name=name) for column, name in zip(found, names, strict=True))


def _system(column: Column) -> str:
    return system_word(column.machine)


def system_word(machine: Machine) -> str:
    """Such as ``WSL2``, ``Windows 10.0.19045`` or ``Debian GNU/Linux 12 (bookworm)``."""
    parts = [part.strip() for part in machine.system.split(",")]
    return next((part for part in parts if part in ("WSL1", "WSL2")), parts[0])


def _column(source: Source, host: str) -> Column:
    campaign = source.saved.campaign
    groups = {group.workload.digest: group for group in compare(campaign, source.saved.trials).groups}
    rows: dict[str, dict[Key, Row]] = {}
    twice = []
    for digest, group in groups.items():
        of_host = [row for row in group.rows if row.cell.host == host]
        keys = [_key(row.cell) for row in of_host]
        double = {key for key in keys if keys.count(key) > 1}
        twice += [f"{key.label()} of {group.workload.name}" for key in dict.fromkeys(keys) if key in double]
        if kept := {key: row for key, row in zip(keys, of_host, strict=True) if key not in double}:
            rows[digest] = kept
    seconds = _seconds(source.saved.trials)
    return Column(source.label, source.label, host, campaign, groups, rows, seconds, tuple(twice))


def _key(cell: Cell) -> Key:
    return Key(cell.runner, cell.variant, cell.device.partition(":")[0])


def _seconds(trials: Iterable[Trial]) -> dict[Cell, tuple[float, ...]]:
    found: dict[Cell, list[float]] = {}
    for trial in trials:
        if trial.state == SUCCEEDED and trial.measurement is not None:
            found.setdefault(trial.cell, []).append(trial.measurement.measured_seconds)
    return {cell: tuple(values) for cell, values in found.items()}


# --- tables ------------------------------------------------------------------------------------------------


def difference(columns: Sequence[Column]) -> Difference:
    """All columns beside each other; at least two."""
    base = columns[0]
    blocked = [text for other in columns[1:] for text in _other_setting(base, other)]
    digests = dict.fromkeys(digest for column in columns for digest in column.rows)
    tables = tuple(_table(digest, columns) for digest in digests)
    unmatched = [text for other in columns[1:] for text in _other_workloads(base, other)]
    double = [f"{name} is there more than once in {column.name}" for column in columns for name in column.twice]
    remarks = [text for other in columns[1:] for text in _other_machine(base, other)]
    return Difference(tuple(columns), tables, (*blocked, *unmatched, *double), tuple(remarks))


@dataclass(slots=True)
class _Findings:
    """What is said of rows: the same words of several of them are one line."""

    blocked: dict[str, list[str]] = field(default_factory=dict)
    remarks: dict[str, list[str]] = field(default_factory=dict)

    def block(self, label: str, text: str) -> None:
        self.blocked.setdefault(text, []).append(label)

    def remark(self, label: str, text: str) -> None:
        self.remarks.setdefault(text, []).append(label)


def _lines(found: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(f"{', '.join(dict.fromkeys(labels))}: {text}" for text, labels in found.items())


def _table(digest: str, columns: Sequence[Column]) -> Table:
    workload = next(column.groups[digest].workload for column in columns if digest in column.groups)
    keys = dict.fromkeys(key for column in columns for key in column.rows.get(digest, {}))
    found = _Findings()
    for key in keys:
        _say_absent(key, digest, columns, found)
    pairs = {
        (key, place): _may_compare(key, digest, columns[0], columns[place], found)
        for key in keys
        for place in range(1, len(columns))
    }
    asked = sum(verdict == "" and _has_interval(*rows) for verdict, rows in pairs.values())
    lines = []
    for key in keys:
        rows = tuple(column.rows.get(digest, {}).get(key) for column in columns)
        versus = [_versus(*pairs[key, place], columns, place, asked) for place in range(1, len(columns))]
        lines.append(Line(key, rows, tuple(versus)))
    return Table(workload, tuple(lines), _lines(found.blocked), _lines(found.remarks))


_Pair = tuple[Row | None, Row | None]


def _has_interval(row: Row | None, base: Row | None) -> bool:
    return row is not None and base is not None and min(row.succeeded, base.succeeded) >= 2


def _may_compare(key: Key, digest: str, base: Column, other: Column, found: _Findings) -> tuple[str, _Pair]:
    """A verdict that is clear without numbers, or "", and the rows: the other's and the base's."""
    pair = other.rows.get(digest, {}).get(key), base.rows.get(digest, {}).get(key)
    row, first = pair
    if row is None or first is None:
        return NOT_COMPARABLE, pair
    reasons = [*_failed(first, base), *_failed(row, other)]
    if not reasons:
        reasons = [*_not_same_work(base, digest), *_not_same_work(other, digest), *_apart(first, base, row, other)]
    for text in reasons:
        found.block(key.label(), text)
    if reasons or any(_other_setting(base, other)):
        return NOT_COMPARABLE, pair
    for text in _remarks(first, base, row, other):
        found.remark(key.label(), text)
    doubts = [*_doubts(first, base), *_doubts(row, other)]
    for text in doubts:
        found.remark(key.label(), f"{text}: no claim")
    return (NO_CLAIM if doubts else ""), pair


def _versus(verdict: str, pair: _Pair, columns: Sequence[Column], place: int, comparisons: int) -> Versus:
    row, base = pair
    if verdict == NOT_COMPARABLE or row is None or base is None or not row.seconds or not base.seconds:
        return Versus(NOT_COMPARABLE if row is not None and base is not None else "")
    seconds = columns[place].seconds[row.cell], columns[0].seconds[base.cell]
    ratio = welch.ratio(*seconds, max(1, comparisons))
    if ratio is None:
        return Versus(verdict or SINGLE, row.seconds.median / base.seconds.median)
    if verdict:
        return Versus(verdict, ratio.value)
    word = CANNOT_TELL if not ratio.is_different else FASTER if ratio.value < 1 else SLOWER
    return Versus(word, ratio.value, ratio.interval)


# --- what is in the way ------------------------------------------------------------------------------------


def _say_absent(key: Key, digest: str, columns: Sequence[Column], found: _Findings) -> None:
    """A cell that only some columns have: whether on another device, with another variant, or not at all."""
    having = [column for column in columns if key in column.rows.get(digest, {})]
    for column in columns:
        rows = column.rows.get(digest, {})
        if key in rows or not rows:
            continue
        like = [each for each in rows if each.runner == key.runner]
        devices = [each.device for each in like if each.variant == key.variant]
        variants = [each.variant.label() or "default" for each in like if each.device == key.device]
        where = having[0].name
        if devices:
            found.block(key.label(), f"device {key.device} in {where}, {', '.join(devices)} in {column.name}")
        elif variants:
            mine = key.variant.label() or "default"
            found.block(key.label(), f"variant {mine} in {where}, {'; '.join(variants)} in {column.name}")
        else:
            found.block(key.label(), f"not in {column.name}")


def _failed(row: Row, column: Column) -> Iterable[str]:
    """Why a row has no time, or none that counts."""
    if row.is_unequal and row.certificate is not None:
        yield f"does other work in {column.name}: {row.certificate.text}"
    elif row.seconds is None:
        yield f"{row.text or row.state} ({column.name})"


def _doubts(row: Row, column: Column) -> Iterable[str]:
    for flag in row.flags:
        yield f"flagged in {column.name}: {flag.line()}"
    if row.text:
        yield f"{row.text} ({column.name})"


def _not_same_work(column: Column, digest: str) -> Iterable[str]:
    for problem in column.groups[digest].problems:
        yield f"in {column.name} {problem.text()}"


def _apart(first: Row, base: Column, row: Row, other: Column) -> Iterable[str]:
    mine, theirs = first.environment, row.environment
    if mine is not None and theirs is not None and mine.digest != theirs.digest:
        words = [f"{each.runtime} {each.digest[:12] or 'of its own'}" for each in (mine, theirs)]
        yield f"lock or image {words[0]} in {base.name}, {words[1]} in {other.name}"
    if first.identity is None or row.identity is None:
        return
    for name, word in SAME_WORK:
        values = [str(getattr(each.identity, name))[:12] or "none" for each in (first, row)]
        if getattr(first.identity, name) != getattr(row.identity, name):
            yield f"{word} {values[0]} in {base.name}, {values[1]} in {other.name}"
    for name, here, there in _versions(first, row):
        if name not in _MACHINE_VERSIONS:
            yield f"version of {name} {here} in {base.name}, {there} in {other.name}"


def _versions(first: Row, row: Row) -> Iterable[tuple[str, str, str]]:
    """Those that differ."""
    mine = first.identity.versions if first.identity else {}
    theirs = row.identity.versions if row.identity else {}
    for name in sorted(mine.keys() | theirs.keys()):
        if mine.get(name) != theirs.get(name):
            yield name, mine.get(name, "none"), theirs.get(name, "none")


def _remarks(first: Row, base: Column, row: Row, other: Column) -> Iterable[str]:
    for name, here, there in _versions(first, row):
        yield f"{name} {here} in {base.name}, {there} in {other.name}"
    devices = [each.identity.device.name if each.identity else "" for each in (first, row)]
    if devices[0] != devices[1]:
        yield f"device {devices[0] or 'unnamed'} in {base.name}, {devices[1] or 'unnamed'} in {other.name}"
    for each, column in ((first, base), (row, other)):
        if each.certificate is None or each.certificate.state != PASS:
            yield f"not verified in {column.name}"
        if each.environment is not None and not each.environment.digest:
            yield f"an environment of its own in {column.name}: nothing but versions is known of it"


def _other_setting(base: Column, other: Column) -> Iterable[str]:
    mine, theirs = base.campaign.threads, other.campaign.threads
    if mine != theirs:
        yield f"threads {mine} in {base.name}, {theirs} in {other.name}"


def _other_machine(base: Column, other: Column) -> Iterable[str]:
    here, there = base.campaign, other.campaign
    for name, word in (("cpu", "processor"), ("cpu_count", "cores"), ("gpus", "GPUs")):
        ours, theirs = getattr(base.machine, name), getattr(other.machine, name)
        if ours != theirs:
            yield f"{word}: {_words(ours)} in {base.name}, {_words(theirs)} in {other.name}"
    if here.controller_version != there.controller_version:
        yield f"controller: {here.controller_version} in {base.name}, {there.controller_version} in {other.name}"


def _words(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value) or "unknown"


def _other_workloads(base: Column, other: Column) -> Iterable[str]:
    """Workloads that only one of the two has, each beside the closest of the same name."""
    mine = [base.groups[digest].workload for digest in base.rows if digest not in other.rows]
    theirs = [other.groups[digest].workload for digest in other.rows if digest not in base.rows]
    for workload in mine:
        like = [each for each in theirs if each.name == workload.name]
        if not like:
            yield f"workload {workload.name} is not in {other.name}"
            continue
        closest = min(like, key=lambda each: len(workload_words.differences(workload, each)))
        theirs.remove(closest)
        yield f"workload {workload.name}: {workload_words.text(workload, closest, base.name, other.name)}"
    yield from (f"workload {each.name} is not in {base.name}" for each in theirs)
