"""Fault: every third step computes its loss and does not update."""

from runners.reference.adapter import ReferenceAdapter


class Mutant(ReferenceAdapter):

    def build(self, model, initial):
        super().build(model, initial)
        self.steps = 0

    def update(self):
        self.steps += 1
        if self.steps % 3:
            super().update()


ADAPTER = Mutant
