"""The certificate's few steps: what is compared to prove that two frameworks do the same work. Nothing is timed.

Batches come out of the adapter's own loader, as in a trial: one that repeats a batch is seen by its losses.
"""

import itertools

import numpy as np
from trainyard import graph
from trainyard.v1 import runner_pb2

from runners.core import datasets
from runners.core.batches import Source
from runners.core.failures import Refused
from runners.core.initial import initial_weights, random_state, weights_digest
from runners.core.trial import device_message, open_device

MAX_STEPS = 1000
MAX_PERTURBATION = 0.1
VARIATION = 0.1


def run(adapter, request, model, blobs):
    """Trains ``request.steps`` steps with dropout off from ``varied`` shared weights; returns a ProbeResponse."""
    if not 1 <= request.steps <= MAX_STEPS:
        raise Refused("INVALID_ARGUMENT", "steps", "steps {} is not between 1 and {}".format(request.steps, MAX_STEPS))
    if not 0 <= request.perturbation <= MAX_PERTURBATION:
        raise Refused("INVALID_ARGUMENT", "perturbation", "perturbation {} is not between 0 and {}".format(
            request.perturbation, MAX_PERTURBATION))
    open_device(adapter, request.execution)
    arrays = datasets.load(blobs, request.arrays, model)
    model = graph.parse(graph.without_dropout(model.workload))
    initial = initial_weights(model)
    response = runner_pb2.ProbeResponse(
        workload_digest=graph.digest(request.workload), data_digest=datasets.data_digest(request.arrays),
        weights_digest=weights_digest(model, initial), parameter_count=model.parameter_count)
    initial = varied(model, initial)
    if request.perturbation:
        initial = perturbed(model, initial, request.perturbation)
    schedule = model.workload.schedule
    graph.steps_per_epoch(len(arrays["x_train"]), schedule.batch_size)
    source = Source(arrays["x_train"], arrays["y_train"], model.workload.seed, schedule.batch_size,
                    request.execution.variant)
    adapter.build(model, initial)
    response.device.CopyFrom(device_message(adapter.device()))
    # Training comes first, as in a trial: its loader may fork, and the first backward pass starts threads of the
    # framework. A fork in that moment copies their locks as taken (seen with PyTorch 1.11: a worker waited for ever).
    losses = _losses(adapter, source, request.steps)
    response.losses.extend(losses)
    response.sample_count = len(losses) * source.batch_size
    final = adapter.weights()
    gradients = _inspect(adapter, model, initial, source.take(0, source.order(0)[0]), response, request.detail)
    _compare_weights(model, initial, final, gradients, response)
    return response


def _losses(adapter, source, count):
    """Of the first ``count`` steps of training, epochs one after the other."""
    loader, losses, epoch = adapter.loader(source), [], 0
    try:
        while len(losses) < count:
            for batch in itertools.islice(loader.epoch(epoch), count - len(losses)):
                losses.append(adapter.step(batch))
            epoch += 1
        adapter.wait()
        return [float(adapter.read(loss)) for loss in losses]
    finally:
        loader.close()


def varied(model, initial):
    """The shared weights with every bias, scale and offset moved by a shared draw, up to VARIATION: as they begin, zero
    and one, a layer that forgets them would give the same numbers."""
    moved = {layer: dict(arrays) for layer, arrays in initial.items()}
    for node in model.nodes:
        for name, shape in node.parameters.items():
            if len(shape) == 1:
                random = random_state(int(model.workload.seed), "variation", node.name, name)
                draw = random.uniform(-VARIATION, VARIATION, shape)
                moved[node.name][name] = (initial[node.name][name] + draw).astype(np.float32)
    return moved


def perturbed(model, initial, share):
    """The parameters times (1 + share) or (1 - share), by a draw from (seed, layer, parameter); state as it is."""
    moved = {layer: dict(arrays) for layer, arrays in initial.items()}
    for node in model.nodes:
        for name, shape in node.parameters.items():
            random = random_state(int(model.workload.seed), "perturbation", node.name, name)
            signs = random.uniform(-1, 1, shape) < 0
            factors = np.where(signs, 1 - share, 1 + share)
            moved[node.name][name] = (initial[node.name][name] * factors).astype(np.float32)
    return moved


def _inspect(adapter, model, initial, batch, response, detail):
    adapter.build(model, initial)
    activations, gradients = adapter.inspect(*batch)
    response.gradient_norm = float(np.sqrt(sum(
        np.square(np.asarray(value, np.float64)).sum() for layer in gradients.values() for value in layer.values())))
    if detail:
        for node in model.nodes:
            value = np.asarray(activations[node.name], np.float64)
            response.activations.add(layer=node.name, norm=float(np.linalg.norm(value.ravel())), ramp=ramp(value))
    return gradients


def _compare_weights(model, initial, final, gradients, response):
    for node in model.nodes:
        for name in list(node.parameters) + list(node.state):
            before = np.asarray(initial[node.name][name], np.float64)
            after = np.asarray(final[node.name][name], np.float64)
            entry = response.parameters.add(
                layer=node.name, parameter=name, initial=float(np.linalg.norm(before.ravel())),
                final=float(np.linalg.norm(after.ravel())), moved=float(np.linalg.norm((after - before).ravel())),
                ramp=ramp(after))
            if name in node.parameters:
                entry.gradient = float(np.linalg.norm(np.asarray(gradients[node.name][name], np.float64).ravel()))


def ramp(value):
    """Sum of value * linspace(-1, 1): sees an exchange of elements, which a norm does not."""
    flat = np.asarray(value, np.float64).ravel()
    return float(np.dot(flat, np.linspace(-1.0, 1.0, flat.size)))
