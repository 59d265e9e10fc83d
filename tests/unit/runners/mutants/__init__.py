"""Reference adapters with one fault each: negative controls of the contract and of the certificate.

Each module has an ``ADAPTER`` and can be named wherever an adapter's module can. Python 3.6 syntax.
"""

from runners.reference.adapter import LAYERS, ReferenceAdapter
from runners.reference.optimizers import OPTIMIZERS
from tests.contract import registry, sketch


def with_layers(**classes):
    """A reference adapter with other classes for some ops."""
    return type("Mutant", (ReferenceAdapter,), {"layer_classes": dict(LAYERS, **classes)})


def with_optimizers(**classes):
    """A reference adapter with other classes for some optimizers."""
    return type("Mutant", (ReferenceAdapter,), {"optimizer_classes": dict(OPTIMIZERS, **classes)})


def result(name, adapter):
    """What a check of the contract finds, run in this process."""
    found = registry.run(name, adapter, sketch.execution())
    if name == registry.TWICE:
        found = registry.agree(found, registry.run(name, adapter, sketch.execution()))
    return found
