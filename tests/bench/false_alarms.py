"""How often the method says "slower" where nothing is, and what slowdown it sees.

    python tests/bench/false_alarms.py                                          by simulation, half a minute
    python tests/bench/false_alarms.py --real reference --comparisons 200       a runner beside itself

Simulated: times are drawn from several shapes of noise, of which none differs between rows; a table is a false alarm if
any two of its rows are called different. ``sees``: the slowdown that is told in four of five comparisons.

Real: two equal sides of one runner, each trial in a fresh process, in random blocks of two, as in a campaign; every
``--trials`` blocks are one comparison. A slowdown is injected into the same trials by multiplying one side's seconds.
With ``--keep FILE`` blocks are appended to a file as they end, and those that are there count.
"""

import argparse
import json
import math
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from trainyard import graph

from controller import hosts, paths
from controller.catalog import runners, workloads
from controller.datasets.prepare import prepare
from controller.errors import ControllerError
from controller.execution import Settings, Work, run_trial
from controller.plan import PlannedTrial
from controller.results import Cell, Variant
from controller.runtimes.base import PreparedRunner
from controller.runtimes.service import stage
from controller.runtimes.venv import VenvRuntime
from controller.statistics import ALPHA, Contest, ratio

NOISE = 0.02
TRIALS = (2, 3, 5, 10)
ROWS = (2, 5)
POWER = 0.8
Table = list[dict[int, float]]
Shape = Callable[[random.Random, int, int], Table]


# --- simulation --------------------------------------------------------------------------------------------


def normal(generator: random.Random, rows: int, blocks: int) -> Table:
    """Every trial off by itself, by 2 %."""
    return [{block: math.exp(generator.gauss(0, NOISE)) for block in range(blocks)} for _ in range(rows)]


def heavy(generator: random.Random, rows: int, blocks: int) -> Table:
    """The same, and one trial of ten is disturbed: up to half as long again."""
    return [
        {block: seconds * _hit(generator) for block, seconds in row.items()} for row in normal(generator, rows, blocks)
    ]


def shared(generator: random.Random, rows: int, blocks: int) -> Table:
    """What disturbs a block, by up to 35 %, disturbs all its rows."""
    factors = [math.exp(generator.uniform(0, 0.3)) for _ in range(blocks)]
    return [
        {block: seconds * factors[block] for block, seconds in row.items()} for row in normal(generator, rows, blocks)
    ]


def drift(generator: random.Random, rows: int, blocks: int) -> Table:
    """The machine slows down by 20 % from the first trial to the last; each block has an order of its own."""
    table = normal(generator, rows, blocks)
    for block in range(blocks):
        for place, row in enumerate(generator.sample(range(rows), rows)):
            table[row][block] *= 1 + 0.2 * (block * rows + place) / (blocks * rows)
    return table


def _hit(generator: random.Random) -> float:
    return 1 + generator.uniform(0, 0.5) if generator.random() < 0.1 else 1.0


SHAPES: dict[str, Shape] = {"normal": normal, "heavy-tailed": heavy, "shared by blocks": shared, "drift": drift}


def simulate(tables: int, seed: int) -> None:
    print(f"{tables:,} tables each; noise of a trial {NOISE:.0%}; claims allowed in {ALPHA:.0%} of tables; seed {seed}")
    headers = "".join(f"{f'false, {rows} rows':>16}" for rows in ROWS)
    print(f"{'noise':18}{'trials':>7}{headers}{'sees':>9}")
    for name, shape in SHAPES.items():
        for blocks in TRIALS:
            generator = random.Random(f"{seed} {name} {blocks}")
            rates = "".join(f"{_false(shape, generator, rows, blocks, tables):>16.1%}" for rows in ROWS)
            print(f"{name:18}{blocks:>7}{rates}{_text(_seen(shape, generator, blocks, tables)):>9}")
            sys.stdout.flush()


def _false(shape: Shape, generator: random.Random, rows: int, blocks: int, tables: int) -> float:
    return sum(_is_alarm(shape(generator, rows, blocks)) for _ in range(tables)) / tables


def _is_alarm(table: Table) -> bool:
    contest = Contest(dict(enumerate(table)))
    return any(contest.differs(one, other) for one in range(len(table)) for other in range(one))


def _seen(shape: Shape, generator: random.Random, blocks: int, tables: int) -> float:
    """A slowdown moves a ratio's interval and leaves its width: it is told where it lifts the lower end over 1."""
    least = sorted(1 / found.interval.low - 1 for found in _pairs(shape, generator, blocks, tables))
    return least[math.ceil(POWER * len(least)) - 1]


def _pairs(shape: Shape, generator: random.Random, blocks: int, tables: int) -> Iterator:
    for _ in range(tables):
        one, other = shape(generator, 2, blocks)
        found = ratio(one, other)
        assert found is not None
        yield found


