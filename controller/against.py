"""Other numbers beside those of a comparison: another campaign's, or a published table's. Pure functions.

- Cells of campaigns are matched by digest of the workload, runner and variant; rows of a published table by the name of
  the workload, the framework and whether it compiled just in time.
- What is not alike is said in words: other machine, other version, other schedule, not the same work.
- Nothing is claimed from such numbers: they were not measured in the same blocks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.comparison import Comparison, Group
from controller.results import Campaign, Cell, WorkloadSummary
from controller.rows import Row

SECONDS, SECONDS_PER_EPOCH = "seconds", "seconds_per_epoch"


@dataclass(frozen=True, slots=True)
class Value:
    """A number beside a row: seconds of the unit of its column, and a ratio as the column's ``meaning`` says."""

    seconds: float
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """One column: numbers of one origin. ``meaning`` explains it in words, the ratio in brackets included;
    ``same_work``: whether as much was trained as here, so that the times can stand in one chart."""

    key: str
    header: str
    unit: str
    meaning: str
    values: Mapping[Cell, Value]
    same_work: bool = True


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside the rows of one workload, and ``lines`` that say what differs."""

    title: str
    setups: tuple[Setup, ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Against:
    """``name`` as it was asked for; ``groups`` by digest of the workload; ``lines`` hold for the whole."""

    name: str
    groups: Mapping[str, Beside]
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Printed:
    """A row of a published table. ``jit``: whether it says that it compiled; ``ratio``: to its machine's fastest."""

    framework: str
    version: str
    gpu: str
    host: str
    variant: str
    jit: bool
    seconds: float
    ratio: float
    note: str = ""

    def label(self) -> str:
        """Framework, version and variant."""
        name = f"{self.framework} {self.version}".strip()
        return f"{name} ({self.variant})" if self.variant else name

    def is_of(self, cell: Cell) -> bool:
        """Whether it is of the cell's framework and, as far as is printed, variant."""
        stem = self.framework.lower().replace(" on ", "-").replace(" ", "-")
        return self.jit == cell.variant.jit and (cell.runner == stem or cell.runner.startswith(f"{stem}-"))


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published table as far as it is needed here; ``standard`` is the catalog's workload that reproduces it."""

    name: str
    title: str
    source: str
    unit: str
    standard: WorkloadSummary
    rows: tuple[Printed, ...]
    notes: tuple[str, ...] = field(default=())


# --- a published table -------------------------------------------------------------------------------------


def published(comparison: Comparison, name: str, tables: Sequence[PublishedTable]) -> Against:
    """Published tables beside the workloads that they are of."""
    by_workload = {table.standard.name: table for table in tables}
    groups = {
        group.workload.digest: _published_group(group, by_workload[group.workload.name], comparison.campaign)
        for group in comparison.groups
        if group.workload.name in by_workload
    }
    used = {group.workload.name for group in comparison.groups}
    lines = [
        f"against {table.name}: this campaign has no {table.standard.name}"
        for table in tables
        if table.standard.name not in used
    ]
    return Against(name, groups, tuple(lines))


def _published_group(group: Group, table: PublishedTable, campaign: Campaign) -> Beside:
    machines = dict.fromkeys((printed.gpu, printed.host) for printed in table.rows)
    chosen = {
        (machine, row.cell): printed
        for machine in machines
        for row in group.rows
        if (printed := _closest(row, [each for each in table.rows if (each.gpu, each.host) == machine])) is not None
    }
    other_work = list(_other_schedule(group.workload, table.standard))
    setups = []
    for number, machine in enumerate(machines):
        values = {cell: Value(each.seconds, each.ratio) for (where, cell), each in chosen.items() if where == machine}
        if values:
            meaning = f"published on {', '.join(machine)}; in brackets the ratio to the fastest of that machine"
            header = _header(machine, machines)
            setups.append(Setup(f"against_{number}", header, table.unit, meaning, values, not other_work))
    lines = [
        *_other_machine(campaign, group.rows, machines),
        *other_work,
        *_other_versions(chosen),
        *_unmatched(group.rows, {cell for _, cell in chosen}, table.rows, chosen.values()),
        *(f"not alike: {note}" for note in table.notes),
    ]
    return Beside(f"{table.name}: {table.title} ({table.source})", tuple(setups), tuple(lines))


def _closest(row: Row, printed: Sequence[Printed]) -> Printed | None:
    """Of the row's framework; of its very version where there is one, else the first that is printed."""
    found = [each for each in printed if each.is_of(row.cell)]
    same = [each for each in found if each.version and row.cell.runner.endswith(f"-{each.version}")]
    return next(iter([*same, *found]), None)


def _header(machine: tuple[str, str], machines: Iterable[tuple[str, str]]) -> str:
    """The GPU, and the system where the table has several for this GPU."""
    gpu, host = machine
    hosts = {system for name, system in machines if name == gpu}
    return f"{gpu}, {host}" if len(hosts) > 1 else gpu


def _other_machine(campaign: Campaign, rows: Sequence[Row], machines: Iterable[tuple[str, str]]) -> Iterable[str]:
    here = dict.fromkeys(_device(row, campaign) for row in rows)
    there = "; ".join(", ".join(machine) for machine in machines)
    yield f"machine: {'; '.join(here)} here, {there} there"


def _device(row: Row, campaign: Campaign) -> str:
    name = row.identity.device.name if row.identity else ""
    return name or (campaign.machine.cpu if row.cell.device == "cpu" else row.cell.device)


