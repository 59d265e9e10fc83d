"""What an adapter says about itself and what it refuses. Python 3.6 syntax."""

from trainyard import graph

from runners.core.adapter import Unsupported
from runners.core.initial import initial_weights
from tests.contract.bench import Deviation
from tests.contract.sketch import Sketch

OPTIONS = ("jit", "layout", "precision", "pipeline", "workers", "prefetch")
MEMORY_KINDS = ("allocator_allocated_peak", "allocator_reserved_peak", "device_peak", "device_baseline",
                "host_rss_peak", "workers_pss")


def check_describe(bench):
    """Names are those of the specification, versions and facts are text, the device is the one asked for."""
    adapter = bench.adapter_class()
    known = adapter.describe()
    _subset("layers", known.layers, graph.LAYERS)
    _subset("losses", known.losses, graph.LOSSES)
    _subset("optimizers", known.optimizers, graph.OPTIMIZERS)
    _subset("variants", known.variants, OPTIONS)
    _texts("versions", known.versions)
    if not known.versions or not known.framework:
        raise Deviation("describe() names no framework or no version")
    for option, values in known.variants.items():
        if not values or not all(isinstance(value, str) for value in values):
            raise Deviation("describe(): values of variant {} are not texts".format(option))
    subject, _ = bench.pair(_model())
    wanted = bench.open_with.device
    if not any(device.kind == wanted for device in subject.devices()):
        raise Deviation("devices() does not list the {}".format(wanted))
    if subject.device().kind != wanted:
        raise Deviation("device() is {!r}, not {!r}".format(subject.device().kind, wanted))
    _texts("facts", subject.facts())
    _memory(subject.memory())


def _memory(memory):
    _subset("memory", memory, MEMORY_KINDS)
    for kind, value in memory.items():
        absent = isinstance(value, tuple) and len(value) == 2 and value[0] is None and value[1]
        if not absent and not isinstance(value, int):
            raise Deviation("memory(): {} is neither a number of bytes nor (None, reason)".format(kind))


def check_refuses_option(bench, option):
    """``open`` or ``build`` refuses a value that nobody knows."""
    setattr(bench.open_with.variant, option, "sideways")
    adapter = bench.adapter_class()
    try:
        adapter.open(bench.open_with)
        model = _model()
        adapter.build(model, initial_weights(model))
    except Unsupported as error:
        if option not in str(error) or "sideways" not in str(error):
            raise Deviation("the refusal of {}=sideways does not name it: {}".format(option, error))
        return
    raise Deviation("{}=sideways is taken without a word".format(option))


def check_refuses_device(bench):
    """``open`` refuses a device that is not there."""
    bench.open_with.device = "gpu"
    bench.open_with.gpu_uuid = "GPU-00000000-0000-0000-0000-000000000000"
    try:
        bench.adapter_class().open(bench.open_with)
    except LookupError:
        return
    except Unsupported as error:
        raise Deviation("a GPU that is not there is a LookupError, not Unsupported: {}".format(error))
    raise Deviation("open() takes a GPU that is not there")


def _model():
    sketch = Sketch((6,))
    sketch.add("dense", "logits", units=3)
    return sketch.model()


def _subset(what, names, allowed):
    strange = [name for name in names if name not in allowed]
    if strange:
        raise Deviation("describe(): {} in {} is no word of the specification".format(strange[0], what))


def _texts(what, pairs):
    for name, value in pairs.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise Deviation("{}: {!r} = {!r} are not both texts".format(what, name, value))
