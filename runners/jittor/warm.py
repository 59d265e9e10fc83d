"""Compiles what most workloads need, by training: for ``prepare`` only.

    python -m runners.jittor.warm
"""

import sys

import numpy as np
from trainyard import graph
from trainyard.v1 import runner_pb2, workload_pb2

from runners.core.batches import Source
from runners.core.initial import initial_weights

STEPS = 3
# Jittor compiles constants 0 and 1 into a kernel, and Adam's corrections become 1 after some steps: beta_1's after
# about 160, beta_2's after about 17,000. These step numbers have the kernels compiled now and not in the middle of a
# measured run.
LATER = (1000, 100000)
PADDING = {"valid": workload_pb2.PADDING_VALID, "same": workload_pb2.PADDING_SAME}


def main():
    """Imports Jittor, which compiles it, then trains and evaluates a perceptron and a small convolutional network."""
    import jittor
    if jittor.compile_extern.mkl_ops is None:
        sys.exit("Jittor did not take oneDNN: see the lines above")
    for layers in (_perceptron(), _convolutional()):
        for pipeline in ("native", "memory"):
            _train(layers, pipeline)


def _train(layers, pipeline):
    from runners.jittor.adapter import ADAPTER
    model = graph.parse(_workload(layers))
    execution = runner_pb2.Execution(device="cpu", threads=2, variant=workload_pb2.Variant(
        layout="default", precision="float32", pipeline=pipeline, workers=0, prefetch=1))
    adapter = ADAPTER()
    adapter.open(execution)
    adapter.build(model, initial_weights(model))
    x = np.random.RandomState(0).uniform(size=(STEPS * 8,) + model.input_shape).astype(np.float32)
    loader = adapter.loader(Source(x, np.arange(len(x), dtype=np.int32) % 10, 0, 8, execution.variant))
    for batch in loader.epoch(0):
        adapter.step(batch)
    loader.close()
    for number in LATER:
        adapter.optimizer.n_step = number
        adapter.step(adapter.put(x[:8], np.zeros(8, np.int32)))
    adapter.wait()
    adapter.predict(x[:8])
    adapter.weights()


def _workload(layers):
    return workload_pb2.Workload(
        name="warm", dataset=workload_pb2.Dataset(mnist=workload_pb2.Mnist()), layers=layers,
        loss="sparse_categorical_crossentropy", optimizer=workload_pb2.Optimizer(
            learning_rate=1e-3, adam=workload_pb2.Adam(beta_1=0.9, beta_2=0.999, epsilon=1e-7)),
        schedule=workload_pb2.Schedule(batch_size=8, warmup_steps=1, steps=1))


def _layer(name, before, **op):
    return workload_pb2.Layer(name=name, inputs=before.split(), **op)


def _dense(units):
    return workload_pb2.Dense(units=units, use_bias=True)


def _conv(filters, kernel, stride, padding):
    return workload_pb2.Conv2d(
        filters=filters, kernel_height=kernel, kernel_width=kernel, stride_height=stride, stride_width=stride,
        padding=PADDING[padding], use_bias=True)


def _pool(padding):
    return workload_pb2.MaxPool2d(size_height=2, size_width=2, stride_height=2, stride_width=2,
                                  padding=PADDING[padding])


def _norm():
    return workload_pb2.BatchNorm(epsilon=1e-3, momentum=0.99)


def _perceptron():
    return [_layer("f", "input", flatten=workload_pb2.Flatten()), _layer("d1", "f", dense=_dense(16)),
            _layer("r", "d1", relu=workload_pb2.Relu()), _layer("d2", "r", dense=_dense(10))]


def _convolutional():
    relu, add = workload_pb2.Relu(), workload_pb2.Add()
    return [_layer("c1", "input", conv2d=_conv(4, 3, 1, "same")), _layer("b1", "c1", batch_norm=_norm()),
            _layer("r1", "b1", relu=relu), _layer("p1", "r1", max_pool2d=_pool("valid")),
            _layer("c2", "p1", conv2d=_conv(8, 3, 2, "same")), _layer("b2", "c2", batch_norm=_norm()),
            _layer("r2", "b2", relu=relu), _layer("c3", "r2", conv2d=_conv(8, 3, 1, "same")),
            _layer("b3", "c3", batch_norm=_norm()), _layer("a", "b3 r2", add=add), _layer("r3", "a", relu=relu),
            _layer("c4", "r3", conv2d=_conv(8, 3, 1, "valid")), _layer("r4", "c4", relu=relu),
            _layer("f", "r4", flatten=workload_pb2.Flatten()), _layer("d1", "f", dense=_dense(16)),
            _layer("r5", "d1", relu=relu),
            _layer("o", "r5", dropout=workload_pb2.Dropout(rate=0.5)), _layer("d2", "o", dense=_dense(10))]


if __name__ == "__main__":
    main()
