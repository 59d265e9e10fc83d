"""What the harness costs beside training; the measured section itself is overhead.py's.

    python tests/bench/costs.py help                                  `controller --help`, median of nine
    python tests/bench/costs.py trial [--runner NAME] [--pairs 5]     a trial's seconds outside all of its phases
    python tests/bench/costs.py telemetry [--runner NAME] [--pairs 9] the measured section with and without telemetry
    python tests/bench/costs.py campaign [--cells 1000]               the controller's CPU and memory, with null runners
    python tests/bench/costs.py report [--trials 100000]              reports where so many trials are stored

Prints, and decides nothing.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import trainyard
from scipy import stats
from trainyard import graph
from trainyard.source import source_digest

from controller import campaign, hosts, paths, places, preparation
from controller.catalog import runners, workloads
from controller.datasets.prepare import prepare
from controller.errors import ControllerError
from controller.execution import Settings, Work, run_trial
from controller.plan import PlannedTrial
from controller.preparation import CompareRequest
from controller.results import Cell, Trial, Variant
from controller.runtimes.service import Staged, stage
from controller.runtimes.venv import VenvRuntime
from controller.store import Store
from tests.unit.controller import made_up
from tests.unit.controller.test_campaign import ROOT, WORKLOAD, FakeRuntime, spec

MEBI = 2**20


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="trainyard-costs-") as folder:
        _COSTS[options.what](options, Path(folder))
    return 0


# --- the command -------------------------------------------------------------------------------------------


def _help(options: argparse.Namespace, folder: Path) -> None:
    """Wall seconds of the command, and of an interpreter that does nothing."""
    for name, command in (("controller --help", ["-m", "controller", "--help"]), ("python -c pass", ["-c", "pass"])):
        seconds = [_timed([sys.executable, *command]) for _ in range(9)]
        print(f"{name}: {statistics.median(seconds):.3f} s (median of 9, {min(seconds):.3f} to {max(seconds):.3f})")


def _timed(command: list[str], **environment: str) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return time.perf_counter() - began


# --- a trial -----------------------------------------------------------------------------------------------


def _trial(options: argparse.Namespace, folder: Path) -> None:
    """Wall seconds of starting, asking, answering and stopping: all that is in no phase of the training process."""
    once = _trials_of(options, folder)
    outside = []
    for _ in range(options.pairs):
        began = time.perf_counter()
        found = once(True)
        assert found.measurement is not None
        outside.append(time.perf_counter() - began - sum(found.measurement.phases.values()))
    print(
        f"{options.runner}: {statistics.median(outside):.3f} s of a trial are outside its phases"
        f" (median of {len(outside)}, {min(outside):.3f} to {max(outside):.3f})"
    )


def _telemetry(options: argparse.Namespace, folder: Path) -> None:
    """Ratio of the measured section, sampled / not sampled, in pairs whose order alternates."""
    once = _trials_of(options, folder)
    ratios = []
    for number in range(options.pairs):
        seconds = {}
        for sampled in (True, False) if number % 2 else (False, True):
            found = once(sampled)
            assert found.measurement is not None
            seconds[sampled] = found.measurement.measured_seconds
        ratios.append(seconds[True] / seconds[False])
        print(f"  pair {number + 1}: {seconds[True]:.3f} s / {seconds[False]:.3f} s", file=sys.stderr)
    logs = np.log(ratios)
    half = stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
    low, mean, high = np.exp([logs.mean() - half, logs.mean(), logs.mean() + half])
    print(f"{options.runner}: telemetry on / off {mean:.3f} (95 %: {low:.3f} to {high:.3f}, {len(ratios)} pairs)")


def _trials_of(options: argparse.Namespace, folder: Path) -> Callable[[bool], Trial]:
    """Runs one trial of mlp-mnist, with or without telemetry."""
    asked = workloads.override(workloads.find("mlp-mnist"), epochs=options.epochs)
    data = prepare(asked, data_dir=options.data_dir, cache=paths.cache_folder(), observer=lambda event: None)
    message = workloads.serialise(data.workload)
    work = Work(message, graph.digest(message), dict(data.arrays), data.blobs)
    runner = VenvRuntime().prepare(runners.select([options.runner]), "cpu", lambda event: None)[options.runner]
    if isinstance(runner, ControllerError):
        raise SystemExit(runner.line())
    cell = Cell(options.runner, data.workload.name, work.digest, Variant(workers=0))
    settings = Settings("bench", "cpu", "", options.threads or hosts.usable_cpus(), folder, stage().digest)

    def once(sampled: bool) -> Trial:
        now = replace(settings, telemetry=sampled)
        found = run_trial(PlannedTrial(0, 0, cell), runner, work, now, lambda event: None)
        if found.measurement is None:
            raise SystemExit(f"{options.runner}: {found.failure}")
        return found

    return once


# --- a campaign --------------------------------------------------------------------------------------------


def _campaign(options: argparse.Namespace, folder: Path) -> None:
    """Real server processes of a made-up framework whose steps do nothing; each cell is one more seed."""
    os.environ.update(TRAINYARD_CACHE=str(folder / "cache"), TRAINYARD_DATA=str(folder / "data"))
    file = folder / "tiny.toml"
    file.write_text(WORKLOAD)
    service = _fake_service(folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"before: {before:.0f} MiB")
    for cells in (max(1, options.cells // 10), options.cells):
        seeds = tuple(workloads.override(workloads.find(str(file)), seed=number) for number in range(cells))
        request = CompareRequest(workloads=seeds, runners=("good",), trials=1, verify=False, pause_seconds=0.0)
        store = Store(folder / f"{cells}.sqlite")
        with (
            mock.patch.object(preparation, "stage", lambda: service),
            mock.patch.object(places, "VenvRuntime", lambda gpu: FakeRuntime(folder)),
            mock.patch.object(places.runner_catalog, "select", lambda names: [spec(name) for name in names]),
        ):
            began, used = time.perf_counter(), time.process_time()
            done = campaign.run(request, lambda event: None, store)
        wall, cpu = time.perf_counter() - began, time.process_time() - used
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        stored = len(store.trials(done.id))
        print(
            f"{cells} cells, {stored} trials: {1000 * cpu / cells:.1f} ms of the controller's CPU and"
            f" {wall / cells:.2f} s each, peak {peak:.0f} MiB"
        )


def _fake_service(folder: Path) -> Staged:
    service = folder / "service"
    for source in (ROOT / "runners", Path(str(trainyard.__file__)).parent, ROOT / "tests" / "fakes"):
        shutil.copytree(source, service / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    return Staged(service, source_digest({name: str(service / name) for name in ("runners", "trainyard")}))


# --- reports -----------------------------------------------------------------------------------------------


def _report(options: argparse.Namespace, folder: Path) -> None:
    """Wall seconds of commands: trials in many campaigns of 1,000, and all in one."""
    for name, size in (("campaigns of 1,000", 1000), ("one campaign", options.trials)):
        data = folder / str(size)
        store = Store(data / "results.sqlite")
        store.add_finished(_made_up(number, size) for number in range(options.trials // size))
        for words in (["history"], ["show"], *(["report", "--format", form] for form in ("json", "csv", "html"))):
            seconds = _timed([sys.executable, "-m", "controller", *words], TRAINYARD_DATA=str(data))
            print(f"{options.trials} trials in {name}: controller {' '.join(words)}: {seconds:.2f} s")


def _made_up(number: int, size: int) -> tuple[Any, list[Trial]]:
    """A campaign of ten rows; one's trials."""
    rows = [made_up.cell(f"runner-{row}") for row in range(10)]
    name = f"2024{number:04d}-000000-abc"
    whole = replace(made_up.campaign(*rows, trials=size // 10), id=name)
    found = [
        replace(trial, id=f"{name}-{row}-{block}", campaign=name)
        for row, cell in enumerate(rows)
        for block, trial in enumerate(made_up.trials(cell, *[10.0 + 0.01 * (block % 7) for block in range(size // 10)]))
    ]
    return whole, found


_COSTS = {"help": _help, "trial": _trial, "telemetry": _telemetry, "campaign": _campaign, "report": _report}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=_COSTS)
    parser.add_argument("--runner", default="pytorch-1.11.0")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--epochs", type=int, default=1, help="measured epochs of mlp-mnist, after one of warm-up")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--trials", type=int, default=100_000)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
