"""Fault: rmsprop adds its epsilon inside the root, as some libraries do."""

import numpy as np

from runners.reference.optimizers import RmsProp
from tests.unit.runners.mutants import with_optimizers


class Mutant(RmsProp):

    def root(self, v, epsilon):
        return np.sqrt(v + epsilon)


ADAPTER = with_optimizers(rmsprop=Mutant)
