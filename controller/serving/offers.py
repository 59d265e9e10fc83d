"""What this host offers: the machine, and its runners, which are made ready on request."""

from collections.abc import Callable, Sequence
from typing import Any

from trainyard.v1 import host_pb2

import controller
from controller import hosts
from controller.catalog import runners as catalog
from controller.catalog.runners import RunnerSpec
from controller.errors import ControllerError, UsageError
from controller.events import BuildProgress, Event
from controller.results import Machine
from controller.runtimes import choice
from controller.runtimes.base import PreparedRunner, Runtime
from controller.runtimes.service import stage
from controller.runtimes.venv import VenvRuntime
from controller.serving.limits import Limits, invalid, of_error

DEVICES = ("cpu", "gpu")
Key = tuple[str, str, str]
Send = Callable[[Any], None]


class Offers:
    """``runtime`` as in ``choice.Wish``."""

    def __init__(self, runtime: str, limits: Limits) -> None:
        self._runtime = runtime
        self._limits = limits
        self._prepared: dict[Key, PreparedRunner] = {}

    # --- the machine ---------------------------------------------------------------------------------------

    def describe(self) -> Any:
        """The DescribeHostResponse."""
        machine, search = hosts.machine(), hosts.find_gpus()
        reply = host_pb2.DescribeHostResponse(
            controller_version=controller.__version__,
            service_digest=stage().digest,
            name=machine.name,
            system=machine.system,
            cpu=machine.cpu,
            cpu_count=machine.cpu_count,
            memory_bytes=machine.memory_bytes,
            no_gpu="" if search.gpus else "; ".join(search.looked_at),
            limits=self._limits.named(),
            facts=hosts.facts(),
        )
        for gpu in search.gpus:
            reply.gpus.add(
                index=gpu.index, uuid=gpu.uuid, name=gpu.name, pci_bus_id=gpu.pci_bus_id,
                memory_bytes=gpu.memory_bytes, driver=gpu.driver, capability=gpu.capability,
            )  # fmt: skip
        self._describe_runners(reply, machine)
        return reply

    def _describe_runners(self, reply: Any, machine: Machine) -> None:
        specs = list(catalog.load().values())
        for device in DEVICES if machine.gpus else DEVICES[:1]:
            uuid = reply.gpus[0].uuid if device == "gpu" else ""
            try:
                runtime = self._runtime_for(specs, device, uuid)
            except ControllerError as error:
                for spec in specs:
                    reply.runners.add(runner=spec.name, device=device, ok=False, reason=error.line())
                continue
            reply.engine = reply.engine or (runtime.engine.text() if hasattr(runtime, "engine") else "")
            for spec in specs:
                answer = runtime.availability(spec, device)
                reply.runners.add(
                    runner=spec.name, device=device, ok=answer.ok, reason=answer.reason, remedy=answer.remedy
                )

    def _runtime_for(self, specs: Sequence[RunnerSpec], device: str, uuid: str) -> Runtime:
        """Raises ControllerError."""
        gpu = self._gpu(uuid) if device == "gpu" else None
        wanted = [spec for spec in specs if spec.default] or specs
        docker = choice.containers(choice.Wish(self._runtime, choice.LOCAL, device, gpu, {}), wanted)
        return docker or VenvRuntime(gpu=gpu)

    def _gpu(self, uuid: str) -> hosts.Gpu:
        for gpu in hosts.find_gpus().gpus:
            if gpu.uuid == uuid:
                return gpu
        known = ", ".join(gpu.uuid for gpu in hosts.find_gpus().gpus) or "none"
        raise UsageError(f"this host has no GPU {uuid or 'without a UUID'}", f"it has {known}")

    # --- runners -------------------------------------------------------------------------------------------

    def prepare(self, request: Any, send: Send) -> None:
        """Makes runners ready, and sends PrepareRunnersEvent messages. Raises Refusal."""
        specs = self._specs(request)
        try:
            runtime = self._runtime_for(specs, request.device, request.gpu_uuid)

            def observe(event: Event) -> None:
                if isinstance(event, BuildProgress):
                    send(_step(event))

            found = runtime.prepare(specs, request.device, observe)
        except ControllerError as error:
            raise of_error(error) from error
        for name, result in found.items():
            if not isinstance(result, ControllerError):
                self._prepared[name, request.device, request.gpu_uuid] = result
            send(_prepared(name, result))

    def runner(self, name: str, device: str, gpu_uuid: str) -> PreparedRunner:
        """One that was made ready. Raises Refusal."""
        found = self._prepared.get((name, device, gpu_uuid))
        if found is None:
            known = ", ".join(sorted({key[0] for key in self._prepared})) or "none"
            raise invalid("runner", f"{name[:64]!r} on {device[:8]!r} was not made ready here; ready: {known}")
        return found

    def _specs(self, request: Any) -> list[RunnerSpec]:
        if request.device not in DEVICES:
            raise invalid("device", f"device {request.device[:16]!r} is not cpu or gpu")
        if request.gpu_uuid and request.device != "gpu":  # it would become a variable of the runner as it is
            raise invalid("gpu_uuid", "a runner on the CPU has no GPU")
        if not 0 < len(request.runners) <= len(catalog.load()):
            raise invalid("runners", f"name 1 to {len(catalog.load())} runners")
        try:
            return catalog.select(list(dict.fromkeys(request.runners)))
        except ControllerError as error:
            raise invalid("runners", error.line()) from error


def _step(event: BuildProgress) -> Any:
    step = host_pb2.BuildStep(runner=event.runner, state=event.state, stage=event.stage)
    if event.fraction is not None:
        step.fraction = event.fraction
    return host_pb2.PrepareRunnersEvent(progressed=step)


def _prepared(name: str, result: PreparedRunner | ControllerError) -> Any:
    message = host_pb2.PreparedRunner(runner=name)
    if isinstance(result, ControllerError):
        message.error, message.log_tail = result.line(), getattr(result, "log_tail", "")
    else:
        where = result.environment
        message.runtime, message.digest, message.location = where.runtime, where.digest, where.location
    return host_pb2.PrepareRunnersEvent(prepared=message)
