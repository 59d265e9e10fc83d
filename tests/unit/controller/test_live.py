"""The live displays: plain lines and bars, driven by events and a clock that the test moves."""

import io
import re
import threading

import pytest
from rich.console import Console

from controller.events import BuildProgress, DataProgress, Note, ProbeProgress, TrialDone, TrialProgress
from controller.report import live
from controller.results import FAILED
from tests.unit.controller.made_up import JIT, cell, lost, trials

CELL = cell("pytorch-1.11.0", variant=JIT)


class Clock:
    """Stands still until it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def progress(phase="measure", done=0, number=1, **fields):
    return TrialProgress(number, 6, CELL, phase, done, 37_500, 1_875, **fields)


@pytest.fixture
def lines():
    stream, clock = io.StringIO(), Clock()
    display = live.Lines(Console(file=stream, width=60), clock)
    with display:
        yield display, clock, lambda: stream.getvalue().splitlines()


def test_each_change_of_state_is_one_line(lines):
    display, _, printed = lines
    for state in ("waiting", "running", "running", "done"):
        display(BuildProgress("pytorch-1.11.0", state, "downloading" if state == "running" else ""))
    display(BuildProgress("jittor-1.3.1", "failed", "there is no Python 3.7"))
    display(DataProgress("mnist", "ready"))
    display(Note("synthetic data is used instead of [mnist], which is not here and cannot be downloaded now"))
    assert printed() == [
        "pytorch-1.11.0: waiting",
        "pytorch-1.11.0: downloading",
        "pytorch-1.11.0: ready",
        "jittor-1.3.1: failed: there is no Python 3.7",
        "mnist: ready (was there)",
        "note: synthetic data is used instead of [mnist], which is not here and cannot be downloaded now",
    ]


def test_progress_in_between_is_rate_limited(lines):
    display, clock, printed = lines
    for second in range(25):
        clock.now = 100.0 + second
        display(progress(done=second * 1_500, samples_per_second=48_000.4, campaign_seconds_left=200 - second))
    assert printed() == [
        "trial 1/6 pytorch-1.11.0 (jit): measure, epoch 1/20, 48,000 samples/s, about 3 min left",
        "trial 1/6 pytorch-1.11.0 (jit): measure, epoch 9/20, 48,000 samples/s, about 3 min left",
        "trial 1/6 pytorch-1.11.0 (jit): measure, epoch 17/20, 48,000 samples/s, about 3 min left",
    ]


def test_stages_of_a_build_are_rate_limited_too(lines):
    display, clock, printed = lines
    for second in range(12):
        clock.now = 100.0 + second
        display(BuildProgress("pytorch-1.11.0", "running", f"file {second}"))
    assert printed() == ["pytorch-1.11.0: file 0", "pytorch-1.11.0: file 10"]


def test_every_trial_starts_and_ends_with_a_line(lines):
    display, _, printed = lines
    for number, done in ((1, trials(CELL, 31.2)[0]), (2, lost(CELL, FAILED, "PROCESS_DIED", "code -9")[0])):
        display(progress("starting", number=number))
        display(progress("import", number=number))
        display(TrialDone(number, 6, done))
    assert printed() == [
        "trial 1/6 pytorch-1.11.0 (jit): starting, epoch 1/20",
        "trial 1/6 pytorch-1.11.0 (jit): 31.20 s, accuracy 0.9754",
        "trial 2/6 pytorch-1.11.0 (jit): starting, epoch 1/20",
        "trial 2/6 pytorch-1.11.0 (jit): failed: PROCESS_DIED code -9",
    ]


PROBES = (
    ProbeProgress(1, 2, "reference", "mlp-mnist", "running"),
    ProbeProgress(1, 2, "reference", "mlp-mnist", "done"),
    ProbeProgress(2, 2, "jittor-1.3.1", "mlp-mnist", "running"),
    ProbeProgress(2, 2, "jittor-1.3.1", "mlp-mnist", "failed", "no layer [lstm]"),
)


def test_each_probe_starts_and_ends_with_a_line(lines):
    display, _, printed = lines
    for event in PROBES:
        display(event)
    assert printed() == [
        "check 1/2 reference on mlp-mnist: training a few steps",
        "check 1/2 reference on mlp-mnist: done",
        "check 2/2 jittor-1.3.1 on mlp-mnist: training a few steps",
        "check 2/2 jittor-1.3.1 on mlp-mnist: no layer [lstm]",
    ]


def test_a_phase_of_less_than_an_epoch_is_told_in_steps():
    event = TrialProgress(1, 1, CELL, "warmup", 7, 500, 1_875)
    assert live.trial_text(event) == "warmup, step 7/500"
    assert live.trial_text(TrialProgress(1, 1, CELL, "import")) == "import"
    assert live.trial_text(TrialProgress(1, 1, CELL, "measure", 5_000, 5_000, 2_000)) == "measure, epoch 3/3"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0.4, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (3599, "60 min"),
        (5400, "1 h 30 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations(seconds, text):
    assert live.duration(seconds) == text


def test_the_display_suits_the_console(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(live.live(Console(file=io.StringIO(), force_terminal=True)), live.Bars)
    assert isinstance(live.live(Console(file=io.StringIO())), live.Lines)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(live.live(Console(file=io.StringIO(), force_terminal=True)), live.Lines)


@pytest.fixture
def bars(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream, clock = io.StringIO(), Clock()
    display = live.Bars(Console(file=stream, width=100, force_terminal=True, color_system=None), clock)

    def drawn():
        """What was drawn since the last call, without control sequences."""
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue()).replace("\r", "\n")
        stream.seek(0)
        stream.truncate()
        return [line.rstrip() for line in text.splitlines() if line.strip()]

    before = threading.active_count()
    with display:
        assert threading.active_count() == before  # no thread that draws while a trial is measured
        yield display, clock, drawn


def test_builds_are_several_bars_and_give_way_to_the_trial(bars):
    display, clock, drawn = bars
    display(BuildProgress("pytorch-1.11.0", "running", "downloading torch", 0.5))
    display(BuildProgress("jittor-1.3.1", "running", "compiling"))
    last = drawn()[-2:]
    assert last[0].startswith("pytorch-1.11.0 ") and last[0].endswith(" downloading torch")
    assert last[1].startswith("jittor-1.3.1 ") and last[1].endswith(" compiling")
    clock.now += 1
    display(progress(done=1_875, samples_per_second=25_000, campaign_seconds_left=60))
    last = drawn()[-2:]
    assert last[0].startswith("pytorch-1.11.0 (jit) ")
    assert last[0].endswith(" measure, epoch 2/20, 25,000 samples/s, about 60 s left")
    assert last[1].startswith("trials ") and last[1].endswith(" 1 of 6")


def test_probes_have_bars_that_give_way_to_trials(bars):
    display, clock, drawn = bars
    for event in PROBES[:3]:
        display(event)
    last = drawn()[-2:]
    assert last[0].startswith("check jittor-1.3.1 on mlp-mnist ") and last[0].endswith(" training a few steps")
    assert last[1].startswith("checks ") and last[1].endswith(" 2 of 2")
    display(PROBES[3])
    assert "check 2/2 jittor-1.3.1 on mlp-mnist: no layer [lstm]" in drawn()
    clock.now += 1
    display(progress())
    assert not [line for line in drawn()[-2:] if line.startswith("check")]


def test_what_must_not_be_lost_is_printed_above_the_bars(bars):
    display, _, drawn = bars
    display(BuildProgress("jittor-1.3.1", "failed", "there is no Python 3.7"))
    display(Note("synthetic [data]"))
    display(TrialDone(1, 6, trials(CELL, 31.2)[0]))
    printed = drawn()
    assert "jittor-1.3.1: failed: there is no Python 3.7" in printed
    assert "note: synthetic [data]" in printed
    assert "trial 1/6 pytorch-1.11.0 (jit): 31.20 s, accuracy 0.9754" in printed


def test_bars_are_drawn_by_events_alone_and_not_too_often(bars):
    display, clock, drawn = bars
    display(progress(done=0))
    drawn()
    for step in range(10):
        clock.now += live.DRAW_INTERVAL / 10.5
        display(progress(done=step))
    assert drawn() == []
    clock.now += live.DRAW_INTERVAL
    display(progress(done=11))
    assert drawn() != []
    display(progress("evaluate"))
    assert any("evaluate" in line for line in drawn())
