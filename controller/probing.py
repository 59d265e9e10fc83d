"""Asks runners for probes: the few steps that a certificate is made from. Nothing is timed.

An answer depends on the environment, the service's source, the probed workload and its data, the variant and the
device. What was answered for the same of all these is taken from the store, and then no process is started.
"""

import json
import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trainyard import graph
from trainyard.v1 import runner_pb2
from trainyard.v1.workload_pb2 import Workload

from controller.addresses import LOCAL
from controller.catalog import probes as catalog
from controller.catalog import workloads
from controller.client import RunnerClient
from controller.datasets.prepare import Prepared
from controller.errors import ControllerError, RunnerError, TrialRefused
from controller.events import Observer, ProbeProgress
from controller.execution import Settings, Work, connected, execution, wrong_device
from controller.results import Failure, Probe, Variant
from controller.runtimes.base import PreparedRunner, StartOptions
from controller.store import Store

STEPS = 5
PROBE_SECONDS = 3600.0
# Raised whenever the same request would be answered otherwise.
PROBE_FORMAT = 1
# The reference's float64 numbers do not depend on which NumPy computes them; its source is in the service's digest.
ANY_ENVIRONMENT = "any"

# What no change of the machine makes possible: the reasons that runners/core/check.py and adapters give.
_LASTING = tuple(f"UNSUPPORTED {what} " for what in ("layer", "loss", "optimizer"))

Answer = Probe | Failure
Runner = Callable[[], PreparedRunner | ControllerError]


@dataclass(frozen=True, slots=True)
class Form:
    """A workload as it is probed: ready to be sent, its ``trainyard.graph.Model``, and what was cut down."""

    work: Work
    model: Any
    cut: str


@dataclass(frozen=True, slots=True)
class Task:
    """One probe. ``environment`` is the digest of the runner's; empty: not known, so the answer is not kept."""

    runner: str
    environment: str
    form: Form
    variant: Variant
    settings: Settings
    perturbation: float = 0.0
    host: str = LOCAL

    @property
    def key(self) -> str:
        """All that the answer depends on, as text."""
        parts = {
            "format": PROBE_FORMAT,
            "runner": self.runner,
            "environment": self.environment,
            "service": self.settings.expected_service,
            "workload": self.form.work.digest,
            "data": self.form.work.arrays,
            "variant": asdict(self.variant),
            "device": self.settings.device,
            "gpu": self.settings.gpu_uuid,
            "steps": STEPS,
            "perturbation": self.perturbation,
        }
        if self.host != LOCAL:
            parts["host"] = self.host  # the same lock is another build on another system
        return json.dumps(parts, sort_keys=True)

    def request(self) -> Any:
        """The ProbeRequest."""
        work = self.form.work
        return runner_pb2.ProbeRequest(
            workload=work.message,
            arrays=[runner_pb2.Array(role=role, sha256=digest) for role, digest in work.arrays.items()],
            execution=execution(self.variant, self.settings),
            steps=STEPS,
            detail=True,
            perturbation=self.perturbation,
        )


def form_of(workload: Workload, work: Work, prepare: Callable[[Workload], Prepared]) -> Form:
    """The probed form of a prepared workload; ``prepare`` makes the data of one that is cut down."""
    found = catalog.probe_form(workload, STEPS)
    arrays, blobs = work.arrays, work.blobs
    if found.workload.dataset != workload.dataset:
        data = prepare(found.workload)
        arrays, blobs = dict(data.arrays), data.blobs
    message = workloads.serialise(found.workload)
    return Form(Work(message, graph.digest(message), arrays, blobs), graph.parse(found.workload), found.cut)


