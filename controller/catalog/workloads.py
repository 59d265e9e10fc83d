"""Workloads by name or file: found, checked, changed, shortened, serialized and summarised."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard import graph
from trainyard.v1.workload_pb2 import Workload

from controller.errors import UnknownNameError, UsageError
from controller.results import WorkloadSummary

if TYPE_CHECKING:
    from controller.catalog.workload_reader import Definition

MODELS = Path(__file__).parent / "models"
SUFFIX = ".toml"

# What ``--quick`` means for a file without a [quick] table: at most so many steps.
QUICK_WARMUP_STEPS = 20
QUICK_STEPS = 100

_DISPLAY = {"sgd": "SGD", "adam": "Adam", "rmsprop": "RMSProp", "adadelta": "Adadelta"}


@cache
def names() -> tuple[str, ...]:
    """The catalog's workloads, sorted."""
    return tuple(sorted(path.stem for path in MODELS.glob("*" + SUFFIX)))


def load(name_or_path: str) -> "Definition":
    """Everything that a catalog workload's file, or the file at a path ending in .toml, says.

    Raises UnknownNameError for a name that the catalog does not have, WorkloadFileError for a bad file.
    """
    from controller.catalog.workload_reader import read

    if name_or_path.endswith(SUFFIX):
        return read(Path(name_or_path), name_or_path)
    if name_or_path not in names():
        if Path(name_or_path).is_dir():
            raise UsageError(f"workload {name_or_path} is a folder", f"give a workload file of it, ending in {SUFFIX}")
        raise UnknownNameError("workload", name_or_path, names(), f"; or the path of a file ending in {SUFFIX}")
    return read(MODELS / (name_or_path + SUFFIX), name_or_path + SUFFIX)


def find(name_or_path: str, *, quick: bool = False) -> Workload:
    """The checked Workload message; with ``quick`` its shortened form. Raises as ``load``."""
    definition = load(name_or_path)
    return shortened(definition) if quick else definition.workload


def shortened(definition: "Definition") -> Workload:
    """The workload with its [quick] table in place of its schedule's numbers; without such a table with at most
    ``QUICK_WARMUP_STEPS`` and ``QUICK_STEPS`` steps. Another schedule, so another digest."""
    if definition.quick is not None:
        return override(definition.workload, **definition.quick.model_dump())
    schedule = definition.workload.schedule
    return override(
        definition.workload,
        warmup_steps=min(schedule.warmup_steps or QUICK_WARMUP_STEPS, QUICK_WARMUP_STEPS),
        steps=min(schedule.steps or QUICK_STEPS, QUICK_STEPS),
    )


def override(
    workload: Workload,
    *,
    batch_size: int | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    warmup_steps: int | None = None,
    warmup_epochs: int | None = None,
    seed: int | None = None,
) -> Workload:
    """A copy with some numbers replaced; steps replace epochs and the other way round. Changes the digest.

    Raises UsageError for both of a pair, or a number that is out of range.
    """
    _refuse_both(steps=steps, epochs=epochs)
    _refuse_both(warmup_steps=warmup_steps, warmup_epochs=warmup_epochs)
    changed = Workload()
    changed.CopyFrom(workload)
    schedule = {
        "batch_size": batch_size,
        "steps": steps,
        "epochs": epochs,
        "warmup_steps": warmup_steps,
        "warmup_epochs": warmup_epochs,
    }
    for key, value in schedule.items():
        if value is not None:
            _require(key, value, 1, graph.MAX_STEPS)
            setattr(changed.schedule, key, value)
    if seed is not None:
        _require("seed", seed, 0, graph.MAX_SEED)
        changed.seed = seed
    return _checked(changed)


def serialise(workload: Workload) -> bytes:
    """The bytes that are sent and whose SHA-256 is the workload's digest."""
    return bytes(workload.SerializeToString(deterministic=True))


def needs_data(workload: Workload) -> bool:
    """Whether the size of the model becomes known only when the data is prepared (an embedding of bigrams)."""
    return workload.dataset.WhichOneof("kind") == "imdb" and bool(workload.dataset.imdb.bigrams)


def summarise(workload: Workload) -> WorkloadSummary:
    """A workload as tables show it. Where ``needs_data`` is true, summarise the prepared workload: the
    parameter count and digest of the unprepared one are not those of what is trained."""
    model, message = graph.parse(workload), serialise(workload)
    schedule = workload.schedule
    return WorkloadSummary(
        name=workload.name,
        digest=graph.digest(message),
        dataset=_dataset_words(workload),
        batch_size=schedule.batch_size,
        optimizer=_DISPLAY[workload.optimizer.WhichOneof("kind")],
        learning_rate=workload.optimizer.learning_rate,
        warmup=_duration_words(workload, "warmup"),
        measured=_duration_words(workload, "measured"),
        epochs=schedule.epochs if schedule.WhichOneof("measured") == "epochs" else None,
        steps=schedule.steps if schedule.WhichOneof("measured") == "steps" else None,
        seed=workload.seed,
        parameter_count=model.parameter_count,
        message=message.hex(),
    )


def _checked(workload: Workload) -> Workload:
    try:
        graph.parse(workload)
    except graph.WorkloadError as error:
        raise UsageError(f"workload {workload.name}: {error}", "give another number") from None
    return workload


def _refuse_both(**pair: int | None) -> None:
    if all(value is not None for value in pair.values()):
        first, second = pair
        raise UsageError(f"both {_option(first)} and {_option(second)} are given", "give one of the two")


def _require(key: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise UsageError(f"{_option(key)} {value} is out of range", f"give a whole number from {low} to {high}")


def _option(key: str) -> str:
    return "--" + key.replace("_", "-")


def _duration_words(workload: Workload, group: str) -> str:
    key = workload.schedule.WhichOneof(group)
    count, unit = getattr(workload.schedule, key), key.removeprefix("warmup_")
    return f"{count:,} {unit if count != 1 else unit.removesuffix('s')}"


def _dataset_words(workload: Workload) -> str:
    kind = workload.dataset.WhichOneof("kind")
    options = getattr(workload.dataset, kind)
    if kind == "cifar10" and options.augment != "none":
        return f"cifar10 ({options.augment})"
    if kind == "imdb":
        pairs = " and bigrams" if options.bigrams else ""
        return f"imdb ({options.vocabulary:,} words{pairs}, {options.maxlen} long)"
    if kind == "nietzsche":
        return f"nietzsche ({options.maxlen} characters every {options.step})"
    if kind == "synthetic":
        return f"synthetic ({' x '.join(map(str, options.shape))}, {options.classes} classes)"
    return str(kind)
