"""Hosts of a comparison: which runners each has, and how they are had there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from controller import calibration, hosts
from controller.addresses import Address
from controller.catalog import runners as runner_catalog
from controller.catalog.runners import RunnerSpec
from controller.errors import ControllerError, HostError
from controller.events import BuildProgress, Note, Observer
from controller.results import Calibration, Machine
from controller.runtimes import choice, interpreter
from controller.runtimes.base import PreparedRunner, Runtime
from controller.runtimes.interpreter import InterpreterRuntime
from controller.runtimes.links import link
from controller.runtimes.remote import RemoteRuntime, describe
from controller.runtimes.service import stage
from controller.runtimes.venv import VenvRuntime
from controller.settling import Pause, look_at
from controller.wishes import REFERENCE, CompareRequest


class Quiet(Protocol):
    """Waits before a trial until its host is quiet."""

    def wait(self) -> str:
        """What it was not back at; empty where it was."""


@dataclass(frozen=True, slots=True)
class Place:
    """One host. ``managed``: how runners are had there that are not the user's own interpreters; ``runtimes``: each
    runner's. ``machine`` is None for the engine of another machine, which is not looked at."""

    address: Address
    machine: Machine | None
    gpu: hosts.Gpu | None
    specs: tuple[RunnerSpec, ...]
    runtimes: Mapping[str, Runtime]
    managed: Runtime
    notes: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """What cells call it."""
        return self.address.name

    @property
    def gpu_uuid(self) -> str:
        """Of the GPU that is trained on; empty on the CPU."""
        return self.gpu.uuid if self.gpu else ""

    def pause(self, campaign: str, seconds: float) -> Quiet:
        """What waits for this host, not longer than ``seconds`` each time."""
        if isinstance(self.managed, RemoteRuntime):
            return _RemotePause(self.managed, campaign, self.gpu_uuid, seconds)
        return Pause(seconds if self.address.is_local else 0.0, look_at(self.gpu_uuid))

    def calibrate(self) -> Calibration:
        """How fast it is without any framework."""
        if isinstance(self.managed, RemoteRuntime):
            try:
                return self.managed.calibrate()
            except ControllerError as error:
                return Calibration(self.name, self.managed.name, {}, {"all": error.line()})
        return calibration.of_host(self.name, self.managed.name)

    def prepare(self, device: str, observe: Observer) -> dict[str, PreparedRunner | ControllerError]:
        """Environments of all its runners, several built at once. Raises ControllerError."""
        prepared: dict[str, PreparedRunner | ControllerError] = {}
        groups: dict[int, tuple[Runtime, list[RunnerSpec]]] = {}
        for spec in self.specs:
            runtime = self.runtimes[spec.name]
            groups.setdefault(id(runtime), (runtime, []))[1].append(spec)
        for runtime, specs in groups.values():
            prepared.update(runtime.prepare(specs, device, observe))
        for name, result in prepared.items():
            if isinstance(result, ControllerError):
                observe(BuildProgress(name, "failed", result.line()))
        return prepared


@dataclass(frozen=True, slots=True)
class _RemotePause:
    runtime: RemoteRuntime
    campaign: str
    gpu_uuid: str
    seconds: float

    def wait(self) -> str:
        if self.seconds <= 0:
            return ""
        try:
            return self.runtime.settle(self.campaign, self.gpu_uuid, self.seconds)
        except ControllerError:
            return ""  # the trial that follows says why the host does not answer


def find(request: CompareRequest, observe: Observer) -> tuple[Place, ...]:
    """All hosts of a comparison, with the runners that the request means. Raises ControllerError where one does not
    answer, or can have none of them."""
    return tuple(_place(address, request, observe) for address in request.hosts)


