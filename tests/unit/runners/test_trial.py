"""The order of what a trial does around the measured section."""

import numpy as np
from trainyard import graph
from trainyard.v1 import runner_pb2

from runners.core import datasets, heartbeat, trial
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
