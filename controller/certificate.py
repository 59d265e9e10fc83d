"""Whether two probes did the same work, and if not, where they part first. Pure functions of probes.

A probe gives numbers in the order in which a step computes them: each node's output, the loss, each gradient from the
loss backwards, the losses of the later steps, the weights in the end. The first that differs by more than is allowed
names what is at fault; all later ones only carry it on.

What is allowed comes from the arithmetic (``TOLERANCES``) and from the workload: a second probe of the reference, from
initial weights moved by about as much as rounding moves them (``Tolerance.perturbation``), shows how far rounding
alone carries each number. docs/certificate.md derives all of it.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from controller.results import FAIL, PASS, Certificate, Deviation, Probe

OUTPUT, GRADIENT, LOSS, WEIGHT = "output", "gradient", "loss", "weight"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Relative deviations that an arithmetic is allowed, and the share by which its rounding is imitated."""

    output: float
    gradient: float
    loss: float
    weight: float
    perturbation: float

    def of(self, kind: str) -> float:
        """Of one kind of number."""
        allowed: float = getattr(self, kind)
        return allowed


@dataclass(frozen=True, slots=True)
class Noise:
    """Two probes of the reference: from the initial weights, and from the same moved by ``Tolerance.perturbation``."""

    plain: Probe
    perturbed: Probe


# By ``Variant.precision``. Units of rounding: float32 2^-24, TF32 2^-11, AMP 2^-9 (bfloat16, the coarser of its two).
TOLERANCES = {
    "float32": Tolerance(1e-4, 1e-3, 1e-4, 1e-3, 2.0**-21),
    "tf32": Tolerance(5e-3, 2e-2, 5e-3, 2e-2, 2.0**-11),
    "amp": Tolerance(2e-2, 1e-1, 2e-2, 1e-1, 2.0**-9),
}
# How many times what the perturbed reference shows is allowed: it is one draw, and rounding is another.
NOISE_FACTOR = 16.0
# A number that rounding may carry this far proves nothing either way, and is not judged.
UNJUDGED = 0.25
# Two runners may each differ from the truth by what is allowed, to both sides.
PAIR_FACTOR = 2.0
# A gradient or movement that is zero but for rounding is compared on this share of that of the whole model.
GRADIENT_FLOOR = 1e-2
MOVEMENT_FLOOR = 1e-3
# Optimizers that divide by the gradient's size make a full step, to either side, of an element whose gradient is mere
# rounding; a few such elements are much of a short vector. What these optimizers do is judged by the losses.
ADAPTIVE_WEIGHT = 0.2
# Weights are kept in float32 whatever the precision: each step may round each of them once.
WEIGHT_UNIT = 2.0**-24
_TINY = 1e-30
_SMALLER = "a smaller learning rate can be compared"
NOTHING_JUDGED = f"rounding alone carries every number of this workload too far: {_SMALLER}"

_SAME = (
    ("workload_digest", "workload"),
    ("data_digest", "data"),
    ("weights_digest", "initial weights"),
    ("parameter_count", "number of parameters"),
    ("sample_count", "number of samples consumed"),
)


@dataclass(frozen=True, slots=True)
class _Quantity:
    """A number of a probe. Its deviations count relative to ``scale``; at least ``least`` is allowed, and
    ``rounding`` on top of that."""

    kind: str
    what: str
    value: float
    scale: float
    rounding: float = 0.0
    least: float = 0.0


def certify(
    subject: Probe,
    expected: Probe,
    model: Any,
    tolerance: Tolerance,
    *,
    against: str,
    noise: Noise | None = None,
    factor: float = 1.0,
) -> Certificate:
    """Compares ``subject`` with ``expected``, probes of the same ``trainyard.graph.Model``.

    ``against`` is what the second is called; ``factor`` widens all that is allowed.
    """
    verdict = Certificate(PASS, against=(against,), probed=subject.workload_digest)
    for field, name in _SAME:
        mine, right = getattr(subject, field), getattr(expected, field)
        if mine != right:
            return replace(verdict, state=FAIL, text=f"{name}: {_short(mine)}, not {_short(right)} as {against}")
    wanted = list(_quantities(expected, model))
    if lost := next((each.what for each in wanted if not math.isfinite(each.value)), ""):
        # Nothing can be held to a number that is none.
        return replace(verdict, state=FAIL, against=(), text=f"{against} has no finite {lost}: {_SMALLER}")
    found = {quantity.what: quantity.value for quantity in _quantities(subject, model)}
    allowed = _allowed(wanted, noise, model, tolerance, factor)
    judged = [_deviation(each, found.get(each.what), limit) for each, limit in zip(wanted, allowed, strict=True)]
    return _verdict(verdict, judged, model, against, UNJUDGED * factor)


