"""What a container costs: the same runner in a container and as a process, in pairs whose order alternates.

    python tests/bench/container_overhead.py [--runner NAME ...] [--pairs 10] [--epochs 2] [--data-dir FOLDER]

Both sides run the same trial through the same service with the same threads; the image and the environment are built
from the same lock. Printed is the ratio container / process of the measured section with its 95 % bootstrap interval,
and the time of a trial outside its own phases (start, readiness, removal) on each side. Needs a Docker engine.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from trainyard import graph

from controller import hosts, paths
from controller.catalog import runners, workloads
from controller.datasets.prepare import prepare
from controller.errors import ControllerError
from controller.execution import Settings, Work, run_trial
from controller.plan import PlannedTrial
from controller.results import Cell, Variant
from controller.runtimes import engine as engines
from controller.runtimes.base import PreparedRunner
from controller.runtimes.docker import DockerRuntime
from controller.runtimes.limits import limits
from controller.runtimes.service import stage
from controller.runtimes.venv import VenvRuntime

RESAMPLES = 10_000
Side = tuple[float, float]  # seconds measured, seconds outside all phases


def main() -> int:
    options = _options()
    work, name, digest = _work(options)
    engine = engines.connect()
    chosen = runners.select(options.runner)
    container = DockerRuntime(engine, limits(engine, {})).prepare(chosen, "cpu", lambda event: None)
    process = VenvRuntime().prepare(chosen, "cpu", lambda event: None)
    folder = Path(tempfile.mkdtemp(prefix="trainyard-overhead-"))
    settings = Settings("bench", "cpu", "", options.threads, folder, stage().digest)
    print(f"{engine.text()}; {options.threads} threads; {options.pairs} pairs")
    for spec in chosen:
        sides = (container[spec.name], process[spec.name])
        broken = [side.line() for side in sides if isinstance(side, ControllerError)]
        if broken:
            print(f"{spec.name}: {broken[0]}")
            continue
        cell = Cell(spec.name, name, digest, Variant())
        pairs = [_pair(sides, cell, work, settings, number) for number in range(options.pairs)]  # type: ignore[arg-type]
        _report(spec.name, pairs)
    return 0


def _pair(
    sides: tuple[PreparedRunner, PreparedRunner], cell: Cell, work: Work, settings: Settings, number: int
) -> tuple[Side, Side]:
    order = (0, 1) if number % 2 == 0 else (1, 0)
    found = {index: _trial(sides[index], cell, work, settings) for index in order}
    print(f"  {cell.runner} pair {number + 1}: {found[0][0]:.3f} s / {found[1][0]:.3f} s", file=sys.stderr)
    return found[0], found[1]


def _trial(runner: PreparedRunner, cell: Cell, work: Work, settings: Settings) -> Side:
    begun = time.monotonic()
    trial = run_trial(PlannedTrial(0, 0, cell), runner, work, settings, lambda event: None)
    seconds = time.monotonic() - begun
    if trial.measurement is None:
        raise SystemExit(f"{cell.runner}: {trial.failure}")
    return trial.measurement.measured_seconds, seconds - sum(trial.measurement.phases.values())


def _report(name: str, pairs: list[tuple[Side, Side]]) -> None:
    ratios = [container[0] / process[0] for container, process in pairs]
    low, high = _interval(ratios)
    outside = [statistics.median(pair[side][1] for pair in pairs) for side in (0, 1)]
    print(
        f"{name}: container / process {statistics.median(ratios):.3f} "
        f"(95 % {low:.3f} to {high:.3f}, {len(ratios)} pairs); "
        f"outside of its phases a trial takes {outside[0]:.2f} s / {outside[1]:.2f} s"
    )
    sys.stdout.flush()


def _interval(ratios: list[float]) -> tuple[float, float]:
    """Percentile bootstrap of the median."""
    draw = random.Random(0)  # not for security: the same interval for the same pairs
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]


def _work(options: argparse.Namespace) -> tuple[Work, str, str]:
    asked = workloads.override(workloads.find("mlp-mnist"), epochs=options.epochs)
    data = prepare(asked, data_dir=options.data_dir, cache=paths.cache_folder(), observer=lambda event: None)
    if data.note:
        print(f"note: {data.note}")
    message = workloads.serialise(data.workload)
    digest = graph.digest(message)
    return Work(message, digest, dict(data.arrays), data.blobs), data.workload.name, digest


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--runner", action="append", default=[], metavar="NAME", help="repeatable; default: the default ones"
    )
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=2, help="measured epochs of mlp-mnist")
    parser.add_argument("--threads", type=int, default=hosts.usable_cpus())
    parser.add_argument("--data-dir", type=Path, metavar="FOLDER")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
