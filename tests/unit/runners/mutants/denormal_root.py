"""Fault: the root of a denormal float32 number is not a number, as compilers' fast mathematics makes it."""

import numpy as np

from runners.reference.optimizers import RmsProp
from tests.unit.runners.mutants import with_optimizers


class Mutant(RmsProp):

    def root(self, v, epsilon):
        is_denormal = (v > 0) & (v < np.finfo(np.float32).tiny)
        return np.where(is_denormal, np.nan, super().root(v, epsilon))


ADAPTER = with_optimizers(rmsprop=Mutant)
