"""A trial: the order of what it does around the measured section, and what it takes for its own and for a failure."""

import subprocess
import sys
import time

import numpy as np
import pytest
from trainyard import graph
from trainyard.v1 import runner_pb2

from runners.core import datasets, heartbeat, probe, telemetry, trial
from runners.core.failures import TrialFailed
from runners.reference.adapter import Loader, ReferenceAdapter
from tests.unit.runners.service import arrays, execution, store, workload


class Recorded(ReferenceAdapter):
    """Writes down what it is asked for."""

    def __init__(self):
        self.events = []

    def loader(self, source):
        return RecordedLoader(source, self.events)

    def step(self, batch):
        self.events.append("step")
        return super().step(batch)

    def wait(self):
        self.events.append("wait")

    def inspect(self, x, y):
        self.events.append("inspect")
        return super().inspect(x, y)


class RecordedLoader(Loader):
    def __init__(self, source, events):
        super().__init__(source)
        self.events = events

    def epoch(self, number):
        self.events.append(f"epoch {number}")
        return super().epoch(number)

    def skip_to(self, number):
        self.events.append(f"skip to {number}")


def run(tmp_path, message, adapter, values=None):
    request = runner_pb2.TrainRequest(workload=message.SerializeToString(), execution=execution())
    request.arrays.extend(store(tmp_path / "blobs", values or arrays()))
    path = str(tmp_path / "beat")
    heartbeat.create(path)
    beat = heartbeat.Heartbeat(path)
    blobs = datasets.Blobs(str(tmp_path / "blobs"))
    return trial.Trial(adapter, request, graph.parse(message), blobs, beat, [], lambda event: None).run()


def test_an_epoch_left_early_is_paid_for_before_the_clock_starts(tmp_path):
    adapter = Recorded()
    finished = run(tmp_path, workload(warmup_steps=3, epochs=1), adapter)
    assert len(finished.step_seconds) == 8
    warm_up = ["epoch 0", "step", "wait", "step", "step", "wait"]
    measured = ["wait", "epoch 1", *["step"] * 8, "wait"]
    assert adapter.events == [*warm_up, "skip to 1", *measured]


def test_a_warm_up_of_one_step_is_not_gone_on_with(tmp_path):
    adapter = Recorded()
    finished = run(tmp_path, workload(warmup_steps=1, epochs=2), adapter)
    assert len(finished.step_seconds) == 16 and np.isfinite(finished.losses).all()
    assert adapter.events.count("epoch 0") == 1 and adapter.events[-10] == "epoch 2"


class Diverged(ReferenceAdapter):
    """Its losses in training are numbers; what it has learned is none."""

    def predict(self, x):
        return super().predict(x) * np.nan


def test_a_model_whose_test_loss_is_no_number_has_failed(tmp_path):
    with pytest.raises(TrialFailed, match="test part is nan") as caught:
        run(tmp_path, workload(), Diverged())
    assert caught.value.reason == "NON_FINITE_LOSS"


def test_processor_time_of_children_that_have_ended_is_the_trials_own():
    burn = "import time\nwhile time.process_time() < 0.4: pass"
    before = telemetry.ProcessorSnapshot(time.perf_counter)
    subprocess.run([sys.executable, "-c", burn], check=True)
    found = telemetry.processor_telemetry(before, telemetry.ProcessorSnapshot(time.perf_counter))
    assert not before.defined or found["cpu_seconds"] >= 0.35


def test_a_probes_loader_begins_before_the_first_backward_pass(tmp_path):
    message, adapter = workload(warmup_steps=3, epochs=1), Recorded()
    request = runner_pb2.ProbeRequest(workload=message.SerializeToString(), execution=execution(), steps=2)
    request.arrays.extend(store(tmp_path / "blobs", arrays()))
    probe.run(adapter, request, graph.parse(message), datasets.Blobs(str(tmp_path / "blobs")))
    # Its workers are forked there: threads of a framework that has computed may hold locks in that moment.
    assert adapter.events[0] == "epoch 0"
    assert adapter.events.index("inspect") > adapter.events.index("step")