def _verdict(verdict: Certificate, all_: Sequence[Deviation], model: Any, against: str, too_far: float) -> Certificate:
    judged = [each for each in all_ if each.allowed < too_far]
    if not judged:
        # Against nothing: not known to do other work, but nothing proves that it does the same.
        return replace(verdict, state=FAIL, against=(), text=NOTHING_JUDGED, unjudged=len(all_))
    kinds = dict.fromkeys(each.kind for each in judged)
    parting = next((each for each in judged if not _is_within(each)), None)
    return replace(
        verdict,
        state=FAIL if parting else PASS,
        text=_parting_text(parting, judged, model, against) if parting else "",
        parting=parting,
        largest=tuple(max((each for each in judged if each.kind == kind), key=_share) for kind in kinds),
        compared={kind: sum(each.kind == kind for each in judged) for kind in kinds},
        unjudged=len(all_) - len(judged),
    )


def _parting_text(parting: Deviation, judged: Sequence[Deviation], model: Any, against: str) -> str:
    """Where it parts and with which numbers. If the first step is equal up to its gradients, the update is at fault."""
    text = f"parts from {against} at {parting.what}: {_numbers(parting)}"
    if parting.kind != LOSS or judged[0].kind != OUTPUT or parting.what == _loss_name(1):
        return text
    optimizer = model.workload.optimizer.WhichOneof("kind")
    weight = next((each for each in judged if each.kind == WEIGHT and not _is_within(each)), None)
    more = f"; of the weights first {weight.what}: {_numbers(weight)}" if weight else ""
    return f"parts from {against} at optimizer {optimizer}: {parting.what} {_numbers(parting)}{more}"


def _numbers(each: Deviation) -> str:
    found = "not finite" if each.found is None else f"{each.found:.6g}"
    size = "" if each.deviation is None else f" (off by {each.deviation:.1e}, allowed {each.allowed:.1e})"
    return f"{found} instead of {each.expected:.6g}{size}"


def _is_within(each: Deviation) -> bool:
    return each.deviation is not None and each.deviation <= each.allowed


def _share(each: Deviation) -> float:
    return math.inf if each.deviation is None else each.deviation / each.allowed


def _short(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)[:12] or "none"


def _deviation(wanted: _Quantity, found: float | None, allowed: float) -> Deviation:
    off = math.nan if found is None else _distance(found, wanted)
    finite = math.isfinite(off)
    return Deviation(
        wanted.kind, wanted.what, found if finite else None, wanted.value, off if finite else None, allowed
    )


def _distance(found: float, wanted: _Quantity) -> float:
    return abs(found - wanted.value) / max(wanted.scale, _TINY)


# --- what is compared, in the order in which it is computed ------------------------------------------------


def _quantities(probe: Probe, model: Any) -> Iterator[_Quantity]:
    yield from _outputs(probe, model)
    yield from _losses(probe.losses[:1], 1)
    yield from _gradients(probe, model)
    yield from _losses(probe.losses[1:], 2)
    yield from _weights(probe, model)


def _outputs(probe: Probe, model: Any) -> Iterator[_Quantity]:
    """In graph order. If two outputs are closer than a share s of their norm, their norms differ by s of it at most,
    and their ramps by s times the norm times the ramp's own norm (Cauchy and Schwarz)."""
    outputs = {output.layer: output for output in probe.outputs}
    batch = model.workload.schedule.batch_size
    for node in model.nodes:
        output = outputs.get(node.name)
        if output is not None:
            where = f"layer {node.name} ({node.op}): "
            yield _Quantity(OUTPUT, where + "norm of its output", output.norm, output.norm)
            length = batch * _size(node.shape)
            yield _Quantity(OUTPUT, where + "order of its output", output.ramp, output.norm * ramp_norm(length))


def _losses(losses: Sequence[float], first: int) -> Iterator[_Quantity]:
    for step, loss in enumerate(losses, first):
        yield _Quantity(LOSS, _loss_name(step), loss, abs(loss))


def _loss_name(step: int) -> str:
    return f"loss of step {step}"


