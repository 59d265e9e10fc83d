"""Reads a workload file and says precisely what is wrong with it: file, line, layer, key, next step."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from trainyard import graph
from trainyard.v1.workload_pb2 import Layer, Workload

from controller.catalog import workload_file as tables
from controller.errors import WorkloadFileError

_LAYER_HEADER = re.compile(r"\s*\[\[\s*layer\s*\]\]")
_EXCLUSIVE = (("warmup_steps", "warmup_epochs"), ("steps", "epochs"))

# What to do about what ``graph.parse`` refuses, by a part of its message.
_REMEDIES = (
    ("dense needs an input", "put a flatten or a global pooling layer before it"),
    (
        "needs an input of shape (height, width, channels)",
        "put it before the flatten or dense layer, or name an earlier layer in its inputs",
    ),
    ("needs an input of shape", "name a layer that gives such a shape in its inputs"),
    ("does not fit an input", 'use a smaller window, or padding = "same"'),
    ("its output is used by no other layer", "name it in another layer's inputs, or remove it"),
    ("is no earlier layer", "name a layer that stands before it in the file, or 'input'"),
    ("start with an embedding", "make an embedding the first layer"),
    ("leave the last softmax out", "remove that layer"),
    ("of shape", "make the two shapes equal"),
)

Table = TypeVar("Table", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Definition:
    """What one file says: the workload, and its ``[quick]`` table if it has one."""

    workload: Workload
    description: str
    quick: tables.QuickTable | None


def read(path: Path, shown: str) -> Definition:
    """Reads ``path``, called ``shown`` in messages. Raises WorkloadFileError."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except OSError as error:
        raise WorkloadFileError(f"cannot read workload file {shown}: {error.strerror}", "check the path") from None
    except UnicodeDecodeError:
        raise WorkloadFileError(f"workload file {shown} is not UTF-8 text", "save it as UTF-8") from None
    return _Reader(text, shown).definition()


