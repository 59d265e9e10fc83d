"""Makes ready what a campaign needs before its first probe or trial: hosts and runners chosen, data there,
environments built."""

import itertools
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from controller import paths
from controller.catalog import workloads as workload_catalog
from controller.datasets import prepare as datasets
from controller.errors import ControllerError, UsageError
from controller.events import Note, Observer
from controller.execution import Settings, Work, now
from controller.places import Place, find
from controller.results import Cell, Machine, WorkloadSummary
from controller.runtimes.base import PreparedRunner, Runtime
from controller.runtimes.service import stage
from controller.runtimes.venv import VenvRuntime
from controller.wishes import CompareRequest

__all__ = ["CompareRequest", "Ready", "new_id", "new_seed", "prepare"]

Runners = Mapping[tuple[str, str], PreparedRunner | ControllerError]
"""By host and runner, as ``Cell.place`` has them."""


@dataclass(frozen=True, slots=True)
class Ready:
    """All that is there before the first probe or trial. ``works``: by the digest of the cells' workload; ``places``
    and ``settings``: by the name of the host."""

    cells: tuple[Cell, ...]
    summaries: tuple[WorkloadSummary, ...]
    works: Mapping[str, Work]
    runners: Runners
    places: Mapping[str, Place]
    settings: Mapping[str, Settings]
    notes: tuple[str, ...]

    @property
    def campaign(self) -> str:
        """Its id."""
        return self.common.campaign

    @property
    def common(self) -> Settings:
        """Settings of the first host; threads, logs and the service's digest are those of all."""
        return next(iter(self.settings.values()))

    @property
    def machines(self) -> dict[str, Machine]:
        """Of each host that is looked at."""
        return {name: place.machine for name, place in self.places.items() if place.machine is not None}

    @property
    def near(self) -> Runtime:
        """How a reference is had: on this machine if it takes part, or else the engine of another that does."""
        near = [place.managed for place in self.places.values() if not place.address.is_served]
        return near[0] if near else VenvRuntime()


def prepare(request: CompareRequest, observe: Observer) -> Ready:
    """Raises ControllerError where nothing could be compared at all; what only one runner lacks is its value."""
    places = find(request, observe)
    notes = list(dict.fromkeys(note for place in places for note in place.notes))
    notes += _shared(places, request)
    works, summaries = _prepare_data(request, observe, notes)
    runners = _prepare_runners(places, request, observe)
    name = request.resumed.id if request.resumed else new_id()
    return Ready(
        cells=tuple(_cells(places, summaries, request)),
        summaries=summaries,
        works=works,
        runners=runners,
        places={place.name: place for place in places},
        settings=_settings(name, places, request),
        notes=tuple(notes),
    )


def new_id() -> str:
    """A campaign's name: its day and eight random digits."""
    return f"{now()[:10]}-{uuid.uuid4().hex[:8]}"


def new_seed() -> int:
    """A seed for the order of trials when none is given; it is stored."""
    return random.SystemRandom().randrange(2**31)


def _settings(name: str, places: Sequence[Place], request: CompareRequest) -> dict[str, Settings]:
    logs = paths.state_folder() / "logs" / name
    logs.mkdir(parents=True, exist_ok=True)
    cores = [place.machine.cpu_count for place in places if place.machine is not None]
    threads = request.threads or min(cores, default=1)
    return {
        place.name: Settings(name, request.device, place.gpu_uuid, threads, logs, stage().digest) for place in places
    }


def _shared(places: Sequence[Place], request: CompareRequest) -> list[str]:
    """What is to be said of hosts that are one machine. Raises UsageError where they cannot be."""
    names = [place.name for place in places]
    if unknown := [name for name in request.exclusive if name not in names]:
        raise UsageError(f"--exclusive {unknown[0]}: no --host is called so", f"hosts are {', '.join(names)}")
    by_uuid: dict[str, list[str]] = {}
    for place in places:
        if place.gpu_uuid:
            by_uuid.setdefault(place.gpu_uuid, []).append(place.name)
    uuids = {place.gpu_uuid for place in places if place.name in request.exclusive}
    if request.device == "gpu" and len(uuids) > 1:
        raise UsageError(
            f"--exclusive {','.join(request.exclusive)}: they are on different GPUs: {', '.join(sorted(uuids))}",
            "leave it out: trials of a campaign never overlap",
        )
    return [f"{' and '.join(shared)} are on one GPU, {uuid}" for uuid, shared in by_uuid.items() if len(shared) > 1]


def _prepare_runners(places: Sequence[Place], request: CompareRequest, observe: Observer) -> Runners:
    """Environments on one host after the other: they may be one machine. Raises the one error if not a single one
    stands."""
    prepared: dict[tuple[str, str], PreparedRunner | ControllerError] = {}
    for place in places:
        prepared |= {(place.name, name): found for name, found in place.prepare(request.device, observe).items()}
    failures = [result for result in prepared.values() if isinstance(result, ControllerError)]
    if len(failures) == len(prepared) == 1:
        raise failures[0]
    return prepared


def _prepare_data(
    request: CompareRequest, observe: Observer, notes: list[str]
) -> tuple[dict[str, Work], tuple[WorkloadSummary, ...]]:
    works: dict[str, Work] = {}
    summaries = []
    for workload in request.workloads:
        data = datasets.prepare(workload, data_dir=request.data_dir, cache=paths.cache_folder(), observer=observe)
        if data.note and data.note not in notes:
            notes.append(data.note)
            observe(Note(data.note))
        summary = workload_catalog.summarise(data.workload)
        if summary.digest in works:
            continue
        message = workload_catalog.serialise(data.workload)
        works[summary.digest] = Work(message, summary.digest, dict(data.arrays), data.blobs)
        summaries.append(summary)
    return works, tuple(summaries)


def _cells(places: Sequence[Place], workloads: Sequence[WorkloadSummary], request: CompareRequest) -> Iterator[Cell]:
    device = "cpu" if request.device == "cpu" else f"gpu:{request.gpu_index or 0}"
    for workload, place in itertools.product(workloads, places):
        for spec, variant in itertools.product(place.specs, request.variants):
            yield Cell(spec.name, workload.name, workload.digest, variant, place.name, device)
