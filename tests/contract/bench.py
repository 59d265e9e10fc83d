"""Two adapters side by side, the one under test and the reference, and how far they part. Python 3.6 syntax."""

import numpy as np

from runners.core.adapter import Unsupported
from runners.core.initial import initial_weights
from runners.reference.adapter import ReferenceAdapter
from tests.contract import sketch

# Relative deviations that float32 arithmetic is allowed. An error of the kind that is looked for is 100 times larger.
ACTIVATION = 1e-4
GRADIENT = 1e-3
LOSS = 1e-4
WEIGHT = 1e-3
# A gradient or a movement that is zero but for rounding is compared with this share of that of the whole model.
GRADIENT_FLOOR = 1e-2
MOVEMENT_FLOOR = 1e-3


class Deviation(Exception):
    """The adapter under test does something else than the specification. One line: where, and by how much."""


class Outcome(object):
    """What a passed check has to tell: the largest deviation seen and what it was of; ``losses`` for repetition."""

    def __init__(self):
        self.deviation = 0.0
        self.where = ""
        self.losses = []

    def limit(self, where, deviation, allowed, saying=""):
        """Notes a deviation. Raises Deviation, ``saying`` more, if it is more than ``allowed``."""
        if not deviation <= allowed:
            raise Deviation("{} deviates by {:.2g}, more than {:g}{}".format(where, deviation, allowed, saying))
        if deviation >= self.deviation:
            self.deviation, self.where = deviation, where


class Bench(object):
    """Builds the adapter under test and the reference for a model, from the same initial weights.

    ``open_with``   an Execution message
    """

    def __init__(self, adapter_class, open_with):
        self.adapter_class = adapter_class
        self.open_with = open_with
        self.outcome = Outcome()

    def pair(self, model, initial=None):
        """(subject, oracle), opened and built, with other ``initial`` weights if given. Raises Unsupported where the
        subject does."""
        self.initial = initial_weights(model) if initial is None else initial
        subject = self.adapter_class()
        known = subject.describe()
        lacking = [node for node in model.nodes if node.op not in known.layers]
        subject.open(self.open_with)
        try:
            subject.build(model, self.initial)
        except Unsupported as error:
            if not lacking and model.workload.optimizer.WhichOneof("kind") in known.optimizers:
                raise Deviation("build refuses what describe() lists: {}".format(error))
            raise
        if lacking:
            raise Deviation("layer {}: describe() does not list {}, but build took it".format(
                lacking[0].name, lacking[0].op))
        oracle = ReferenceAdapter()
        oracle.open(sketch.execution())
        oracle.build(model, self.initial)
        return subject, oracle

    # --- comparisons: each raises Deviation ----------------------------------------------------------------

    def inspect(self, model, subject, oracle, x, y):
        """Every node's output in graph order, then every gradient from the loss backwards."""
        found, found_gradients = subject.inspect(x, y)
        wanted, wanted_gradients = oracle.inspect(x, y)
        for node in model.nodes:
            where = "layer {} ({}): output".format(node.name, node.op)
            self.outcome.limit(where, distance(where, found.get(node.name), wanted[node.name]), ACTIVATION)
        floor = GRADIENT_FLOOR * norm_of_all(wanted_gradients)
        for node in reversed(model.nodes):
            for name in node.parameters:
                where = "layer {} ({}): gradient of {}".format(node.name, node.op, name)
                mine = found_gradients.get(node.name, {}).get(name)
                self.outcome.limit(where, distance(where, mine, wanted_gradients[node.name][name], floor), GRADIENT)

    def loss(self, step, found, wanted):
        self.outcome.limit("loss of step {}".format(step), abs(found - wanted) / max(abs(wanted), 1e-6), LOSS,
                           ": {:.8g}, not {:.8g}".format(found, wanted))

    def losses(self, found, wanted):
        for step, pair in enumerate(zip(found, wanted), 1):
            self.loss(step, *pair)

    def output(self, where, found, wanted):
        self.outcome.limit(where, distance(where, found, wanted), ACTIVATION)

    def weights(self, model, subject, oracle):
        """All parameters and state, relative to how far they have moved."""
        found, wanted = subject.weights(), oracle.weights()
        moved = {layer: {name: array - self.initial[layer][name] for name, array in arrays.items()}
                 for layer, arrays in wanted.items()}
        floor = MOVEMENT_FLOOR * norm_of_all(moved)
        for node in model.nodes:
            for name in list(node.parameters) + list(node.state):
                where = "layer {} ({}): {} after training".format(node.name, node.op, name)
                mine = found.get(node.name, {}).get(name)
                scale = np.linalg.norm(moved[node.name][name]) + floor
                self.outcome.limit(where, distance(where, mine, wanted[node.name][name], scale, True), WEIGHT)


def train(adapter, batches):
    """Trains (x, y) pairs and returns the losses, read at the end."""
    losses = [adapter.step(adapter.put(x, y)) for x, y in batches]
    adapter.wait()
    return [adapter.read(loss) for loss in losses]


def distance(where, found, wanted, scale=0.0, only_scale=False):
    """Norm of the difference relative to the norm of ``wanted`` plus ``scale`` (or to ``scale`` alone)."""
    if found is None:
        raise Deviation("{} is missing".format(where))
    found = np.asarray(found, np.float64)
    if found.shape != wanted.shape:
        raise Deviation("{} has shape {}, not {}".format(where, found.shape, wanted.shape))
    size = scale if only_scale else np.linalg.norm(wanted) + scale
    return np.linalg.norm(found - wanted) / max(size, 1e-12)


def norm_of_all(arrays):
    """Euclidean norm over {layer: {name: array}}."""
    return np.sqrt(sum(np.sum(np.square(array)) for named in arrays.values() for array in named.values()))
