"""What a host refuses before a runner hears of it: workloads that are too large, and labels that are no array."""

import io
import time
from pathlib import Path

import grpc
import numpy as np
import pytest

from controller.runtimes.links import REASON_KEY
from controller.serving.limits import Limits, Refusal, check_request
from controller.serving.quiet import Quiet
from controller.serving.service import HostService
from controller.serving.sessions import Sessions
from tests.unit.runners.service import chain, workload


def refusal(message, labels=None):
    with pytest.raises(Refusal) as caught:
        check_request(message.SerializeToString(), labels, Limits(steps=100))
    return caught.value


def test_a_graph_of_more_layers_than_any_model_has_is_refused():
    found = refusal(chain(6000, 3))
    assert found.code is grpc.StatusCode.INVALID_ARGUMENT and "layer count" in found.message


def test_weights_that_no_memory_holds_are_refused():
    found = refusal(chain(3000, 40_000))
    assert (found.code, found.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "memory")
    assert "needs at least" in found.message


def test_a_batch_that_no_memory_holds_is_refused():
    message = chain(1, 1_000_000)
    message.schedule.batch_size = 10_000_000
    assert refusal(message).reason == "memory"


def test_steps_are_counted_with_the_labels_that_are_here(tmp_path):
    np.save(tmp_path / "labels.npy", np.zeros(64, np.int32))
    refused = refusal(workload(epochs=1000), tmp_path / "labels.npy")
    assert (refused.code, refused.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "steps")
    check_request(workload(epochs=1).SerializeToString(), tmp_path / "labels.npy", Limits(steps=100))


def test_labels_that_are_an_archive_or_objects_are_refused(tmp_path):
    np.savez(tmp_path / "labels.npz", labels=np.zeros(64, np.int32))
    (tmp_path / "archive.npy").write_bytes((tmp_path / "labels.npz").read_bytes())
    pickled = io.BytesIO()
    np.save(pickled, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "objects.npy").write_bytes(pickled.getvalue())
    for name in ("archive.npy", "objects.npy"):
        assert refusal(workload(), tmp_path / name).code is grpc.StatusCode.INVALID_ARGUMENT


def test_a_pause_that_nobody_waits_for_any_more_ends():
    quiet, begin = Quiet(), time.monotonic()
    assert quiet.wait("c", "", 600.0, lambda: False) == ""
    assert time.monotonic() - begin < 300


class Context:
    """Of a call whose caller has gone."""

    def is_active(self):
        return False

    def set_trailing_metadata(self, metadata):
        self.metadata = dict(metadata)

    def abort(self, code, details):
        raise Refusal(code, self.metadata[REASON_KEY], details)


def test_a_host_does_not_measure_itself_while_a_runner_runs():
    sessions = Sessions(60.0)
    service = HostService(None, sessions, None, Path())
    with sessions.turn(0.0, lambda: True), pytest.raises(Refusal) as refused:
        service.Calibrate(None, Context())
    assert refused.value.reason == "HOST_BUSY"
    assert service.Calibrate(None, Context()).values["python_loop_s"] > 0
