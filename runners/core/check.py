"""Whether a request can start: everything that is known before a framework does any work."""

from google.protobuf.message import DecodeError
from trainyard import graph
from trainyard.v1 import workload_pb2

from runners.core.failures import Refused

MAX_WORKLOAD_BYTES = 8 * 2 ** 20
MAX_THREADS = 4096
MAX_WORKERS = 256
MAX_PREFETCH = 10000


def parse(serialized):
    """The ``trainyard.graph.Model`` of a serialized Workload. Raises Refused."""
    if len(serialized) > MAX_WORKLOAD_BYTES:
        raise Refused("RESOURCE_EXHAUSTED", "workload", "a workload has at most {} bytes".format(MAX_WORKLOAD_BYTES))
    try:
        return graph.parse(workload_pb2.Workload.FromString(serialized))
    except DecodeError:
        raise Refused("INVALID_ARGUMENT", "workload", "workload is no serialized Workload message")
    except graph.WorkloadError as error:
        raise Refused("INVALID_ARGUMENT", error.field, str(error))


def check_execution(execution):
    """Refuses fields that are missing or out of range."""
    if execution.device not in ("cpu", "gpu"):
        raise Refused("INVALID_ARGUMENT", "execution.device", "device must be 'cpu' or 'gpu', not {!r}".format(
            execution.device))
    for field, value, low, high in (
            ("threads", execution.threads, 1, MAX_THREADS),
            ("variant.workers", execution.variant.workers, 0, MAX_WORKERS),
            ("variant.prefetch", execution.variant.prefetch, 1, MAX_PREFETCH)):
        if not low <= value <= high:
            raise Refused("INVALID_ARGUMENT", "execution." + field, "{} {} is not between {} and {}".format(
                field, value, low, high))


def check_supported(description, model, execution):
    """Refuses what the runner's DescribeResponse does not name, naming the layer, loss, optimizer or variant."""
    for node in model.nodes:
        if node.op not in description.layers:
            raise Refused("UNIMPLEMENTED", "layer " + node.op, "{} has no layer {}".format(
                description.framework, node.op))
    workload = model.workload
    optimizer = workload.optimizer.WhichOneof("kind")
    if optimizer not in description.optimizers:
        raise Refused("UNIMPLEMENTED", "optimizer " + optimizer, "{} has no optimizer {}".format(
            description.framework, optimizer))
    if workload.loss not in description.losses:
        raise Refused("UNIMPLEMENTED", "loss " + workload.loss, "{} has no loss {}".format(
            description.framework, workload.loss))
    known = set(description.variants)
    for wanted in variant_options(execution.variant):
        if wanted not in known:
            raise Refused("UNIMPLEMENTED", "variant " + wanted, "{} cannot do {}".format(
                description.framework, wanted))


def variant_options(variant):
    """The options of a Variant message whose values runners list in ``DescribeResponse.variants``."""
    return ["jit=" + ("true" if variant.jit else "false"), "layout=" + variant.layout,
            "precision=" + variant.precision, "pipeline=" + variant.pipeline]