def _other_schedule(here: WorkloadSummary, there: WorkloadSummary) -> Iterable[str]:
    fields = (("measured", "measured"), ("warmup", "warm-up"), ("batch_size", "batch"), ("optimizer", "optimizer"),
              ("learning_rate", "learning rate"), ("dataset", "data"))  # fmt: skip
    for name, word in fields:
        mine, other = getattr(here, name), getattr(there, name)
        if mine != other:
            yield f"other work: {word} {mine} here, {other} there"


def _other_versions(chosen: Mapping[tuple[tuple[str, str], Cell], Printed]) -> Iterable[str]:
    lines: dict[str, None] = {}
    for (_, cell), printed in chosen.items():
        if not printed.version or not cell.runner.endswith(f"-{printed.version}") or printed.variant or printed.note:
            note = f": {printed.note}" if printed.note else ""
            lines[f"{cell.label()} stands beside {printed.label()}{note}"] = None
    return lines


def _unmatched(
    rows: Sequence[Row], matched: set[Cell], printed: Sequence[Printed], used: Iterable[Printed]
) -> Iterable[str]:
    if left := [row.label() for row in rows if row.cell not in matched]:
        yield f"no number there for {', '.join(left)}"
    taken = set(used)
    if rest := dict.fromkeys(each.label() for each in printed if each not in taken):
        yield f"no row here for {', '.join(rest)}"


# --- another campaign --------------------------------------------------------------------------------------


def campaign(comparison: Comparison, name: str, other: Comparison) -> Against:
    """Another campaign's medians beside the same cells."""
    theirs = {group.workload.digest: group for group in other.groups}
    groups = {
        group.workload.digest: _campaign_group(group, theirs[group.workload.digest], other.campaign, name)
        for group in comparison.groups
        if group.workload.digest in theirs
    }
    differences = list(_differences(comparison, other)) or ["same machine, threads and source of the runner service"]
    lines = [f"against {other.campaign.id}: {text}" for text in differences]
    lines += [
        f"against {other.campaign.id}: it has no {group.workload.name} with sha256 {group.workload.digest[:12]}"
        for group in comparison.groups
        if group.workload.digest not in theirs
    ]
    return Against(name, groups, tuple(lines))


def _campaign_group(group: Group, other: Group, campaign: Campaign, name: str) -> Beside:
    values: dict[Cell, Value] = {}
    pairs: list[tuple[Row, Row]] = []
    for row in group.rows:
        match = _same_cell(row, other.rows)
        if match is None:
            continue
        pairs.append((row, match))
        if match.seconds is not None:
            ratio = row.seconds.median / match.seconds.median if row.seconds else None
            values[row.cell] = Value(match.seconds.median, ratio)
    lines = [text for pair in pairs for text in _pair_lines(*pair)]
    seen = {id(match) for _, match in pairs}
    if left := [row.label() for row in group.rows if row.cell not in {mine.cell for mine, _ in pairs}]:
        lines.append(f"no row there for {', '.join(left)}")
    if rest := [row.label() for row in other.rows if id(row) not in seen]:
        lines.append(f"no row here for {', '.join(rest)}")
    meaning = "its median; in brackets the time of this campaign over it"
    header = campaign.created_at[:10] if campaign.id.startswith(name) else name
    setup = Setup("against_0", header, SECONDS, meaning, values)
    return Beside(f"campaign {campaign.id} of {campaign.created_at}", (setup,) if values else (), tuple(lines))


def _same_cell(row: Row, others: Sequence[Row]) -> Row | None:
    """The same runner and variant; on the same host and device where there is one."""
    found = [each for each in others if (each.cell.runner, each.cell.variant) == (row.cell.runner, row.cell.variant)]
    same = [each for each in found if (each.cell.host, each.cell.device) == (row.cell.host, row.cell.device)]
    return next(iter([*same, *found]), None)


def _pair_lines(row: Row, other: Row) -> Iterable[str]:
    label = row.label()
    if (row.cell.host, row.cell.device) != (other.cell.host, other.cell.device):
        yield f"{label}: ran there on {other.cell.host}, {other.cell.device}"
    if row.environment and other.environment and row.environment.digest != other.environment.digest:
        yield f"{label}: other environment ({other.environment.runtime} {other.environment.digest[:12] or 'own'} there)"
    if row.identity is None or other.identity is None:
        return
    if row.identity.device.name != other.identity.device.name:
        yield f"{label}: {row.identity.device.name or 'cpu'} here, {other.identity.device.name or 'cpu'} there"
    for name, word in (("data_digest", "data"), ("weights_digest", "initial weights")):
        if getattr(row.identity, name) != getattr(other.identity, name):
            yield f"{label}: other {word}, not the same work"
    names = sorted(row.identity.versions.keys() | other.identity.versions.keys())
    changed = [
        f"{name} {there or 'none'}"
        for name in names
        if row.identity.versions.get(name, "") != (there := other.identity.versions.get(name, ""))
    ]
    if changed:
        yield f"{label}: other versions there: {', '.join(changed)}"


def _differences(mine: Comparison, other: Comparison) -> Iterable[str]:
    here, there = mine.campaign, other.campaign
    for name, word in (("cpu", "processor"), ("cpu_count", "cores"), ("gpus", "GPUs"), ("system", "system")):
        ours, theirs = getattr(here.machine, name), getattr(there.machine, name)
        if ours != theirs:
            yield f"{word}: {_words(ours)} here, {_words(theirs)} there"
    if here.threads != there.threads:
        yield f"threads: {here.threads} here, {there.threads} there"
    if here.controller_version != there.controller_version:
        yield f"controller: {here.controller_version} here, {there.controller_version} there"
    services = [{row.identity.service_digest for row in side.rows if row.identity} for side in (mine, other)]
    if services[0] != services[1]:
        yield "source of the runner service: another there"


def _words(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value) or "unknown"
