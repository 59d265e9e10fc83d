"""Figures of a comparison as plain values for plotly.js.

Colours are names that the page resolves, because they depend on its theme: "slot:N" for the N-th of a set of rows or
phases, "ink" for text. No figure tells anything by colour alone: rows are named on an axis, or lines differ in dashes.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from controller.against import SECONDS, Beside
from controller.comparison import Group
from controller.report.columns import number
from controller.results import Cell, Measurement, Trial
from controller.rows import Row

if TYPE_CHECKING:
    import numpy as np

Figure = dict[str, Any]
SLOTS = 8
POINTS = 250
_DASHES = ("solid", "dash", "dot", "dashdot")
_BAR = 34
_WIDE = {"title": {"text": "measured step"}}
_MARGIN = {"l": 10, "r": 24, "t": 8, "b": 48}
PHASES = (
    "process_start", "import", "device", "data", "build", "first_step", "warmup", "measure", "evaluate",
)  # fmt: skip
"""In the order of a trial; others come after them."""


class Curves:
    """What the trials of each cell measured."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._runs: dict[Cell, list[Measurement]] = {}
        for trial in trials:
            if trial.measurement is not None:
                self._runs.setdefault(trial.cell, []).append(trial.measurement)

    def of(self, row: Row) -> Sequence[Measurement]:
        """Measured trials in the order in which they ran."""
        return self._runs.get(row.cell, ())


def times(group: Group, curves: Curves, beside: Beside | None) -> Figure | None:
    """Median times as bars with their intervals, each trial as a dot, and other numbers as diamonds."""
    rows = _measured(group)
    if not rows:
        return None
    slots = _slots(group)
    bars = {
        "type": "bar", "orientation": "h", "name": "median", "showlegend": False,
        "x": [row.seconds.median for row in rows if row.seconds],
        "y": [row.label() for row in rows],
        "marker": {"color": [f"slot:{slots[row.label()]}" for row in rows]},
        "error_x": _error(rows),
        "hovertext": [_interval_text(row) for row in rows],
        "hoverinfo": "y+text",
    }  # fmt: skip
    points = [(run.measured_seconds, row.label()) for row in rows for run in curves.of(row)]
    dots = {
        "type": "scatter", "mode": "markers", "name": "one trial",
        "x": [x for x, _ in points], "y": [y for _, y in points],
        "marker": {"symbol": "circle-open", "size": 8, "color": "ink", "line": {"width": 1.5}},
        "hovertemplate": "%{y}: %{x:.4g} s<extra>one trial</extra>",
    }  # fmt: skip
    height = 96 + _BAR * len(rows)
    axis = {"title": {"text": "seconds of the measured section"}, "rangemode": "tozero"}
    return _figure([bars, dots, *_diamonds(rows, beside)], height, axis, _names(rows))


def phases(group: Group, curves: Curves) -> Figure | None:
    """What a whole trial spends its time on: medians of the phases, one on the other."""
    rows = _measured(group)
    table = phase_table(rows, curves)
    if not table:
        return None
    names = list(dict.fromkeys(name for values in table.values() for name in values))
    traces = [
        {
            "type": "bar", "orientation": "h", "name": name.replace("_", " "),
            "x": [values.get(name) for values in table.values()], "y": list(table),
            "marker": {"color": f"slot:{place % SLOTS}", "line": {"color": "paper", "width": 1},
                       "pattern": {"shape": "/" if place >= SLOTS else ""}},
            "hovertemplate": "%{y}, " + name.replace("_", " ") + ": %{x:.4g} s<extra></extra>",
        }
        for place, name in enumerate(names)
    ]  # fmt: skip
    axis = {"title": {"text": "seconds of a trial, all phases"}, "rangemode": "tozero"}
    figure = _figure(traces, 130 + _BAR * len(table), axis, {"autorange": "reversed", "automargin": True})
    figure["layout"]["barmode"] = "stack"
    return figure


def phase_table(rows: Sequence[Row], curves: Curves) -> dict[str, dict[str, float]]:
    """Median seconds of each phase, by label of the row."""
    from statistics import median

    found: dict[str, dict[str, float]] = {}
    for row in rows:
        runs = curves.of(row)
        names = sorted({name for run in runs for name in run.phases}, key=_place)
        values = {name: median([run.phases[name] for run in runs if name in run.phases]) for name in names}
        if values:
            found[row.label()] = values
    return found


def _place(name: str) -> tuple[int, str]:
    return (PHASES.index(name) if name in PHASES else len(PHASES)), name


def steps(group: Group, curves: Curves) -> Figure | None:
    """Duration of the measured steps over a trial: median of neighbouring steps of all trials, and their quartiles."""
    traces: list[dict[str, Any]] = []
    for row in _measured(group):
        runs = [run.step_seconds for run in curves.of(row) if run.step_seconds]
        if runs:
            x, low, middle, high = _bands(runs)
            line = _line(row, group)
            traces += [
                {
                    "type": "scatter", "mode": "lines", "x": [*x, *reversed(x)], "y": [*high, *reversed(low)],
                    "fill": "toself", "fillcolor": line["color"], "opacity": 0.18, "line": {"width": 0},
                    "hoverinfo": "skip", "showlegend": False, "legendgroup": row.label(),
                },
                {
                    "type": "scatter", "mode": "lines", "name": row.label(), "x": x, "y": middle, "line": line,
                    "legendgroup": row.label(), "hovertemplate": "step %{x}: %{y:.4g} ms",
                },
            ]  # fmt: skip
    if not traces:
        return None
    values = [value for trace in traces for value in trace["y"]]
    return _figure(traces, 380, _WIDE, _upwards("milliseconds of a step", values))


