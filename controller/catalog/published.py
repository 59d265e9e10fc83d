"""The published tables that the catalog's workloads reproduce, as data: ``published/*.toml``."""

import statistics
import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from controller.errors import UnknownNameError

FOLDER = Path(__file__).parent / "published"

Seconds = Annotated[float, Field(gt=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Row(_Strict):
    """One printed row. ``seconds`` are those of every run given, of what the table's ``measure`` says.

    ``version`` is the framework's (for Keras its backend's), empty where it is not stated; ``memory_gb`` as printed;
    ``quality`` is an accuracy as a fraction of 1, or a loss.
    """

    framework: str
    version: str
    gpu: str
    host: str
    variant: str = ""
    seconds: Annotated[tuple[Seconds, ...], Field(min_length=1)]
    memory_gb: float | None = None
    quality: float | None = None
    note: str = ""

    @property
    def median_seconds(self) -> float:
        return statistics.median(self.seconds)


class Table(_Strict):
    """One printed table. ``notes`` say where the original was not the same work in every row, or not what it
    was called; those of the whole comparison come after its own."""

    name: str
    workload: str
    title: str
    measure: Literal["seconds", "seconds_per_epoch"]
    quality: Literal["accuracy", "loss", ""] = ""
    epochs: int | None = None
    steps: int | None = None
    notes: tuple[str, ...] = ()
    row: Annotated[tuple[Row, ...], Field(min_length=1)]
    comparison: str = ""
    source: str = ""

    def best(self, gpu: str, host: str) -> Row:
        """The fastest row of one machine by median. Raises ValueError if there is none."""
        return min((row for row in self.row if (row.gpu, row.host) == (gpu, host)), key=lambda row: row.median_seconds)

    def ratio(self, row: Row) -> float:
        """How many times as long as the fastest of the same machine."""
        return row.median_seconds / self.best(row.gpu, row.host).median_seconds


class _Comparison(_Strict):
    title: str
    source: str
    notes: tuple[str, ...]
    table: tuple[Table, ...]

    def tables(self) -> tuple[Table, ...]:
        common = {"comparison": self.title, "source": self.source}
        return tuple(table.model_copy(update={**common, "notes": table.notes + self.notes}) for table in self.table)


@cache
def tables() -> tuple[Table, ...]:
    """Every published table."""
    found: list[Table] = []
    for path in sorted(FOLDER.glob("*.toml")):
        found += _Comparison.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).tables()
    return tuple(found)


def find(name: str) -> Table:
    """A table by its own name or its workload's. Raises UnknownNameError."""
    for table in tables():
        if name in (table.name, table.workload):
            return table
    raise UnknownNameError("published table", name, [table.name for table in tables()])
