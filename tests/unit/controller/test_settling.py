"""The pause between trials, and the calibration before them: on states that never were, and in a real campaign."""

import pytest

from controller import calibration, campaign, places
from controller.events import Note
from controller.preparation import CompareRequest
from controller.settling import Pause, State, look_at
from tests.unit.controller.test_campaign import house as house  # noqa: PLC0414 - a fixture

QUIET = State(0.05, 1e9, 40.0)


class Machine:
    """Shows one state after the other, the last for ever; a look takes a second."""

    def __init__(self, *states):
        self.states = list(states)
        self.looks = 0

    def look(self, seconds):
        self.looks += 1
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def pause(self, seconds):
        return Pause(seconds, self.look, clock=lambda: float(self.looks))


def test_a_machine_that_is_back_is_not_waited_for():
    machine = Machine(QUIET, State(0.12, 1.01e9, 44.0))
    assert machine.pause(10).wait() == ""
    assert machine.looks == 2


@pytest.mark.parametrize("state", [State(0.5, 1e9, 40.0), State(0.05, 2e9, 40.0), State(0.05, 1e9, 60.0)])
def test_load_memory_and_temperature_are_waited_for(state):
    machine = Machine(QUIET, state, state, state, QUIET)
    assert machine.pause(10).wait() == ""
    assert machine.looks == 5


def test_what_does_not_come_back_is_said_once_and_is_the_baseline_then():
    machine = Machine(QUIET, State(0.5, 3e9, None))
    pause = machine.pause(10)
    assert pause.wait() == (
        "after 10 s of waiting before a trial, 50% of the processors were in use, 5% in the beginning and 2,861 MiB of "
        "GPU memory were in use, 954 MiB in the beginning"
    )
    before = machine.looks
    assert pause.wait() == "" and machine.looks == before + 1


def test_a_pause_of_no_seconds_looks_at_nothing():
    machine = Machine(QUIET)
    assert (machine.pause(0).wait(), machine.looks) == ("", 0)


def test_this_machine_can_be_looked_at():
    state = look_at("")(0.05)
    assert 0 <= state.load < 1.5 and state.gpu_memory is None


def test_a_campaign_that_gave_up_waiting_says_so_and_keeps_its_calibration(house, monkeypatch):
    machine = Machine(State(0.0), State(0.9))
    monkeypatch.setattr(places, "look_at", lambda uuid: machine.look)
    done, trials = house.compare("good", trials=2, pause_seconds=0.01, calibrate=True)
    said = [note for note in done.notes if note.startswith("after 0.01 s of waiting")]
    assert len(said) == 1 and said == [event.text for event in house.events if isinstance(event, Note)][-1:]
    assert [trial.state for trial in trials] == ["succeeded"] * 2
    assert house.store.campaign(done.id) == done
    (found,) = done.calibrations
    assert set(found.values) == {"python_loop_s", "matrix_product_flops", "memory_copy_bytes_per_s"}
    assert found.absent["rpc_round_trip_s"] == "no reference runner (--no-verify)"
    assert "empty_launch_s" in found.absent


def test_a_call_of_a_runner_is_measured(house):
    (found,) = campaign.calibrate(CompareRequest(workloads=(), runners=("reference",)), house.events.append)
    assert 0 < found.values["rpc_round_trip_s"] < 10 and found.values["matrix_product_flops"] > 1e6


def test_of_another_machine_only_reasons_are_known():
    found = calibration.of_host("docker:far", "docker")
    assert found.values == {} and found.absent["python_loop_s"] == "docker:far is another machine"
