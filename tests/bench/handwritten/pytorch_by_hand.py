"""mlp-mnist or cnn-mnist trained by hand in plain PyTorch: what the runner's measured time is compared with.

Run by the environment's own Python; imports nothing of Trainyard. Prints one JSON line:
{"measured_seconds": ..., "epoch_seconds": [...], "loss": ...}.
"""

import argparse
import inspect
import json
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


class Batches(Dataset):
    """Whole batches as items."""

    def __init__(self, x, y):
        self.x = x
        self.y = y

    def __getitem__(self, indices):
        return self.x.index_select(0, indices), self.y.index_select(0, indices)


class Order(Sampler):
    """The batches of one epoch in the order given."""

    def __init__(self, orders):
        self.orders = orders
        self.epoch = 0

    def __len__(self):
        return len(self.orders[self.epoch])

    def __iter__(self):
        return iter(self.orders[self.epoch].unbind(0))


def perceptron():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(inplace=True), nn.Linear(512, 10))


def convolutions():
    return nn.Sequential(
        nn.Flatten(), nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 32, 3), nn.ReLU(inplace=True), nn.Conv2d(32, 64, 3),
        nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128),
        nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(128, 10))


def make_model(name, initial, device):
    """With the initial weights, which are those of channels last: kernels (height, width, in, out)."""
    model = MODELS[name]()
    numbers = {nn.Conv2d: 0, nn.Linear: 0}
    with torch.no_grad():
        for layer in model:
            if type(layer) in numbers:
                numbers[type(layer)] += 1
                prefix = "{}{}_".format("c" if isinstance(layer, nn.Conv2d) else "d", numbers[type(layer)])
                layer.weight.copy_(torch.from_numpy(to_first(initial[prefix + "kernel"], layer)))
                layer.bias.copy_(torch.from_numpy(initial[prefix + "bias"]))
    return model.to(device)


def to_first(kernel, layer):
    if isinstance(layer, nn.Conv2d):
        return kernel.transpose(3, 2, 0, 1).copy()
    if kernel.shape[0] == 9216:
        kernel = kernel.reshape(12, 12, 64, -1).transpose(2, 0, 1, 3).reshape(9216, -1)
    return kernel.T.copy()


def make_optimizer(name, parameters):
    if name == "cnn":
        return torch.optim.Adadelta(parameters, lr=1.0, rho=0.95, eps=1e-8)
    fused = {"fused": True} if "fused" in inspect.signature(torch.optim.Adam.__init__).parameters else {}
    return torch.optim.Adam(parameters, lr=1e-3, eps=1e-7, **fused)


MODELS = {"mlp": perceptron, "cnn": convolutions}


def make_loader(x, y, orders, arguments, device):
    order = Order(orders)
    options = {"prefetch_factor": arguments.prefetch, "persistent_workers": True} if arguments.workers else {}
    return order, DataLoader(Batches(x, y), sampler=order, batch_size=None, num_workers=arguments.workers,
                             pin_memory=device.type == "cuda", **options)


def compiled(model, criterion):
    """The loss of model and criterion together, compiled as the version does it."""

    class Objective(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model
            self.criterion = criterion

        def forward(self, x, y):
            return self.criterion(self.model(x), y)

    objective = Objective()
    return torch.compile(objective, dynamic=False) if hasattr(torch, "compile") else torch.jit.script(objective)


def train(arguments, device):
    x = torch.from_numpy(np.load(arguments.x))
    y = torch.from_numpy(np.load(arguments.y)).long()
    orders = torch.from_numpy(np.load(arguments.orders))
    model, criterion = make_model(arguments.model, np.load(arguments.initial), device), nn.CrossEntropyLoss()
    objective = compiled(model, criterion) if arguments.jit else lambda x, y: criterion(model(x), y)
    optimizer = make_optimizer(arguments.model, model.parameters())
    order, loader = make_loader(x, y, orders, arguments, device)

    on_gpu = device.type == "cuda"

    def run_epoch(number):
        order.epoch = number
        for batch in loader:
            pictures, labels = [part.to(device, non_blocking=True) for part in batch] if on_gpu else batch
            optimizer.zero_grad(set_to_none=True)
            loss = objective(pictures, labels)
            loss.backward()
            optimizer.step()
        return loss.detach()

    for number in range(arguments.warmup_epochs):
        run_epoch(number)
    marks = [synchronized_time(device)]
    for number in range(arguments.warmup_epochs, arguments.warmup_epochs + arguments.epochs):
        loss = run_epoch(number)
        marks.append(time.perf_counter())
    marks[-1] = synchronized_time(device)
    return marks, loss.item()


def synchronized_time(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def main():
    parser = argparse.ArgumentParser()
    for name in ("x", "y", "initial", "orders"):
        parser.add_argument("--" + name, required=True)
    for name in ("warmup-epochs", "epochs", "threads", "workers", "prefetch"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--model", choices=sorted(MODELS), default="mlp")
    parser.add_argument("--jit", action="store_true")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    marks, loss = train(arguments, torch.device("cuda" if arguments.device == "gpu" else "cpu"))
    epochs = [end - start for start, end in zip(marks, marks[1:])]
    print(json.dumps({"measured_seconds": marks[-1] - marks[0], "epoch_seconds": epochs, "loss": loss}))


if __name__ == "__main__":
    main()
