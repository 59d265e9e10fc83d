"""What the harness costs: mlp-mnist or cnn-mnist through a runner against the same training written by hand.

    python tests/bench/overhead.py [--runner NAME ...] [--pairs 5] [--epochs 2] [--workers N] [--data-dir FOLDER]
    python tests/bench/overhead.py --workload cnn-mnist --steps 100 ...

Both sides run in the same environment, with the same variables, weights, order of samples and loader, in fresh
processes, in pairs whose order alternates. Printed is the ratio runner / by hand of each pair, their median, and the
95 % interval of their geometric mean (Student's t of the logarithms), which says how much of it is noise.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from trainyard import graph

from controller import hosts, paths
from controller.catalog import runners, workloads
from controller.datasets.prepare import prepare
from controller.errors import ControllerError
from controller.execution import Settings, Work, run_trial
from controller.plan import PlannedTrial
from controller.results import Cell, Variant
from controller.runtimes.base import StartOptions
from controller.runtimes.process import LocalRunner, server_environment
from controller.runtimes.service import stage
from controller.runtimes.venv import VenvRuntime
from runners.core.batches import order
from runners.core.initial import initial_weights

HANDWRITTEN = Path(__file__).parent / "handwritten"


@dataclass(frozen=True)
class Bench:
    """What both sides of every pair share."""

    work: Work
    workload: Any
    variant: Variant
    threads: int
    folder: Path


def main() -> int:
    options = _options()
    bench = _prepare(options)
    names = options.runner or [spec.name for spec in runners.select([])]
    prepared = VenvRuntime().prepare(runners.select(names), "cpu", lambda event: None)
    for name in names:
        runner = prepared[name]
        if isinstance(runner, ControllerError):
            print(f"{name}: {runner.line()}")
            continue
        assert isinstance(runner, LocalRunner)
        _report(name, [_pair(bench, runner, number) for number in range(options.pairs)])
    return 0


def _report(name: str, pairs: list[tuple[float, float]]) -> None:
    ratios = [through / by_hand for through, by_hand in pairs]
    middle = [statistics.median(side) for side in zip(*pairs, strict=True)]
    listed = " ".join(f"{ratio:.3f}" for ratio in sorted(ratios))
    sides = f"{middle[0]:.2f} s / {middle[1]:.2f} s"
    print(f"{name}: median ratio {statistics.median(ratios):.3f} ({sides}){_interval(ratios)}; all {listed}")
    sys.stdout.flush()


def _interval(ratios: list[float]) -> str:
    """Of the geometric mean, in words; nothing for a single pair."""
    if len(ratios) < 2:
        return ""
    logs = np.log(ratios)
    half = stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
    low, middle, high = np.exp([logs.mean() - half, logs.mean(), logs.mean() + half])
    return f", mean {middle:.3f} (95 %: {low:.3f} to {high:.3f})"


def _pair(bench: Bench, runner: LocalRunner, number: int) -> tuple[float, float]:
    sides = [_through_runner, _by_hand]
    if number % 2:
        seconds = [side(bench, runner) for side in reversed(sides)][::-1]
    else:
        seconds = [side(bench, runner) for side in sides]
    print(f"  {runner.spec.name} pair {number + 1}: {seconds[0]:.3f} s / {seconds[1]:.3f} s", file=sys.stderr)
    return seconds[0], seconds[1]


def _through_runner(bench: Bench, runner: LocalRunner) -> float:
    cell = Cell(runner.spec.name, bench.workload.name, bench.work.digest, bench.variant)
    settings = Settings("bench", "cpu", "", bench.threads, bench.folder, stage().digest)
    trial = run_trial(PlannedTrial(0, 0, cell), runner, bench.work, settings, lambda event: None)
    if trial.measurement is None:
        raise SystemExit(f"{runner.spec.name}: {trial.failure}")
    return trial.measurement.measured_seconds


def _by_hand(bench: Bench, runner: LocalRunner) -> float:
    schedule = bench.workload.schedule
    script = HANDWRITTEN / f"{runner.spec.framework}_by_hand.py"
    start = StartOptions(threads=bench.threads, blobs=bench.work.blobs, log=bench.folder / "log")
    files = {role: bench.work.blobs / f"{digest}.npy" for role, digest in bench.work.arrays.items()}
    command = [
        str(runner.launch.python), str(script), "--x", str(files["x_train"]), "--y", str(files["y_train"]),
        "--initial", str(bench.folder / "initial.npz"), "--orders", str(bench.folder / "orders.npy"),
        "--model", bench.workload.name.partition("-")[0],
        "--warmup-epochs", str(schedule.warmup_epochs or 1), "--epochs", str(schedule.epochs or 1),
        "--threads", str(bench.threads), "--workers", str(bench.variant.workers),
        "--prefetch", str(bench.variant.prefetch),
    ]  # fmt: skip
    environment = server_environment(runner.launch, start)
    done = subprocess.run(command, env=environment, cwd=bench.folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{script.name} failed:\n{done.stderr[-2000:]}")
    return float(json.loads(done.stdout.strip().splitlines()[-1])["measured_seconds"])


def _prepare(options: argparse.Namespace) -> Bench:
    steps = options.steps
    epochs = None if steps else options.epochs
    asked = workloads.override(workloads.find(options.workload), epochs=epochs, steps=steps, warmup_steps=steps)
    data = prepare(asked, data_dir=options.data_dir, cache=paths.cache_folder(), observer=lambda event: None)
    if data.note:
        print(f"note: {data.note}")
    message = workloads.serialise(data.workload)
    work = Work(message, graph.digest(message), dict(data.arrays), data.blobs)
    folder = Path(tempfile.mkdtemp(prefix="trainyard-overhead-"))
    _write_inputs(data.workload, work, folder)
    threads = options.threads or hosts.usable_cpus()
    return Bench(work, data.workload, Variant(workers=options.workers), threads, folder)


def _write_inputs(workload: Any, work: Work, folder: Path) -> None:
    """Initial weights and orders as files, so that a script that knows nothing of this project can read them."""
    model = graph.parse(workload)
    initial = initial_weights(model)
    arrays = {
        f"{letter}{number}_{parameter}": initial[name][parameter]
        for letter, op in (("c", "conv2d"), ("d", "dense"))
        for number, name in enumerate([node.name for node in model.nodes if node.op == op], 1)
        for parameter in ("kernel", "bias")
    }
    np.savez(folder / "initial.npz", **arrays)
    count = len(np.load(work.blobs / f"{work.arrays['y_train']}.npy", mmap_mode="r"))
    schedule = workload.schedule
    if schedule.steps:
        first = order(workload.seed, 0, count, schedule.batch_size)
        orders = [first[: schedule.steps], first[schedule.steps : 2 * schedule.steps]]
    else:
        epochs = range(schedule.warmup_epochs + schedule.epochs)
        orders = [order(workload.seed, epoch, count, schedule.batch_size) for epoch in epochs]
    np.save(folder / "orders.npy", np.stack(orders))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runner", action="append", help="repeatable; default: the default runners")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--workload", choices=("mlp-mnist", "cnn-mnist"), default="mlp-mnist")
    parser.add_argument("--epochs", type=int, default=2, help="measured epochs of mlp-mnist, after one of warm-up")
    parser.add_argument("--steps", type=int, help="measured steps instead, after as many of warm-up (cnn-mnist: 100)")
    parser.add_argument("--workers", type=int, default=Variant().workers, help="of the loader, on both sides")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    if options.workload == "cnn-mnist":
        options.steps = options.steps or 100
    return options


if __name__ == "__main__":
    sys.exit(main())