def _gradients(probe: Probe, model: Any) -> Iterator[_Quantity]:
    """From the loss backwards, as they are computed; then the norm of all."""
    gradients = {(entry.layer, entry.parameter): entry.gradient for entry in probe.parameters}
    floor = GRADIENT_FLOOR * probe.gradient_norm
    for node in reversed(model.nodes):
        for name in node.parameters:
            gradient = gradients.get((node.name, name))
            if gradient is not None:
                what = f"layer {node.name} ({node.op}): norm of the gradient of {name}"
                yield _Quantity(GRADIENT, what, gradient, gradient + floor)
    yield _Quantity(GRADIENT, "norm of the whole gradient", probe.gradient_norm, probe.gradient_norm)


def _weights(probe: Probe, model: Any) -> Iterator[_Quantity]:
    """In graph order, relative to how far they have moved."""
    entries = {(entry.layer, entry.parameter): entry for entry in probe.parameters}
    total = math.sqrt(sum(entry.moved**2 for entry in probe.parameters if entry.gradient is not None))
    exempt = absorbed(model)
    is_adaptive = model.workload.optimizer.WhichOneof("kind") != "sgd"
    for node in model.nodes:
        for name, shape in (*node.parameters.items(), *node.state.items()):
            entry = entries.get((node.name, name))
            if entry is None or (node.name, name) in exempt:
                continue
            where = f"layer {node.name} ({node.op}): "
            scale = entry.moved + MOVEMENT_FLOOR * total
            rounding = len(probe.losses) * WEIGHT_UNIT * max(entry.initial, entry.final) / max(scale, _TINY)
            least = ADAPTIVE_WEIGHT if is_adaptive and entry.gradient is not None else 0.0
            for words, value, unit in (
                (f"way of {name} in training", entry.moved, 1.0),
                (f"norm of {name} after training", entry.final, 1.0),
                (f"order of {name} after training", entry.ramp, ramp_norm(_size(shape))),
            ):
                yield _Quantity(WEIGHT, where + words, value, scale * unit, rounding, least)


def absorbed(model: Any) -> set[tuple[str, str]]:
    """Parameters and state that no loss depends on: a bias whose every reader is a batch normalisation, which takes
    it away again, and that normalisation's running mean. Its gradient is zero, what is computed is rounding, and an
    optimizer that divides by the gradient's size makes full steps of it."""
    readers: dict[str, list[Any]] = {}
    for node in model.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    found: set[tuple[str, str]] = set()
    for node in model.nodes:
        norms = readers.get(node.name, [])
        if "bias" in node.parameters and norms and all(reader.op == "batch_norm" for reader in norms):
            found |= {(node.name, "bias"), *((norm.name, "mean") for norm in norms)}
    return found


def ramp_norm(length: int) -> float:
    """Euclidean norm of linspace(-1, 1, length)."""
    return 1.0 if length < 2 else math.sqrt(length * (length + 1) / (3.0 * (length - 1)))


def _size(shape: Iterable[int]) -> int:
    return math.prod(shape)


# --- what is allowed ---------------------------------------------------------------------------------------


def _allowed(
    wanted: Sequence[_Quantity], noise: Noise | None, model: Any, tolerance: Tolerance, factor: float
) -> list[float]:
    """For each number: what the arithmetic is allowed, or more where rounding is carried further than that."""
    carried = {} if noise is None else _carried(noise, model)
    return [
        factor * (max(tolerance.of(each.kind), each.least, NOISE_FACTOR * carried.get(each.what, 0.0)) + each.rounding)
        for each in wanted
    ]


def _carried(noise: Noise, model: Any) -> dict[str, float]:
    """How far the perturbation carries each number. One draw may leave a number alone by accident, so what came
    before it in the computation counts too, and of gradients and weights what is usual among them."""
    wanted = list(_quantities(noise.plain, model))
    values = {each.what: each.value for each in _quantities(noise.perturbed, model)}
    found = [_distance(values.get(each.what, math.inf), each) for each in wanted]
    usual = {kind: _usual(kind, wanted, found) for kind in (GRADIENT, WEIGHT)}
    result, farthest = {}, 0.0
    for each, far in zip(wanted, found, strict=True):
        farthest = max(farthest, far) if each.kind != WEIGHT else farthest
        # Weights do not follow from one another.
        result[each.what] = max(far if each.kind == WEIGHT else farthest, usual.get(each.kind, 0.0))
    return result


def _usual(kind: str, wanted: Sequence[_Quantity], found: Sequence[float]) -> float:
    values = [far for each, far in zip(wanted, found, strict=True) if each.kind == kind]
    return median(values) if values else 0.0
