"""mlp-mnist or cnn-mnist written by hand in plain Jittor: the other side of tests/bench/overhead.py.

Knows nothing of this project's runners. Prints one JSON line.
"""

import argparse
import ctypes
import json
import time

import jittor as jt
import numpy as np
from jittor import nn
from jittor.dataset import Dataset


class Perceptron(nn.Module):
    def __init__(self, initial):
        self.hidden = nn.Linear(784, 512)
        self.logits = nn.Linear(512, 10)
        for layer, name in ((self.hidden, "d1"), (self.logits, "d2")):
            fill(layer, initial[name + "_kernel"].T, initial[name + "_bias"])

    def execute(self, x):
        return self.logits(nn.relu(self.hidden(x.reshape((x.shape[0], -1)))))


class Convolutions(nn.Module):
    def __init__(self, initial):
        self.conv1, self.conv2 = nn.Conv(1, 32, 3), nn.Conv(32, 64, 3)
        self.pool = nn.Pool(2, 2, op="maximum")
        self.drop1, self.drop2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.hidden, self.logits = nn.Linear(9216, 128), nn.Linear(128, 10)
        # Kernels are given as (height, width, in, out), and flattened channels come last.
        for layer, name in ((self.conv1, "c1"), (self.conv2, "c2")):
            fill(layer, initial[name + "_kernel"].transpose(3, 2, 0, 1), initial[name + "_bias"])
        hidden = initial["d1_kernel"].reshape(12, 12, 64, 128).transpose(2, 0, 1, 3).reshape(9216, 128)
        fill(self.hidden, hidden.T, initial["d1_bias"])
        fill(self.logits, initial["d2_kernel"].T, initial["d2_bias"])

    def execute(self, x):
        x = nn.relu(self.conv1(x.reshape((x.shape[0], 1, 28, 28))))
        x = self.drop1(self.pool(nn.relu(self.conv2(x))))
        return self.logits(self.drop2(nn.relu(self.hidden(x.reshape((x.shape[0], -1))))))


def fill(layer, weight, bias):
    layer.weight.assign(jt.array(np.ascontiguousarray(weight)))
    layer.bias.assign(jt.array(bias))


class Adadelta(nn.Optimizer):
    """Jittor has none."""

    def __init__(self, parameters):
        super().__init__(parameters, 1.0)
        self.squares = [jt.zeros(p.shape).stop_grad() for p in parameters]
        self.changes = [jt.zeros(p.shape).stop_grad() for p in parameters]

    def step(self, loss):
        self.pre_step(loss)
        group = self.param_groups[0]
        for p, g, square, change in zip(group["params"], group["grads"], self.squares, self.changes):
            square.update(0.95 * square + 0.05 * g * g)
            update = g * jt.sqrt(change + 1e-8) / jt.sqrt(square + 1e-8)
            change.update(0.95 * change + 0.05 * update * update)
            p.update(p - self.lr * update)
        self.zero_grad()


def adam(parameters):
    return nn.Adam(parameters, 1e-3, eps=1e-7)


MODELS = {"mlp": (Perceptron, adam), "cnn": (Convolutions, Adadelta)}


class Batches(Dataset):
    """Whole batches as samples, numbered through all epochs."""

    def __init__(self, x, y, orders, workers, prefetch):
        batches = orders.reshape(-1, orders.shape[2])
        size = (x[0].nbytes + y[0].nbytes) * orders.shape[2] + 4096
        super().__init__(batch_size=1, num_workers=workers, buffer_size=(max(prefetch, 1) + 1) * size)
        self.set_attrs(total_len=len(batches))
        self.x, self.y, self.batches = x, y, batches

    def __getitem__(self, number):
        indices = self.batches[number]
        return number, self.x[indices], self.y[indices]

    def collate_batch(self, batch):
        return [int(batch[0][0]), *batch[0][1:]]


def in_order(batches):
    """Workers may finish in another order."""
    early = {}
    wanted = 0
    for number, x, y in batches:
        early[number] = x, y
        while wanted in early:
            yield early.pop(wanted)
            wanted += 1


def main():
    options = parse()
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(options.threads)
    jt.flags.use_cuda = 0
    x, y, orders = np.load(options.x), np.load(options.y), np.load(options.orders)
    make, optimize = MODELS[options.model]
    model = make(np.load(options.initial))
    optimizer = optimize(model.parameters())
    model.train()
    dataset = Batches(x, y, orders, options.workers, options.prefetch)
    batches = in_order(dataset)
    stamps = []
    for epoch in range(options.warmup_epochs + options.epochs + 1):
        if epoch >= options.warmup_epochs:
            jt.sync_all(True)
            stamps.append(time.perf_counter())
        if epoch < options.warmup_epochs + options.epochs:
            loss = train(model, optimizer, batches, orders.shape[1])
    dataset.terminate()
    print(json.dumps({"measured_seconds": stamps[-1] - stamps[0], "epoch_seconds": np.diff(stamps).tolist(),
                      "loss": loss}))


def train(model, optimizer, batches, steps):
    """One epoch; the loss of its last step."""
    for _ in range(steps):
        x, y = next(batches)
        loss = nn.cross_entropy_loss(model(x), y)
        optimizer.step(loss)
        jt.sync_all()
        value = loss.item()
    return value


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=sorted(MODELS), default="mlp")
    for name in ("x", "y", "initial", "orders"):
        parser.add_argument("--" + name, required=True)
    for name, default in (("warmup-epochs", 1), ("epochs", 2), ("threads", 1), ("workers", 4), ("prefetch", 4)):
        parser.add_argument("--" + name, type=int, default=default)
    return parser.parse_args()


if __name__ == "__main__":
    main()
