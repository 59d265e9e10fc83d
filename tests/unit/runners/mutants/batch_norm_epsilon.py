"""Fault: batch_norm uses 1e-5, another library's default, whatever the workload says."""

from runners.reference.layers import BatchNorm
from tests.unit.runners.mutants import with_layers


class Mutant(BatchNorm):

    def epsilon(self):
        return 1e-5


ADAPTER = with_layers(batch_norm=Mutant)
