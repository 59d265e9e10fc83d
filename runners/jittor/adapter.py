"""Trains workloads in Jittor.

Jittor builds a lazy graph, compiles each new group of operations with g++ and runs it when a value is asked for.
A step therefore ends by running all that it queued; on a CPU that is when it is done.
"""

import atexit
import ctypes
import os
import signal

import jittor as jt
import jittor_utils
import numpy as np
from jittor import nn

from runners.core.adapter import Adapter, Description, Device, Unsupported
from runners.jittor import denormals, optimizers
from runners.jittor.layers import MAKERS, Network
from runners.jittor.loaders import MemoryLoader, NativeLoader

# Jittor catches crashes, prints a line and ends with status 1. Without that the process dies by the signal itself,
# which is how a crash is told from an error. Its handlers of SIGINT and SIGCHLD stay: they end the process when a
# loader worker fails or is killed, where it would otherwise wait for that worker's batches for ever.
for _signal in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGQUIT):
    signal.signal(_signal, signal.SIG_DFL)

# Importing Jittor starts a pool of processes and three threads to look whether its core must be compiled. It is done,
# and they would stay: beside the loader's workers, and in what those are forked from.
if jittor_utils.pool_size:
    jittor_utils.pool_cleanup()
    atexit.unregister(jittor_utils.pool_cleanup)
    # A new one is made if something else must be compiled.
    jittor_utils.pool_size = 0

LOSSES = ("sparse_categorical_crossentropy", "binary_crossentropy")
VARIANTS = {"jit": ("false",), "layout": ("default", "nchw"), "precision": ("float32",),
            "pipeline": ("native", "memory")}


class JittorAdapter(Adapter):
    """See ``runners.core.adapter``."""

    def __init__(self):
        self._gpu = False
        self._openmp = None
        self._network = self.optimizer = self._loss = self._message = None
        self._decays = False
        self._steps = 0

    def describe(self):
        return Description("Jittor", _versions(), MAKERS, LOSSES, optimizers.NAMES, VARIANTS)

    def devices(self):
        return [Device("cpu")] + ([_gpu()] if jt.has_cuda else [])

    def open(self, execution):
        _check_variant(execution.variant)
        denormals.flush()  # before OpenMP starts its threads, which take the setting over
        self._gpu = execution.device == "gpu"
        if self._gpu and not jt.has_cuda:
            raise LookupError("this Jittor was built without CUDA")
        jt.flags.use_cuda = int(self._gpu)
        if self._gpu:
            jt.flags.use_tensorcore = int(execution.tf32)
        self._openmp = ctypes.CDLL("libgomp.so.1")
        self._openmp.omp_set_num_threads(int(execution.threads))

    def build(self, model, initial):
        workload = model.workload
        for node in model.nodes:
            if node.op not in MAKERS:
                raise Unsupported("layer " + node.op)
        jt.set_global_seed(int(workload.seed))
        self._network = Network(model, initial)
        self._message, self._decays = workload.optimizer, workload.optimizer.decay > 0
        self.optimizer = optimizers.make(workload.optimizer, [p.var for _, p in self._network.trained])
        self._loss = _binary if workload.loss == "binary_crossentropy" else nn.cross_entropy_loss
        self._steps = 0
        jt.sync_all(True)

    def device(self):
        return _gpu() if jt.flags.use_cuda else Device("cpu")

    def loader(self, source):
        return (MemoryLoader if source.pipeline == "memory" else NativeLoader)(source, self._network.arrange)

    def put(self, x, y):
        return jt.array(self._network.arrange(x)).stop_grad(), jt.array(y).stop_grad()

    def step(self, batch):
        x, y = batch
        loss = self._loss(self._network.forward(x), y)
        if self._decays:
            self.optimizer.lr = optimizers.rate(self._message, self._steps)
            self._steps += 1
        self.optimizer.step(loss)
        if self._gpu:
            kept = []
            loss.fetch(kept.append)
            jt.sync_all()
            return kept
        jt.sync_all()
        return loss.item()

    def wait(self):
        jt.sync_all(True)

    def read(self, loss):
        if self._gpu:
            jt.sync_all(True)
            return float(loss[0].reshape(-1)[0])
        return float(loss)

    def predict(self, x):
        self._network.train(False)
        with jt.no_grad():
            logits = np.array(self._network.forward(jt.array(self._network.arrange(x))).numpy())
        self._network.train(True)
        return logits

    def inspect(self, x, y):
        x, y = self.put(x, y)
        values = self._network.values(x)
        trained = self._network.trained
        loss = self._loss(self._network.last(values), y)
        found = jt.grad(loss, [parameter.var for _, parameter in trained])
        gradients = _nested((key, parameter.logical(g)) for (key, parameter), g in zip(trained, found))
        return {name: self._network.logical(name, values[name]) for name in self._network.names}, gradients

    def weights(self):
        network = self._network
        return _nested((key, parameter.logical(parameter.var)) for key, parameter in network.trained + network.state)

    def memory(self):
        reason = "Jittor counts no peak of its allocator"
        return {"allocator_allocated_peak": (None, reason), "allocator_reserved_peak": (None, reason)}

    def facts(self):
        threads = self._openmp.omp_get_max_threads() if self._openmp else 0
        return {"threads": str(threads), "tf32": "false", "denormals_flushed": str(denormals.is_flushed()).lower(),
                "onednn": str(jt.compile_extern.mkl_ops is not None).lower(),
                "compiler": jt.flags.cc_path, "compiler_flags": " ".join(jt.flags.cc_flags.split()),
                "kernel_cache": jt.flags.cache_path, "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY", "")}


def _check_variant(variant):
    for option, values in VARIANTS.items():
        value = getattr(variant, option)
        text = str(value).lower() if option == "jit" else value
        if text not in values:
            why = "Jittor always compiles; it has no second way" if option == "jit" else ""
            raise Unsupported("{}={}".format(option, text), why)


def _binary(logits, labels):
    return nn.binary_cross_entropy_with_logits(logits.reshape((-1,)), labels.float32())


def _nested(items):
    """{layer: {parameter: array}} of ((layer, parameter), array)."""
    result = {}
    for (layer, name), array in items:
        result.setdefault(layer, {})[name] = array
    return result


def _versions():
    versions = {"jittor": jt.__version__, "numpy": np.__version__}
    if jt.compile_extern.mkl_ops is not None:
        versions["onednn"] = "2.2.0"
    versions["g++"] = jittor_utils.get_version(jt.flags.cc_path)[1:-1]
    return versions


def _gpu():
    """Jittor computes on the first device that it sees and tells nothing else about it."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
    return Device("gpu", 0, seen if seen.startswith("GPU-") else "")


ADAPTER = JittorAdapter