class Prober:
    """Answers tasks, from the store or by asking. With ``fresh`` nothing is taken from the store."""

    def __init__(self, observe: Observer, store: Store, *, fresh: bool = False) -> None:
        self._observe = observe
        self._store = store
        self._fresh = fresh
        self._answers: dict[str, Answer] = {}
        self._number = self._total = 0

    def answers(self, groups: Iterable[tuple[Runner, Sequence[Task]]]) -> dict[str, Answer]:
        """An answer for each task, by its key. A group's runner is had only if one of its tasks must be asked, and
        one server answers all of the group. Raises nothing but KeyboardInterrupt and what is a bug."""
        waiting = [(runner, self._unknown(tasks)) for runner, tasks in groups]
        self._total = sum(len(tasks) for _, tasks in waiting)
        for runner, tasks in waiting:
            if tasks:
                self._group(runner(), tasks)
        return self._answers

    def _unknown(self, tasks: Sequence[Task]) -> list[Task]:
        """Those that nobody has answered yet, each once."""
        unknown = {}
        for task in tasks:
            kept = None if self._fresh or not task.environment else self._store.probe(task.key)
            if kept is not None:
                self._answers[task.key] = kept
            elif task.key not in self._answers:
                unknown[task.key] = task
        return list(unknown.values())

    def _group(self, runner: PreparedRunner | ControllerError, tasks: Sequence[Task]) -> None:
        waiting = list(tasks)
        while waiting:
            is_serving = False
            try:
                if isinstance(runner, ControllerError):
                    raise runner
                with connected(runner, _options(runner, waiting), waiting[0].settings) as (client, _):
                    is_serving = True
                    while waiting:
                        self._observe(self._progress(waiting[0], "running"))
                        self._done(waiting[0], _ask(client, waiting[0]))
                        del waiting[0]
            except ControllerError as error:
                # A server that does not start will not start for the next either; one that died may serve the next.
                for task in waiting[:1] if is_serving else waiting:
                    self._done(task, _failure(error))
                del waiting[: 1 if is_serving else None]

    def _done(self, task: Task, answer: Answer) -> None:
        if task.environment and _is_kept(answer):
            self._store.keep_probe(task.key, answer)
        self._answers[task.key] = answer
        if isinstance(answer, Failure):
            self._observe(self._progress(task, "failed", answer.message))
        else:
            self._observe(self._progress(task, "done"))
        self._number += 1

    def _progress(self, task: Task, state: str, text: str = "") -> ProbeProgress:
        name = task.form.model.workload.name
        return ProbeProgress(self._number + 1, self._total, task.runner, name, state, text)


def _options(runner: PreparedRunner, tasks: Sequence[Task]) -> StartOptions:
    settings, name = tasks[0].settings, uuid.uuid4().hex
    return StartOptions(
        threads=settings.threads,
        blobs=tasks[0].form.work.blobs,
        log=settings.logs / f"probe-{runner.spec.name}-{name[:8]}.log",
        gpu_uuid=settings.gpu_uuid,
        arrays=tuple(dict.fromkeys(digest for task in tasks for digest in task.form.work.arrays.values())),
        campaign=settings.campaign,
        trial=name,
    )


def _ask(client: RunnerClient, task: Task) -> Answer:
    """Raises RunnerError where the runner is lost."""
    try:
        answer = client.probe(task.request(), PROBE_SECONDS)
    except TrialRefused as error:
        return _failure(error)
    return wrong_device(answer.device, task.settings) or answer


def _failure(error: ControllerError) -> Failure:
    reason = error.reason if isinstance(error, RunnerError) else "NO_ENVIRONMENT"
    return Failure(reason, error.line(), getattr(error, "log_tail", ""))


def is_unsupported(answer: Answer) -> bool:
    """Whether the runner said that it has no such layer, loss, optimizer or variant."""
    return isinstance(answer, Failure) and answer.reason.startswith("UNSUPPORTED")


def _is_kept(answer: Answer) -> bool:
    """What will be answered again: not a crash, not a variant that this machine lacks something for (a compiler), and
    not numbers that the store could not give back."""
    if isinstance(answer, Failure):
        return answer.reason.startswith(_LASTING)
    numbers = [*answer.losses, answer.gradient_norm]
    for output in answer.outputs:
        numbers += [output.norm, output.ramp]
    for each in answer.parameters:
        numbers += [each.initial, each.final, each.moved, each.ramp, each.gradient or 0.0]
    return all(map(math.isfinite, numbers))
