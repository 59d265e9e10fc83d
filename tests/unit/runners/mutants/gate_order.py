"""Fault: the LSTM's blocks are taken in the order input, cell, forget, output."""

from runners.reference.recurrent import BidirectionalLstm, Direction, Lstm
from tests.unit.runners.mutants import with_layers


class MutantDirection(Direction):
    gates = ("input", "cell", "forget", "output")


class MutantLstm(Lstm):
    direction = MutantDirection


class MutantBidirectional(BidirectionalLstm):
    direction = MutantDirection


ADAPTER = with_layers(lstm=MutantLstm, bidirectional_lstm=MutantBidirectional)
