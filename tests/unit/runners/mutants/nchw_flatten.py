"""Fault: flatten of a picture runs over channels first, as in a layout that is not the logical one."""

from runners.reference.layers import Flatten
from tests.unit.runners.mutants import with_layers


class Mutant(Flatten):

    def forward(self, inputs, training):
        x, = inputs
        self.turned = x.transpose(0, 3, 1, 2) if x.ndim == 4 else x
        return self.turned.reshape(len(x), -1)

    def backward(self, gradient):
        whole = gradient.reshape(self.turned.shape)
        return [whole.transpose(0, 2, 3, 1) if whole.ndim == 4 else whole]


ADAPTER = with_layers(flatten=Mutant)