def _text(slowdown: float) -> str:
    return f"{slowdown:.1%}" if slowdown < 1 else f"x {1 + slowdown:.1f}"


# --- a real runner -----------------------------------------------------------------------------------------


def study(options: argparse.Namespace) -> None:
    """Blocks of two trials until there are enough, then what the method says of them."""
    blocks = _kept(options.keep)
    needed = options.comparisons * options.trials
    if len(blocks) < needed:
        trial = _trial(options)
        generator = random.Random(options.seed + len(blocks))
        while len(blocks) < needed:
            seconds = {side: trial() for side in generator.sample("ab", 2)}
            blocks.append((seconds["a"], seconds["b"]))
            _keep(options.keep, blocks[-1])
            print(f"block {len(blocks)} of {needed}: {blocks[-1][0]:.4f} s / {blocks[-1][1]:.4f} s", file=sys.stderr)
    report(blocks[:needed], options.trials, options.slowdown)


def report(blocks: list[tuple[float, float]], trials: int, slowdown: float) -> None:
    groups = [blocks[begin : begin + trials] for begin in range(0, len(blocks), trials)]
    logs = [math.log(one / other) for one, other in blocks]
    spread = math.sqrt(math.fsum(log * log for log in logs) / len(logs) / 2)
    print(f"{len(groups)} comparisons of {trials} blocks; noise of a trial within its block {spread:.1%}")
    print(f"equal sides called different: {_share([_differs(group, 1.0) for group in groups])}")
    print(f"slowdown of {slowdown - 1:.1%} told: {_share([_differs(group, slowdown) for group in groups])}")
    least = sorted(_least(group) for group in groups)
    print(f"told in four of five comparisons: {_text(least[math.ceil(POWER * len(least)) - 1])}")


def _differs(group: list[tuple[float, float]], factor: float) -> bool:
    found = ratio(*_sides(group, factor))
    return found is not None and (found.interval.low > 1 or (factor == 1.0 and found.is_different))


def _least(group: list[tuple[float, float]]) -> float:
    found = ratio(*_sides(group, 1.0))
    assert found is not None
    return 1 / found.interval.low - 1


def _sides(group: list[tuple[float, float]], factor: float) -> tuple[dict[int, float], dict[int, float]]:
    return {number: one * factor for number, (one, _) in enumerate(group)}, dict(enumerate(other for _, other in group))


def _share(hits: list[bool]) -> str:
    from scipy.stats import binomtest

    found = binomtest(sum(hits), len(hits)).proportion_ci(0.95)
    return (
        f"{sum(hits)} of {len(hits)}, {sum(hits) / len(hits):.1%} (95 % interval {found.low:.1%} to {found.high:.1%})"
    )


def _trial(options: argparse.Namespace) -> Callable[[], float]:
    """A function that runs one trial and returns its measured seconds."""
    runner = _runner(options.real)
    data = prepare(
        workloads.find(options.workload), data_dir=None, cache=paths.cache_folder(), observer=lambda event: None
    )
    message = workloads.serialise(data.workload)
    work = Work(message, graph.digest(message), dict(data.arrays), data.blobs)
    folder = Path(tempfile.mkdtemp(prefix="trainyard-alarms-"))
    settings = Settings("bench", "cpu", "", options.threads or hosts.usable_cpus(), folder, stage().digest)
    cell = Cell(options.real, data.workload.name, work.digest, Variant(workers=0))

    def trial() -> float:
        done = run_trial(PlannedTrial(0, 0, cell), runner, work, settings, lambda event: None)
        if done.measurement is None:
            raise SystemExit(f"{options.real}: {done.failure}")
        return done.measurement.measured_seconds

    return trial


def _runner(name: str) -> PreparedRunner:
    prepared = VenvRuntime().prepare(runners.select([name]), "cpu", lambda event: None)[name]
    if isinstance(prepared, ControllerError):
        raise SystemExit(prepared.line())
    return prepared


def _kept(path: Path | None) -> list[tuple[float, float]]:
    if path is None or not path.exists():
        return []
    return [tuple(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _keep(path: Path | None, block: tuple[float, float]) -> None:
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(block) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tables", type=int, default=4000, help="simulated tables of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", metavar="RUNNER", help="a runner beside itself, instead of the simulation")
    parser.add_argument("--comparisons", type=int, default=200)
    parser.add_argument("--trials", type=int, default=5, help="blocks of one comparison")
    parser.add_argument("--slowdown", type=float, default=1.05, help="what is injected into one side")
    parser.add_argument("--workload", default=str(Path(__file__).parent / "short.toml"))
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--keep", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.real:
        study(options)
    else:
        simulate(options.tables, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
