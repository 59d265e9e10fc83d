"""The harness tests itself: planted cheats, each of which must be caught, and would not be without its check.

A cheat is caught if its trial fails, or its row carries a flag; the word says which. Cheats are scripts of events
over real gRPC (wire.py), adapters in the real trial, or adapters in the real probe.
"""

import queue
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from trainyard import graph
from trainyard.v1 import runner_pb2

from controller import acceptance, client, execution, flags
from controller.certificate import TOLERANCES, certify
from controller.results import PASS, Certificate
from controller.telemetry import summary
from runners.core import datasets, probe, trial
from runners.core.failures import TrialFailed
from runners.reference.adapter import Loader, ReferenceAdapter
from tests.contract import sketch
from tests.contract.train_checks import MODELS
from tests.unit import fake_nvml, wire
from tests.unit.runners import service
from tests.unit.runners.test_trial import run as run_in_process

# --- over the wire -----------------------------------------------------------------------------------------


def said(script, count=1, device="cpu", uuid="", versions=None, driver=None):
    """A cheat that is a script of events; ``driver`` is what NVML says meanwhile."""

    def verdict(folder):
        sys.modules["pynvml"] = driver or fake_nvml.data_centre(wire.GPU)
        more = {"versions": versions} if versions else {}
        done = wire.trials(wire.Script(script, **more), folder, count, device, uuid)
        failed = [entry.failure.reason for entry in done if entry.failure]
        raised = [flag.name for flag in flags.flags(done, None)]
        return " ".join(dict.fromkeys([*failed, *raised]))

    return verdict


def other_gpu(request, number):
    yield wire.started(request, "gpu", "GPU-ffffffff-1111-2222-3333-444444444444")
    yield wire.finished(number)


def back_to_cpu(request, number):
    yield wire.started(request, "cpu")
    yield wire.finished(number)


def greedy(request, number):
    yield wire.started(request, "gpu", wire.GPU)
    yield wire.finished(number, memory=[runner_pb2.Memory(kind="allocator_reserved_peak", bytes=9 * 2**30)])


def idle(request, number):
    """Says that it computes on the GPU, and does not."""
    yield wire.started(request, "gpu", wire.GPU)
    time.sleep(1.6)
    yield wire.finished(number, seconds=1.5)


