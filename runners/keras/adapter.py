"""Keras 2 with any of its backends: a compiled ``Model`` and its training function, fed with NumPy arrays."""

import keras
import numpy as np
from keras import backend as K

from runners.core.adapter import Adapter, Description, Unsupported
from runners.keras import loaders
from runners.keras.layers import LAYERS, OPS, Network
from runners.keras.optimizers import OPTIMIZERS

LOSSES = {"sparse_categorical_crossentropy": OPS.sparse_categorical_crossentropy,
          "binary_crossentropy": OPS.binary_crossentropy}


class KerasAdapter(Adapter):
    """See ``runners.core.adapter``."""

    def describe(self):
        versions = dict(OPS.VERSIONS, Keras=keras.__version__, numpy=np.__version__)
        return Description(
            OPS.TITLE, versions, LAYERS, tuple(LOSSES), tuple(OPTIMIZERS),
            {"jit": ("false",), "layout": OPS.LAYOUTS, "precision": ("float32",), "pipeline": ("native", "memory")})

    def open(self, execution):
        _check(execution.variant)
        # What the user's keras.json says would otherwise hold.
        K.set_floatx("float32")
        K.set_epsilon(1e-7)
        K.set_image_data_format("channels_last")
        OPS.start(execution)
        layout = execution.variant.layout
        self._channels_first = OPS.CHANNELS_FIRST if layout == "default" else layout == "nchw"

    def build(self, model, initial):
        OPS.reset(model.workload.seed)
        self._model = model
        self._network = network = Network(model, initial, self._channels_first)
        last = model.nodes[-1].name
        self._keras = keras.Model(network.input, network.training[last])
        optimizer = OPTIMIZERS[model.workload.optimizer.WhichOneof("kind")](model.workload.optimizer)
        self._keras.compile(optimizer, LOSSES[model.workload.loss])
        # What ``fit`` calls for every batch, and what it feeds beside samples and labels: a weight for each sample.
        self._keras._make_train_function()
        self._train = self._keras.train_function
        self._ones = np.ones(int(model.workload.schedule.batch_size), np.float32)
        self._logits = OPS.evaluation(network.input, network.evaluation[last])

    def device(self):
        return OPS.device(self._keras.weights)

    def loader(self, source):
        return loaders.make(source, self._network.transposed)

    def put(self, x, y):
        return loaders.samples(x, self._network.transposed), loaders.labels(y)

    def step(self, batch):
        return self._train((batch[0], batch[1], self._ones))[0]

    def wait(self):
        """The training function returns when the loss is on the host and all updates are made."""

    def read(self, loss):
        return float(np.asarray(loss).reshape(()))

    def predict(self, x):
        return self._logits(loaders.samples(x, self._network.transposed))

    def inspect(self, x, y):
        batch = self.put(x, y) + (np.ones(len(x), np.float32),)
        network, names = self._network, [node.name for node in self._model.nodes]
        outputs = K.function([network.input], [network.training[name] for name in names])(list(batch[:1]))
        weights = [(node.name, name, network.variables(node)[name])
                   for node in self._model.nodes for name in node.parameters]
        found = OPS.gradients(self._keras, [variable for _, _, variable in weights], list(batch))
        gradients = {}
        for (layer, name, _), array in zip(weights, found):
            gradients.setdefault(layer, {})[name] = np.asarray(array)
        return {name: network.logical(np.asarray(array)) for name, array in zip(names, outputs)}, gradients

    def weights(self):
        network, nodes = self._network, [node for node in self._model.nodes if node.parameters]
        keys = [(node, name) for node in nodes for name in network.variables(node)]
        # All in one call: TensorFlow 1 goes over its whole graph again for every value that is read alone.
        values = K.batch_get_value([network.variables(node)[name] for node, name in keys])
        found = {node.name: {} for node in nodes}
        for (node, name), value in zip(keys, values):
            found[node.name][name] = network.logical_value(node, name, value)
        return found

    def facts(self):
        return {name: str(value).lower() for name, value in OPS.facts().items()}


def _check(variant):
    """Refuses the variants that Keras 2 does not have."""
    if variant.jit:
        raise Unsupported("jit=true", "Keras 2 has no switch for a compiler")
    if variant.layout not in OPS.LAYOUTS:
        raise Unsupported("layout=" + variant.layout, "{} has {} here".format(OPS.TITLE, ", ".join(OPS.LAYOUTS)))
    if variant.precision != "float32":
        raise Unsupported("precision=" + variant.precision, "Keras 2 computes in float32 here")
    if variant.pipeline not in ("native", "memory"):
        raise Unsupported("pipeline=" + variant.pipeline)


ADAPTER = KerasAdapter