def _place(address: Address, request: CompareRequest, observe: Observer) -> Place:
    """A default runner that the host cannot have is left out with a note; one that was asked for by name stays, and
    becomes a row that says why it failed."""
    own = {entry.spec.name: entry for entry in interpreter.resolve(request.interpreters)} if address.is_local else {}
    specs = {spec.name: spec for spec in (*_asked(request), *(entry.spec for entry in own.values()))}
    managed, machine, gpu, notes = _managed(address, request, [spec for name, spec in specs.items() if name not in own])
    mine = InterpreterRuntime({name: entry.path for name, entry in own.items()})
    runtimes: dict[str, Runtime] = {name: mine if name in own else managed for name in specs}
    for note in notes:
        observe(Note(note))
    if not request.runners:
        specs, left_out = _usable(address, specs, runtimes, request.device, observe)
        notes = (*notes, *left_out)
    return Place(address, machine, gpu, tuple(specs.values()), runtimes, managed, notes)


def _asked(request: CompareRequest) -> list[RunnerSpec]:
    """The pinned runners that the request means. The reference takes part only if it is named: it is what others are
    held to."""
    if request.every_runner and not request.runners:
        return [spec for spec in runner_catalog.load().values() if spec.name != REFERENCE]
    return runner_catalog.select(request.runners)


def _managed(
    address: Address, request: CompareRequest, specs: Sequence[RunnerSpec]
) -> tuple[Runtime, Machine | None, hosts.Gpu | None, tuple[str, ...]]:
    if address.is_served:
        return _served(address, request)
    gpu = _gpu(address, request)
    machine = hosts.machine() if address.is_local else None
    wish = choice.Wish(request.runtime, address.name, request.device, gpu, request.limits)
    docker = choice.containers(wish, specs)
    if docker is None:
        slow = hosts.slow_cache()
        return VenvRuntime(gpu=gpu), machine, gpu, (slow,) if slow else ()
    return docker, machine, gpu, (f"containers on {docker.engine.text()}; limits: {docker.limits.text()}",)


def _served(
    address: Address, request: CompareRequest
) -> tuple[Runtime, Machine | None, hosts.Gpu | None, tuple[str, ...]]:
    reached = link(address, request.certificate)
    facts = describe(reached)
    if facts.service_digest != stage().digest:
        raise HostError(
            f"host {address.text()} has other service code than this controller (its Trainyard is "
            f"{facts.controller_version}): their trials are not compared",
            "install the same version on both, and start controller serve again",
        )
    gpu = None
    if request.device == "gpu":
        index = request.gpu_index or 0
        gpu = next((each for each in facts.gpus if each.index == index), None)
        if gpu is None:
            listed = ", ".join(f"{each.index} ({each.name})" for each in facts.gpus) or facts.no_gpu
            raise HostError(f"host {address.name} has no GPU {index}: {listed}", "use --device cpu, or another --gpu")
    slow = facts.told.get(hosts.SLOW_CACHE, "")
    return RemoteRuntime(reached, facts, gpu), facts.machine, gpu, (f"{address.name}: {slow}",) if slow else ()


def _gpu(address: Address, request: CompareRequest) -> hosts.Gpu | None:
    if request.device != "gpu":
        return None
    if not address.is_local:
        raise HostError(f"GPUs of {address.name} cannot be used yet", "run controller serve on that machine")
    return hosts.gpu(request.gpu_index or 0)


def _usable(
    address: Address, specs: Mapping[str, RunnerSpec], runtimes: Mapping[str, Runtime], device: str, observe: Observer
) -> tuple[dict[str, RunnerSpec], tuple[str, ...]]:
    where = "" if address.is_local else f" on {address.name}"
    usable, notes = {}, []
    for name, spec in specs.items():
        answer = runtimes[name].availability(spec, device)
        if answer.ok:
            usable[name] = spec
        else:
            remedy = f" ({answer.remedy})" if answer.remedy else ""
            notes.append(f"{name} is left out{where}: {answer.reason}{remedy}")
            observe(Note(notes[-1]))
    if not usable:
        which = "this machine" if address.is_local else f"host {address.name}"
        raise HostError(f"{which} can have none of the default runners: " + "; ".join(notes))
    return usable, tuple(notes)