def half_the_steps(request, number):
    yield wire.started(request, measured_steps=wire.STEPS // 2)
    yield wire.finished(number, steps=wire.STEPS // 2)


def sleeps_in_the_first(request, number):
    yield wire.started(request)
    yield wire.finished(number, seconds=0.0032 if number else 0.0064)


def slows_down(request, number):
    yield wire.started(request)
    yield wire.finished(number, slope=0.02)


def stored_and_slow(request, number):
    yield wire.started(request)
    yield wire.finished(number, seconds=3600.0)


def stored_and_patient(request, number):
    yield wire.started(request)
    yield wire.finished(0)


def stored_of_another(request, number):
    yield wire.started(request, workload_digest="of another")
    yield wire.finished(number)


def silent(request, number):
    yield wire.started(request)
    time.sleep(4)
    yield wire.finished(number)


def babbling(request, number):
    yield wire.started(request)
    yield from wire.slowly([wire.progressed(3)] * 40, 0.1)
    yield wire.finished(number)


def ends_without_result(request, number):
    yield wire.started(request)


def twice(request, number):
    yield from wire.honest(request, number)
    yield wire.finished(number, seconds=0.0016)


def starts_twice(request, number):
    yield wire.started(request)
    yield from wire.honest(request, number)


def never_starts(request, number):
    yield wire.finished(number)


def malformed(**changes):
    def script(request, number):
        yield wire.started(request)
        yield wire.finished(number, **changes)

    return script


def sends(event):
    def script(request, number):
        yield wire.started(request)
        yield event
        yield wire.finished(number)

    return script


# --- in the real trial -------------------------------------------------------------------------------------


def trained(adapter):
    """A cheat that is an adapter, in the stopwatch's own loop."""

    def verdict(folder):
        try:
            run_in_process(folder, service.workload(), adapter())
        except TrialFailed as error:
            return error.reason
        return ""

    return verdict


class Deferred(ReferenceAdapter):
    """Its steps only queue work; ``wait`` waits for it."""

    STEP_SECONDS = 0.1

    def build(self, model, initial):
        super().build(model, initial)
        self._queue = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def step(self, batch):
        self._queue.put(batch)
        return batch

    def _work(self):
        while True:
            self._queue.get()
            time.sleep(self.STEP_SECONDS)
            self._queue.task_done()

    def wait(self):
        self._queue.join()

    def read(self, loss):
        self._queue.join()
        return 1.0


class Returns(Deferred):
    """The same, and its ``wait`` returns at once."""

    def wait(self):
        pass


# --- in the real probe -------------------------------------------------------------------------------------


def probed(adapter):
    """A cheat that is an adapter, beside the reference."""

    def verdict(folder):
        model = MODELS["mlp"]()
        found, expected = (_probe(each, model, folder) for each in (adapter(), ReferenceAdapter()))
        found = certify(found, expected, graph.parse(model.workload), TOLERANCES["float32"], against="the reference")
        return " ".join(flag.name for flag in flags.flags([], found))

    return verdict


def _probe(adapter, model, folder):
    x, y = sketch.samples(model, 5 * model.workload.schedule.batch_size)
    request = runner_pb2.ProbeRequest(
        workload=model.workload.SerializeToString(), execution=service.execution(), steps=5, detail=True,
        arrays=service.store(folder / "blobs", {"x_train": x, "y_train": y, "x_test": x[:8], "y_test": y[:8]}),
    )  # fmt: skip
    blobs = datasets.Blobs(str(folder / "blobs"))
    return client._probe(probe.run(adapter, request, graph.parse(model.workload), blobs))


class EverySecond(ReferenceAdapter):
    """Trains half of the steps."""

    trained = 0

    def update(self):
        self.trained += 1
        if self.trained % 2:
            super().update()


class OneBatch(ReferenceAdapter):
    """Repeats one batch."""

    def loader(self, source):
        return Repeating(source)


class Repeating(Loader):
    def epoch(self, number):
        batches = list(super().epoch(number))
        return iter(batches[:1] * len(batches))


class WrongLoss(ReferenceAdapter):
    """Reports another loss than it trains with."""

    def step(self, batch):
        return 0.9 * super().step(batch)


def handed_over(adapter, source, count):
    """Batches past the loader, as a probe would have them that trusts it."""
    batches = [source.take(0, indices) for indices in source.order(0)][:count]
    return [float(adapter.read(adapter.step(adapter.put(*batch)))) for batch in batches]


# --- the table ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cheat:
    """``verdict(folder)`` says by what it was caught; ``checks`` are (module or class, attribute, what stands there
    when the check is removed). Without checks it cannot pass: there would be no result at all."""

    verdict: Callable
    caught: str
    checks: tuple = ()
    setting: tuple = field(default=())


def nothing(*_, **__):
    return None


def no_flags(*_):
    return ()


def certified(*_, **__):
    return Certificate(PASS)


def trusting_take(events, event, take=client._Events.take):
    return events.outcome is not None or take(events, event)


def trusting_start(events, event, take=client._Events.take):
    if event.WhichOneof("event") == "started":
        events._started = None
    return event.WhichOneof("event") is None or take(events, event)


def skipping_empty(events, event, take=client._Events.take):
    return event.WhichOneof("event") is not None and take(events, event)


def fed_by_babble(events, progress):
    events._watchdog.feed()


STALL = (execution, "STALL_SECONDS", 1.5)
PATIENCE = (execution, "STALL_SECONDS", 60.0)
DEVICE = (execution, "wrong_device", nothing)
MALFORMED = (acceptance, "_malformed", nothing)
SHORT = (acceptance, "_short", nothing)
NAN = float("nan")
IMPLAUSIBLE = (acceptance, "_implausible", nothing)

CHEATS = {
    "returns before the device has finished": Cheat(
        trained(Returns), "NOT_WAITED", ((trial.Trial, "_check_waited", nothing),)
    ),
    "trains half of the steps": Cheat(said(half_the_steps), "SHORT", (SHORT, MALFORMED)),
    "trains half of the steps and counts all": Cheat(
        said(malformed(sample_count=wire.STEPS // 2 * wire.BATCH)), "PROTOCOL", (MALFORMED,)
    ),
    "updates in half of the steps": Cheat(probed(EverySecond), "UNEQUAL", ((__name__, "certify", certified),)),
    "repeats one batch": Cheat(probed(OneBatch), "UNEQUAL", ((probe, "_losses", handed_over),)),
    "reports a wrong loss": Cheat(probed(WrongLoss), "UNEQUAL", ((__name__, "certify", certified),)),
    "computes on another device": Cheat(said(other_gpu, 1, "gpu", wire.GPU), "FALLBACK", (DEVICE,)),
    "falls back to the CPU": Cheat(said(back_to_cpu, 1, "gpu", wire.GPU), "FALLBACK", (DEVICE,)),
    "falls back to the CPU and says it did not": Cheat(
        said(idle, 1, "gpu", wire.GPU, driver=fake_nvml.data_centre(wire.GPU, gpu=0)),
        "FALLBACK", ((flags, "_device", no_flags),)
    ),
    "allocates beyond the device": Cheat(
        said(greedy, 1, "gpu", wire.GPU, driver=fake_nvml.desktop_wddm(wire.GPU)),
        "SPILLED", ((summary, "_over_capacity", lambda *_: 0.0),)
    ),
    "sleeps in the first trial only": Cheat(
        said(sleeps_in_the_first, 5), "UNSTABLE", ((flags, "_slow_start", no_flags),)
    ),
    "slows down over time": Cheat(said(slows_down, 3), "UNSTABLE", ((flags, "_drift", no_flags),)),
    "returns a stored result": Cheat(
        said(stored_and_slow), "IMPLAUSIBLE", (IMPLAUSIBLE,)
    ),
    "returns one stored result again and again": Cheat(
        said(stored_and_patient, 3), "STORED", ((flags, "_stored", no_flags),)
    ),
    "returns the result of another workload": Cheat(
        said(stored_of_another), "WRONG_WORKLOAD", ((execution, "_check_started", nothing),)
    ),
    "claims another version": Cheat(
        said(wire.honest, versions={"fake": "2.0"}), "WRONG_VERSION", ((execution, "_check_description", nothing),)
    ),
    "hangs": Cheat(said(silent), "TIMEOUT", (PATIENCE,), STALL),
    "hangs and says the same again and again": Cheat(
        said(babbling), "TIMEOUT", ((client._Events, "_take_progress", fed_by_babble),), STALL
    ),
    "ends the call without a result": Cheat(said(ends_without_result), "PROTOCOL"),
    "sends a result twice": Cheat(said(twice), "PROTOCOL", ((client._Events, "take", trusting_take),)),
    "starts twice": Cheat(said(starts_twice), "PROTOCOL", ((client._Events, "take", trusting_start),)),
    "sends a result before it has started": Cheat(said(never_starts), "PROTOCOL"),
    "sends an event without content": Cheat(
        said(sends(runner_pb2.TrainEvent())), "PROTOCOL", ((client._Events, "take", skipping_empty),)
    ),
    "sends bytes that are no event": Cheat(said(sends(b"\xff\xff\xff")), "INTERNAL"),
    "sends a state that nobody knows": Cheat(said(malformed(state="splendid")), "PROTOCOL"),
    "sends a time that is nan": Cheat(said(malformed(measured_seconds=NAN)), "PROTOCOL", (MALFORMED, IMPLAUSIBLE)),
    "sends no time at all": Cheat(said(malformed(measured_seconds=0.0)), "PROTOCOL", (MALFORMED,)),
    "sends steps that last longer than the whole": Cheat(
        said(malformed(step_seconds=[0.1] * wire.STEPS)), "PROTOCOL", (MALFORMED,)
    ),
    "sends epochs that last longer than the whole": Cheat(
        said(malformed(epoch_seconds=[0.1] * 4)), "PROTOCOL", (MALFORMED,)
    ),
    "sends losses of steps that there are none of": Cheat(
        said(malformed(losses=[0.5], loss_steps=[wire.STEPS])), "PROTOCOL", (MALFORMED,)
    ),
    "sends an accuracy above 1": Cheat(said(malformed(test_accuracy=1.5)), "PROTOCOL", (MALFORMED,)),
}  # fmt: skip


def planted(cheat, patch):
    patch.setitem(sys.modules, "pynvml", None)  # puts back what was there
    if cheat.setting:
        patch.setattr(*cheat.setting)


def removed(check, patch):
    place, name, stands = check
    if place == __name__:
        patch.setitem(globals(), name, stands)
    else:
        patch.setattr(place, name, stands)


@pytest.mark.parametrize("name", CHEATS)
def test_it_is_caught(name, tmp_path, monkeypatch):
    planted(CHEATS[name], monkeypatch)
    assert CHEATS[name].verdict(tmp_path) == CHEATS[name].caught


@pytest.mark.parametrize("name", [name for name, cheat in CHEATS.items() if cheat.checks])
def test_without_its_check_it_passes(name, tmp_path, monkeypatch):
    planted(CHEATS[name], monkeypatch)
    for check in CHEATS[name].checks:
        removed(check, monkeypatch)
    assert CHEATS[name].verdict(tmp_path) == ""


def test_an_honest_runner_passes(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert said(wire.honest, 5)(tmp_path) == ""
    assert probed(ReferenceAdapter)(tmp_path) == ""


def test_work_that_is_only_queued_is_in_the_measured_time(tmp_path):
    done = run_in_process(tmp_path, service.workload(), Deferred())
    assert done.measured_seconds >= 16 * Deferred.STEP_SECONDS
    # Each step returned at once: what the device still had to do is in the whole, and in no step.
    assert sum(done.step_seconds) < done.measured_seconds


@pytest.mark.parametrize(("behaviour", "word"), [("killed", "PROCESS_DIED"), ("raises", "FRAMEWORK_ERROR")])
def test_a_training_process_that_dies_is_a_failure(tmp_path, behaviour, word):
    with service.Server(tmp_path, behaviour) as server:
        finished = server.wait_until_serving().train()
    assert (finished.state, finished.failure.reason) == ("failed", word)
