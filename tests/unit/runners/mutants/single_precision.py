"""No fault: the reference in float32, as the frameworks compute. What it may do, every framework may."""

import numpy as np
from trainyard.graph import INPUT

from runners.reference.adapter import ReferenceAdapter


class Float32(ReferenceAdapter):

    def build(self, model, initial):
        super().build(model, initial)
        self._round(self.values)

    def forward(self, x, training):
        outputs = {INPUT: x}
        for node in self.model.nodes:
            inputs = [outputs[name] for name in node.inputs]
            outputs[node.name] = np.asarray(self.layers[node.name].forward(inputs, training), np.float32)
        self._round(self.values)
        return outputs

    def backward(self, gradient):
        super().backward(np.asarray(gradient, np.float32))
        self._round({name: layer.gradients for name, layer in self.layers.items()})

    def update(self):
        super().update()
        self._round(self.values)
        for key, state in self.optimizer.states.items():
            self._round({key: state})

    @staticmethod
    def _round(arrays):
        for named in arrays.values():
            for name, array in named.items():
                named[name] = np.asarray(array, np.float32)


ADAPTER = Float32
