"""A small model and probes of it that nobody trained, for tests of certificates."""

from dataclasses import replace
from functools import cache

from trainyard import graph
from trainyard.v1 import workload_pb2

from controller.results import Device, OutputNorm, ParameterChange, Probe


@cache
def model(optimizer="sgd"):
    """conv2d, batch_norm, relu, flatten, dense on pictures of 6 x 6 x 1."""
    workload = workload_pb2.Workload(name="tiny", loss="sparse_categorical_crossentropy", seed=7)
    workload.dataset.synthetic.shape.extend([6, 6, 1])
    workload.dataset.synthetic.classes, workload.dataset.synthetic.samples = 3, 64
    workload.dataset.synthetic.test_samples = 8
    conv = _layer(workload, "conv", "input").conv2d
    conv.filters, conv.kernel_height, conv.kernel_width, conv.use_bias = 4, 3, 3, True
    conv.stride_height, conv.stride_width, conv.padding = 1, 1, workload_pb2.PADDING_SAME
    norm = _layer(workload, "norm", "conv").batch_norm
    norm.epsilon, norm.momentum = 1e-3, 0.9
    _layer(workload, "bent", "norm").relu.SetInParent()
    _layer(workload, "flat", "bent").flatten.SetInParent()
    dense = _layer(workload, "logits", "flat").dense
    dense.units, dense.use_bias = 3, True
    getattr(workload.optimizer, optimizer).SetInParent()
    if optimizer == "adam":
        workload.optimizer.adam.epsilon = 1e-7
    workload.optimizer.learning_rate = 0.1
    workload.schedule.batch_size, workload.schedule.warmup_steps, workload.schedule.steps = 8, 1, 5
    return graph.parse(workload)


def _layer(workload, name, source):
    return workload.layers.add(name=name, inputs=[source])


def probe(**changes):
    """Numbers of the right kind and number; ``changes`` to fields of Probe."""
    nodes = model().nodes
    outputs = tuple(OutputNorm(node.name, 10.0 + number, 0.5) for number, node in enumerate(nodes))
    parameters = tuple(
        ParameterChange(node.name, name, 2.0, 2.1, 0.3, 0.4, 0.6 if name in node.parameters else None)
        for node in nodes
        for name in (*node.parameters, *node.state)
    )
    whole = Probe(
        workload_digest="a1" * 32, data_digest="b2" * 32, weights_digest="c3" * 32, device=Device("cpu"),
        parameter_count=491, sample_count=40, losses=(1.2, 1.1, 1.0, 0.9, 0.8), gradient_norm=1.5,
        parameters=parameters, outputs=outputs,
    )  # fmt: skip
    return replace(whole, **changes)


def with_output(found, layer, **changes):
    """The probe with other numbers of a layer's output."""
    outputs = tuple(replace(each, **changes) if each.layer == layer else each for each in found.outputs)
    return replace(found, outputs=outputs)


def with_parameter(found, layer, parameter, **changes):
    """The probe with other numbers of a parameter."""
    parameters = tuple(
        replace(each, **changes) if (each.layer, each.parameter) == (layer, parameter) else each
        for each in found.parameters
    )
    return replace(found, parameters=parameters)


def with_losses(found, *losses):
    """The probe with its last losses replaced."""
    return replace(found, losses=(*found.losses[: -len(losses)], *losses))
