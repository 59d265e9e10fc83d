"""The columns of a comparison as texts, shared by every report, so that all of them show the same numbers.

Narrow terminals lose columns in the order of ``DROP_ORDER``; the others always stay. Numbers are never wrapped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from controller.report.words import mark
from controller.rows import Row
from controller.statistics import Interval

MEBIBYTE = 1024 * 1024
ABSENT = "-"


@dataclass(frozen=True, slots=True)
class Column:
    """``text`` gives a row's cell. An ``optional`` column is shown only if a row has something in it; one that
    ``folds`` may take several lines, broken at spaces."""

    key: str
    header: str
    text: Callable[[Row], str]
    is_number: bool = True
    optional: bool = False
    folds: bool = False

    def width(self, rows: Sequence[Row]) -> int:
        """Characters that the column needs at least."""
        texts = [self.text(row) for row in rows]
        words = [word for text in texts for word in text.split()] if self.folds else texts
        return max(map(len, [self.header, *words]))


def number(value: float | None) -> str:
    """At least three significant digits, thousands separated; ``-`` for None."""
    if value is None:
        return ABSENT
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 or value == 0 else f"{value:.3g}"


def _count(value: int | None) -> str:
    return ABSENT if value is None else f"{value:,}"


def _fraction(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.4f}"


def _memory(kind: str) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        size = row.memory_bytes(kind)
        return ABSENT if size is None else f"{size / MEBIBYTE:,.0f}"

    return text


def _time(row: Row) -> str:
    if row.seconds is not None:
        return number(row.seconds.median)
    return row.state


def _range(interval: Interval | None) -> str:
    return ABSENT if interval is None else f"{number(interval.low)}..{number(interval.high)}"


def _ratio_range(row: Row) -> str:
    found = row.ratio_interval
    return ABSENT if found is None else f"{found.low:.2f}..{found.high:.2f}"


def _flags(row: Row) -> str:
    return " ".join(dict.fromkeys(flag.name for flag in row.flags if flag.name != mark(row)))


def _ratio(row: Row) -> str:
    if word := mark(row):
        return word
    return ABSENT if row.ratio is None else f"{row.ratio:.2f}"


def _place(value: str, usual: str) -> str:
    return "" if value == usual else value


COLUMNS = (
    Column("runner", "runner", lambda row: row.cell.runner, is_number=False),
    Column("variant", "variant", lambda row: row.cell.variant.label(), False, True, folds=True),
    Column("host", "host", lambda row: _place(row.cell.host, "local"), is_number=False, optional=True),
    Column("device", "device", lambda row: _place(row.cell.device, "cpu"), is_number=False, optional=True),
    Column("trials", "trials", lambda row: f"{row.succeeded}/{row.asked}"),
    Column("epochs", "epochs", lambda row: _count(row.workload.epochs), optional=True),
    Column("steps", "steps", lambda row: _count(row.workload.steps), optional=True),
    Column("batch_size", "batch", lambda row: _count(row.workload.batch_size)),
    Column("learning_rate", "learning rate", lambda row: f"{row.workload.learning_rate:g}"),
    Column("optimizer", "optimizer", lambda row: row.workload.optimizer, is_number=False),
    Column("warmup", "warm-up", lambda row: row.workload.warmup, is_number=False),
    Column("seconds", "time s", _time),
    Column("seconds_interval", "95% s", lambda row: _range(row.seconds.interval if row.seconds else None)),
    Column("ratio", "ratio", _ratio),
    Column("ratio_interval", "95% ratio", _ratio_range, optional=True),
    Column("ties", "tie", lambda row: row.ties, is_number=False, optional=True),
    Column("flags", "flags", _flags, is_number=False, optional=True, folds=True),
    Column("epoch_seconds", "s/epoch", lambda row: number(row.epoch_seconds), optional=True),
    Column("step_milliseconds", "step ms", lambda row: number(_times(row.step_seconds, 1000))),
    Column("samples_per_second", "samples/s", lambda row: number(row.samples_per_second)),
    Column("host_rss_peak", "host MiB", _memory("host_rss_peak")),
    Column("workers_pss", "loader MiB", _memory("workers_pss"), optional=True),
    Column("allocator_allocated_peak", "allocated MiB", _memory("allocator_allocated_peak"), optional=True),
    Column("allocator_reserved_peak", "reserved MiB", _memory("allocator_reserved_peak"), optional=True),
    Column("device_peak", "device MiB", _memory("device_peak"), optional=True),
    Column("accuracy", "accuracy", lambda row: _fraction(row.accuracy)),
    Column("test_loss", "test loss", lambda row: _fraction(row.test_loss)),
)

# The first is lost first. What always stays: runner, variant, host, device, time, ratio, ties, flags.
DROP_ORDER = (
    "warmup", "optimizer", "learning_rate", "batch_size", "test_loss", "workers_pss", "allocator_reserved_peak",
    "epochs", "steps", "step_milliseconds", "samples_per_second", "seconds_interval", "allocator_allocated_peak",
    "device_peak", "host_rss_peak", "epoch_seconds", "trials", "ratio_interval", "accuracy",
)  # fmt: skip


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def filled(rows: Sequence[Row]) -> tuple[Column, ...]:
    """The columns that these rows need."""
    return tuple(
        column for column in COLUMNS if not column.optional or any(column.text(row) not in ("", ABSENT) for row in rows)
    )


def fitting(columns: Sequence[Column], rows: Sequence[Row], width: int, gap: int) -> tuple[Column, ...]:
    """The columns that fit in ``width`` characters with ``gap`` between two, lost in ``DROP_ORDER``."""
    kept = list(columns)
    for key in DROP_ORDER:
        if total_width(kept, rows, gap) <= width:
            break
        kept = [column for column in kept if column.key != key]
    return tuple(kept)


def total_width(columns: Sequence[Column], rows: Sequence[Row], gap: int) -> int:
    """Characters that a table of these columns needs at least."""
    return sum(column.width(rows) for column in columns) + gap * (len(columns) - 1)


def shown(row: Row, columns: Sequence[Column] = COLUMNS) -> dict[str, str]:
    """Text of each column of a row, as printed."""
    return {column.key: column.text(row) for column in columns}