def losses(group: Group, curves: Curves) -> Figure | None:
    """Training loss over the steps of the first trial of each row; means of neighbouring steps."""
    traces = []
    for row in _measured(group):
        run = next((run for run in curves.of(row) if run.losses), None)
        if run is not None:
            x, y = _means(run.loss_steps, run.losses)
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": row.label(),
                    "x": x,
                    "y": y,
                    "line": _line(row, group),
                    "hovertemplate": "step %{x}: %{y:.4g}",
                }
            )
    if not traces:
        return None
    return _figure(traces, 380, _WIDE, {"title": {"text": "training loss"}, "automargin": True})


# --- parts of figures --------------------------------------------------------------------------------------


def _figure(traces: Sequence[Mapping[str, Any]], height: int, x: Mapping[str, Any], y: Mapping[str, Any]) -> Figure:
    legend = {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0, "traceorder": "normal"}
    layout = {"height": height, "margin": _MARGIN, "xaxis": x, "yaxis": y, "legend": legend}
    return {"data": list(traces), "layout": layout}


def _names(rows: Sequence[Row]) -> dict[str, Any]:
    """An axis of rows, the first at the top, with their times and flags."""
    texts = [
        ", ".join([row.label(), f"{number(row.seconds.median)} s", *dict.fromkeys(flag.name for flag in row.flags)])
        for row in rows
        if row.seconds
    ]
    places = {"tickmode": "array", "tickvals": [row.label() for row in rows], "ticktext": texts}
    return {"autorange": "reversed", "automargin": True, **places}


def _upwards(title: str, values: Sequence[float]) -> dict[str, Any]:
    """From 0 to a little above nearly all values: a few slow first steps must not flatten the rest."""
    import numpy as np

    axis = {"title": {"text": title}, "automargin": True, "rangemode": "tozero"}
    high = 1.4 * float(np.percentile(values, 98))
    return axis if high >= max(values) else {**axis, "range": [0, high]}


def _measured(group: Group) -> list[Row]:
    return [row for row in group.rows if row.seconds is not None]


def _slots(group: Group) -> dict[str, int]:
    """A row's colour is its place in the order of names, so that it does not change with its rank."""
    return {label: place % SLOTS for place, label in enumerate(sorted(row.label() for row in group.rows))}


def _line(row: Row, group: Group) -> dict[str, Any]:
    place = sorted(each.label() for each in group.rows).index(row.label())
    return {"color": f"slot:{place % SLOTS}", "dash": _DASHES[place % len(_DASHES)], "width": 2}


def _error(rows: Sequence[Row]) -> dict[str, Any]:
    above, below = [], []
    for row in rows:
        span = row.seconds.interval if row.seconds else None
        middle = row.seconds.median if row.seconds else 0.0
        above.append(max(0.0, span.high - middle) if span else 0.0)
        below.append(max(0.0, middle - span.low) if span else 0.0)
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": "ink", "thickness": 1.5}


def _interval_text(row: Row) -> str:
    if row.seconds is None:
        return ""
    span = row.seconds.interval
    middle = f"{number(row.seconds.median)} s"
    return f"{middle}, 95% {number(span.low)}..{number(span.high)} s" if span else f"{middle}, a single trial"


def _diamonds(rows: Sequence[Row], beside: Beside | None) -> list[dict[str, Any]]:
    """Other numbers of the same unit and schedule."""
    found: list[dict[str, Any]] = []
    for setup in beside.setups if beside else ():
        points = [(setup.values[row.cell].seconds, row.label()) for row in rows if row.cell in setup.values]
        if setup.same_work and setup.unit == SECONDS and points:
            found.append(
                {
                    "type": "scatter", "mode": "markers", "name": setup.header,
                    "x": [x for x, _ in points], "y": [y for _, y in points],
                    "marker": {"symbol": "diamond", "size": 11, "color": f"slot:{(5 + len(found)) % SLOTS}",
                               "line": {"color": "ink", "width": 1}},
                    "hovertemplate": "%{y}: %{x:.4g} s<extra>" + setup.header + "</extra>",
                }
            )  # fmt: skip
    return found


# --- many numbers to few -----------------------------------------------------------------------------------


def _bands(runs: Sequence[Sequence[float]]) -> tuple[list[int], list[float], list[float], list[float]]:
    """At most ``POINTS`` places along the steps: number of the step, lower quartile, median, upper one in ms."""
    import numpy as np

    length = min(map(len, runs))
    values = np.array([run[:length] for run in runs]) * 1000.0
    edges = _edges(length)
    parts = [values[:, begin:end] for begin, end in pairwise(edges)]
    low, middle, high = np.array([np.percentile(part, (25, 50, 75)) for part in parts]).T
    return _middles(edges), _rounded(low), _rounded(middle), _rounded(high)


def _means(places: Sequence[int], values: Sequence[float]) -> tuple[list[int], list[float | None]]:
    """At most ``POINTS`` means; None where a loss is not finite, which a chart shows as a gap."""
    import numpy as np

    edges = _edges(len(values))
    pairs = list(pairwise(edges))
    means = [float(np.mean(values[begin:end])) for begin, end in pairs]
    where = [int(places[(begin + end - 1) // 2]) for begin, end in pairs]
    return where, [float(f"{mean:.6g}") if np.isfinite(mean) else None for mean in means]


def _edges(length: int) -> list[int]:
    count = min(length, POINTS)
    return [length * place // count for place in range(count + 1)]


def _middles(edges: Sequence[int]) -> list[int]:
    return [(begin + end + 1) // 2 for begin, end in pairwise(edges)]


def _rounded(values: "np.ndarray[Any, Any]") -> list[float]:
    return [float(f"{value:.5g}") for value in values]
