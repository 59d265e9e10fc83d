"""MNIST's perceptron written by hand in plain Jittor: the other side of tests/bench/overhead.py.

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
            layer.weight.assign(jt.array(np.ascontiguousarray(initial[name + "_kernel"].T)))
            layer.bias.assign(jt.array(initial[name + "_bias"]))

    def execute(self, x):
        return self.logits(nn.relu(self.hidden(x.reshape((x.shape[0], -1)))))


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
    model = Perceptron(np.load(options.initial))
    optimizer = nn.Adam(model.parameters(), 1e-3, eps=1e-7)
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
    for name in ("x", "y", "initial", "orders"):
        parser.add_argument("--" + name, required=True)
    for name, default in (("warmup-epochs", 1), ("epochs", 2), ("threads", 1), ("workers", 4), ("prefetch", 4)):
        parser.add_argument("--" + name, type=int, default=default)
    return parser.parse_args()


if __name__ == "__main__":
    main()
