"""Fault: conv2d never adds its bias, though it has one and moves it."""

from runners.reference.windows import Conv2d
from tests.unit.runners.mutants import with_layers


class Mutant(Conv2d):

    def forward(self, inputs, training):
        y = super().forward(inputs, training)
        return y - self.weights["bias"] if self.fields.use_bias else y


ADAPTER = with_layers(conv2d=Mutant)
