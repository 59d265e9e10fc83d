"""A framework that misbehaves as told by FAKE_BEHAVIOUR: what the core must notice. Python 3.6 syntax."""

import os
import signal
import subprocess
import sys
import time

import numpy as np

from runners.core.adapter import Adapter, Description, Device, Unsupported

BEHAVIOUR = os.environ.get("FAKE_BEHAVIOUR", "good")
CHILD_FILE = os.environ.get("FAKE_CHILD_FILE", "")

if BEHAVIOUR == "broken-import":
    raise ImportError("libfake.so.1: cannot open shared object file")


class Loader(object):
    def __init__(self, source):
        self._source = source

    def epoch(self, number):
        batches = [self._source.take(number, indices) for indices in self._source.order(number)]
        if BEHAVIOUR == "short-epoch":
            return iter(batches[:-1])
        if BEHAVIOUR == "long-epoch":
            return iter(batches + batches[:1])
        return iter(batches)

    def close(self):
        pass


class FakeAdapter(Adapter):
    """Counts steps; its "loss" falls with them."""

    def __init__(self):
        self._steps = 0
        self._x = None

    def describe(self):
        layers = ("flatten", "dense", "relu") if BEHAVIOUR != "no-relu" else ("flatten", "dense")
        variants = {"jit": ("false",), "layout": ("default",), "precision": ("float32",),
                    "pipeline": ("native", "memory")}
        losses = ("sparse_categorical_crossentropy",)
        return Description("Fake", {"fake": "1.0"}, layers, losses, ("sgd", "adam"), variants)

    def open(self, execution):
        if BEHAVIOUR == "no-device":
            raise LookupError("no GPU with that UUID")
        print("fake framework says hello")

    def build(self, model, initial):
        if BEHAVIOUR == "unsupported":
            raise Unsupported("optimizer sgd", "nesterov is not exact here")
        self._initial = initial
        self._classes = model.classes

    def device(self):
        return Device("gpu" if BEHAVIOUR == "other-device" else "cpu")

    def loader(self, source):
        return Loader(source)

    def put(self, x, y):
        return x, y

    def step(self, batch):
        self._steps += 1
        if self._steps == 5:
            self._misbehave()
        return float("nan") if BEHAVIOUR == "nan" and self._steps > 4 else 1.0 / self._steps

    def _misbehave(self):
        if BEHAVIOUR == "raises":
            raise RuntimeError("kernel\nlaunch failed")
        if BEHAVIOUR == "out-of-memory":
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        if BEHAVIOUR == "killed":
            sys.stderr.write("the last words\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        if BEHAVIOUR == "exits":
            os._exit(7)
        if BEHAVIOUR == "child":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            with open(CHILD_FILE, "w") as file:
                file.write(str(child.pid))
            os.kill(os.getpid(), signal.SIGKILL)
        if BEHAVIOUR == "hangs":
            with open(CHILD_FILE, "w") as file:
                file.write(str(os.getpid()))
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        if BEHAVIOUR == "slow":
            with open(CHILD_FILE, "w") as file:
                file.write(str(os.getpid()))

    def wait(self):
        pass

    def read(self, loss):
        return loss

    def predict(self, x):
        return np.zeros((len(x), self._classes))

    def weights(self):
        return self._initial

    def inspect(self, x, y):
        return {}, {}


if BEHAVIOUR == "slow":
    class SlowAdapter(FakeAdapter):
        def step(self, batch):
            time.sleep(0.05)
            return FakeAdapter.step(self, batch)

    ADAPTER = SlowAdapter
else:
    ADAPTER = FakeAdapter