class _Reader:
    """One file on its way to a message."""

    def __init__(self, text: str, shown: str) -> None:
        self._shown = shown
        self._lines = [number for number, line in enumerate(text.splitlines(), 1) if _LAYER_HEADER.match(line)]
        try:
            self._data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            self._fail(f"is not valid TOML: {error}", "correct the syntax there")
        except RecursionError:
            self._fail("is nested too deeply", "a workload needs at most three levels")

    def definition(self) -> Definition:
        table = self._table(tables.FileTable, "", self._data)
        dataset = tables.dataset_message(self._dataset(table))
        layers = self._layers(table, dataset)
        optimizer = self._chosen("optimizer", tables.OPTIMIZERS, table.optimizer)
        schedule = self._schedule("schedule", tables.ScheduleTable, table.schedule)
        workload = tables.workload_message(
            table, layers, dataset, tables.optimizer_message(optimizer), tables.schedule_message(schedule)
        )
        self._check(workload)
        quick = None if table.quick is None else self._schedule("quick", tables.QuickTable, table.quick)
        return Definition(workload, table.description, quick)

    def _dataset(self, table: tables.FileTable) -> tables.AnyDataset:
        data = {"name": table.dataset} if isinstance(table.dataset, str) else table.dataset
        return self._chosen("dataset", tables.DATASETS, data)

    def _layers(self, table: tables.FileTable, dataset: Any) -> list[Layer]:
        if (table.layer is None) == (table.model is None):
            self._fail("needs either [[layer]] tables or one [model] table", "give exactly one of the two")
        if table.model is not None:
            return self._table(tables.ResnetModel, "model", table.model).layers()
        found = [self._layer(number, data) for number, data in enumerate(table.layer or (), 1)]
        return tables.layer_messages(found, dataset)

    def _layer(self, number: int, data: Mapping[str, Any]) -> tables.AnyLayer:
        name = f" {data['name']!r}" if isinstance(data.get("name"), str) else ""
        return self._chosen(f"layer {number}{name}", tables.LAYERS, data, key="op", line=self._line(number))

    def _schedule(self, where: str, kind: type[Table], data: Mapping[str, Any]) -> Table:
        table = self._table(kind, where, data)
        for first, second in _EXCLUSIVE:
            if first in data and second in data:
                self._fail(f"[{where}] has both {first} and {second}", "keep one of the two")
            if kind is tables.ScheduleTable and first not in data and second not in data:
                self._fail(f"[{where}] has neither {first} nor {second}", "add one of the two")
        return table

    def _chosen(
        self, where: str, kinds: Mapping[str, type[Table]], data: Mapping[str, Any], key: str = "name", line: int = 0
    ) -> Table:
        """Validates ``data`` by the model that ``data[key]`` selects."""
        value = data.get(key)
        if not isinstance(value, str):
            problem = "is missing" if value is None else f"must be a text, not {value!r}"
            self._fail(f"{where}: {key!r} {problem}", f"known: {', '.join(kinds)}", line)
        if value not in kinds:
            what = key if key == "op" else where
            self._fail(f"{where}: unknown {what} {value!r}", suggestion(value, kinds), line)
        return self._table(kinds[value], f"{where}: {value}" if key == "op" else where, data, line)

    def _table(self, kind: type[Table], where: str, data: Mapping[str, Any], line: int = 0) -> Table:
        try:
            return kind.model_validate(data)
        except ValidationError as error:
            # A misspelt key is also one that is missing: what is there and wrong is told first.
            found = sorted(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
            message, hint = _explain(found[0], kind)
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            self._fail((f"{where}: " if where else "") + message + more, hint, line)

    def _check(self, workload: Workload) -> None:
        try:
            model = graph.parse(workload)
        except graph.WorkloadError as error:
            names = [layer.name for layer in workload.layers]
            line = next((self._line(i) for i, name in enumerate(names, 1) if _names(error.field, name)), 0)
            hint = next((hint for part, hint in _REMEDIES if part in str(error)), f"correct {error.field}")
            self._fail(str(error), hint, line)
        problem = label_problem(model)
        if problem:
            self._fail(problem, "give the last layer as many units as there are classes", self._line(len(self._lines)))

    def _line(self, layer_number: int) -> int:
        return self._lines[layer_number - 1] if 0 < layer_number <= len(self._lines) else 0

    def _fail(self, message: str, hint: str, line: int = 0) -> NoReturn:
        where = f"{self._shown}:{line}" if line else self._shown
        raise WorkloadFileError(f"workload file {where}: {message}", hint)


def _names(field: str, layer: str) -> bool:
    """Whether a WorkloadError's field, such as ``layer c1.padding``, is about that layer."""
    return re.match(rf"layer {re.escape(layer)}([. :]|\Z)", field) is not None


def suggestion(value: str, known: Iterable[str]) -> str:
    """The closest known word, if any is close, and all of them."""
    names = list(known)
    close = difflib.get_close_matches(value, names, n=1, cutoff=0.5)
    return (f"did you mean {close[0]!r}? " if close else "") + f"known: {', '.join(names)}"


_OWN_LAYER = 'an activation is a layer of its own: add [[layer]] with op = "relu" after it'
_TABLES = ("dataset", "optimizer", "schedule")


def _explain(error: Mapping[str, Any], kind: type[BaseModel]) -> tuple[str, str]:
    """(what is wrong, next step) of one pydantic error."""
    key, inner = str(error["loc"][0]), error["loc"][1:]
    if error["type"] == "extra_forbidden":
        hint = _OWN_LAYER if key == "activation" else suggestion(key, kind.model_fields)
        return f"unknown key {key!r}", hint
    if error["type"] == "missing":
        return f"{key!r} is missing", f"add [{key}]" if key in _TABLES else f"add {key} = ..."
    number = next((f" number {part + 1}" for part in inner if isinstance(part, int)), "")
    rule = str(error["msg"]).removeprefix("Input ").removeprefix("Value ")
    return f"{key}{number} {_shown_value(error['input'])} {rule}", f"correct {key}"


def _shown_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def class_count(workload: Workload) -> int:
    """Number of classes that the labels of a workload's dataset have."""
    kind = workload.dataset.WhichOneof("kind")
    if kind == "synthetic":
        return int(workload.dataset.synthetic.classes)
    return {"mnist": 10, "cifar10": 10, "imdb": 2, "nietzsche": int(graph.NIETZSCHE_CHARACTERS)}[str(kind)]


def label_problem(model: Any) -> str | None:
    """Why a ``trainyard.graph.Model`` cannot tell its dataset's classes or hold its words, or None."""
    workload, last = model.workload, model.nodes[-1]
    classes, outputs = class_count(workload), max(model.classes, 2)
    if classes > outputs:
        return f"layer {last.name}: its output of shape {last.shape} cannot tell the dataset's {classes} classes apart"
    words = getattr(getattr(workload.dataset, workload.dataset.WhichOneof("kind")), "vocabulary", 0)
    for node in model.nodes:
        if node.op == "embedding" and node.fields.vocabulary < words:
            held = node.fields.vocabulary
            return f"layer {node.name}: a vocabulary of {held} cannot hold the dataset's {words} words"
    return None
