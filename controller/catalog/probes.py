"""The form in which a workload is probed: the same model and optimizer, small enough for the float64 reference.

Most workloads are probed as they are: their own data, batch size and layers. Two things may be changed, and then the
certificate says which (docs/certificate.md says why):

- A step of too many multiplications, or a model of too many parameters, is cut down: smaller pictures or texts of
  made-up data, and layers of fewer filters and units. The graph stays: every layer, every joint, every stride.
- A model with many batch normalisations in a row carries rounding so far that after one step of the usual length
  nothing can be compared any more. Its probe trains with a smaller learning rate.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trainyard import graph
from trainyard.v1.workload_pb2 import Workload

# Multiplications of one training step (forward and backward), and trained numbers, that the reference can be asked for.
MAX_PRODUCTS = 10**10
MAX_PARAMETERS = 3 * 10**7
# So many batch normalisations on the way from input to output, and the learning rate is divided.
DEEP = 20
LEARNING_RATE_DIVISOR = 1000
# What is tried in this order until it fits: longest side of a picture, and by what widths are divided.
_PICTURE_CUTS = ((64, 1), (64, 2), (64, 4), (32, 4), (32, 8))
# The same for texts: length, different words, divisor.
_TEXT_CUTS = ((100, 2000, 1), (50, 1000, 2), (50, 1000, 4))
_TEST_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class ProbeForm:
    """``cut`` says in words what was changed; empty if only the schedule was, which a probe does not use."""

    workload: Workload
    cut: str


def probe_form(workload: Workload, steps: int) -> ProbeForm:
    """The workload as it is probed in ``steps`` steps. Its schedule is replaced by one that only these steps decide,
    so that all lengths of a workload share one probe. Takes a prepared workload (its embeddings have their size)."""
    plain = _copy(workload)
    plain.schedule.warmup_steps = 1
    plain.schedule.steps = steps
    words: list[str] = []
    if not _fits(graph.parse(plain)):
        plain, words = _cut(plain, steps)
    depth = batch_norm_depth(graph.parse(plain))
    if depth >= DEEP:
        plain.optimizer.learning_rate /= LEARNING_RATE_DIVISOR
        words.append(f"learning rate / {LEARNING_RATE_DIVISOR:,} ({depth} batch normalisations in a row)")
    return ProbeForm(plain, ", ".join(words))


def products(model: Any) -> int:
    """Multiplications of one training step: those of the forward pass three times (output, and two gradients)."""
    return 3 * int(model.workload.schedule.batch_size) * sum(map(_node_products, model.nodes))


def batch_norm_depth(model: Any) -> int:
    """The largest number of batch normalisations on a way from the input to the output."""
    depth = {graph.INPUT: 0}
    for node in model.nodes:
        depth[node.name] = max(depth[name] for name in node.inputs) + (node.op == "batch_norm")
    return depth[model.nodes[-1].name]


def _node_products(node: Any) -> int:
    """Every kernel is used once at each place of the output, a recurrent one at each time of the input."""
    kernels = sum(graph.size(shape) for name, shape in node.parameters.items() if len(shape) > 1 and name != "table")
    places = node.input_shapes[0][:-1] if "lstm" in node.op else node.shape[:-1]
    return int(kernels * graph.size(places))


def _fits(model: Any) -> bool:
    return products(model) <= MAX_PRODUCTS and model.parameter_count <= MAX_PARAMETERS


def _cut(workload: Workload, steps: int) -> tuple[Workload, list[str]]:
    """The first form that fits, else the smallest; the workload itself where no smaller form is a valid model."""
    best: tuple[Workload, list[str]] = (workload, [])
    least = None
    for candidate, words in _smaller(workload, steps):
        try:
            model = graph.parse(candidate)
        except graph.WorkloadError:
            continue
        if _fits(model):
            return candidate, words
        if least is None or products(model) < least:
            best, least = (candidate, words), products(model)
    return best


def _smaller(workload: Workload, steps: int) -> Iterator[tuple[Workload, list[str]]]:
    model = graph.parse(workload)
    shape = tuple(model.input_shape)
    if model.input_is_integer:
        for length, vocabulary, divisor in _TEXT_CUTS:
            changed = _synthetic(workload, (min(length, *shape),), vocabulary, model.classes, steps)
            for layer in changed.layers:
                if layer.WhichOneof("op") == "embedding":
                    layer.embedding.vocabulary = vocabulary
            words = [f"texts of {min(length, *shape)} among {vocabulary:,} words"]
            yield _narrowed(changed, divisor), words + _width_words(divisor)
        return
    for side, divisor in _PICTURE_CUTS:
        lengths = tuple(min(length, side) for length in shape[:-1]) + shape[-1:]
        changed = _synthetic(workload, lengths, 0, model.classes, steps)
        yield _narrowed(changed, divisor), [f"input {' x '.join(map(str, lengths))}", *_width_words(divisor)]


def _width_words(divisor: int) -> list[str]:
    return [f"widths / {divisor}"] if divisor > 1 else []


def _synthetic(workload: Workload, shape: tuple[int, ...], vocabulary: int, classes: int, steps: int) -> Workload:
    """The workload on made-up data of another shape."""
    changed = _copy(workload)
    options = changed.dataset.synthetic  # reading it selects nothing; setting a field does
    options.Clear()
    options.shape.extend(shape)
    options.classes = max(classes, 2)
    options.samples = steps * workload.schedule.batch_size
    options.test_samples = _TEST_SAMPLES
    options.vocabulary = vocabulary
    return changed


def _narrowed(workload: Workload, divisor: int) -> Workload:
    """Filters and units divided, those of the last layer excepted: they are the classes."""
    for layer in workload.layers[:-1]:
        options = getattr(layer, layer.WhichOneof("op"))
        for field in ("filters", "units", "dim"):
            if divisor > 1 and hasattr(options, field):
                setattr(options, field, max(1, getattr(options, field) // divisor))
    return workload


def _copy(workload: Workload) -> Workload:
    copy = Workload()
    copy.CopyFrom(workload)
    return copy
