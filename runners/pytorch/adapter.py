"""PyTorch: one adapter for all versions from 1.9 on."""

import contextlib

import numpy as np
import torch
import torch.fx

from runners.core.adapter import Adapter, Description, Device, Unsupported
from runners.pytorch import compiling, devices, layers, loaders, optimizers

_LOSSES = {"sparse_categorical_crossentropy": torch.nn.CrossEntropyLoss,
           "binary_crossentropy": torch.nn.BCEWithLogitsLoss}
_LAYOUTS = ("default", "nchw", "nhwc")
_PIPELINES = ("native", "memory")
_NOT_COUNTED = "PyTorch does not count its memory on a CPU"


class PyTorchAdapter(Adapter):
    """See ``runners.core.adapter.Adapter``."""

    def __init__(self):
        self._execution = None
        self._device = torch.device("cpu")
        self._network = None
        self._model = None
        self._objective = None
        self._updates = None
        self._arrangement = None

    def describe(self):
        variants = {"jit": ("false",) if compiling.missing(_has_cuda()) else ("false", "true"), "layout": _LAYOUTS,
                    "precision": ("float32", "tf32") if _has_tf32() else ("float32",), "pipeline": _PIPELINES}
        versions = {"torch": torch.__version__.split("+")[0], "torch_build": torch.__version__, "numpy": np.__version__}
        if _has_cuda():
            versions.update(cuda=torch.version.cuda, cudnn=str(torch.backends.cudnn.version()))
        return Description("PyTorch", versions, layers.LAYERS, tuple(_LOSSES), optimizers.OPTIMIZERS, variants,
                           devices.architectures())

    def devices(self):
        return [Device("cpu")] + devices.visible()

    def open(self, execution):
        self._execution = execution
        self._device = _find_device(execution)
        _check_variant(execution.variant, self._device.type == "cuda")
        torch.set_num_threads(int(execution.threads))
        if torch.get_num_interop_threads() != 1:  # PyTorch takes it once in a process
            torch.set_num_interop_threads(1)
        torch.backends.cudnn.enabled = True
        torch.backends.cudnn.deterministic = False
        torch.backends.cudnn.benchmark = execution.autotune
        torch.backends.cudnn.allow_tf32 = execution.tf32
        torch.backends.cuda.matmul.allow_tf32 = execution.tf32

    def build(self, model, initial):
        torch.manual_seed(model.workload.seed)
        channels_last = self._execution.variant.layout == "nhwc"
        network = layers.Network(model, channels_last)
        network.load(initial)
        network.module.to(self._device)
        if channels_last:
            network.module.to(memory_format=torch.channels_last)
        network.module.train()
        self._network, self._model = network, network.module
        self._criterion = _LOSSES[model.workload.loss]()
        trained = [parameter for parameter in self._model.parameters() if parameter.requires_grad]
        self._updates = optimizers.make(model.workload.optimizer, trained, self._device)
        self._arrangement = loaders.Arrangement(network.channels_first, channels_last,
                                                model.workload.loss == "binary_crossentropy", self._device)
        self._objective = self._eager_loss
        if self._execution.variant.jit:
            self._objective = compiling.compiled(self._model, self._criterion)

    def _eager_loss(self, x, y):
        return self._criterion(self._model(x), y)

    def device(self):
        where = next(self._model.parameters()).device
        return Device("cpu") if where.type == "cpu" else devices.gpu(where.index)

    def loader(self, source):
        return loaders.make(source, self._arrangement)

    def put(self, x, y):
        return self._arrangement.put(x, y)

    def step(self, batch):
        x, y = batch
        updates = self._updates
        updates.optimizer.zero_grad(set_to_none=True)
        loss = self._objective(x, y)
        if updates.advance is not None:
            updates.advance()
        loss.backward(updates.rate)
        updates.optimizer.step()
        return loss.detach()

    def wait(self):
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def read(self, loss):
        return loss.item()

    def predict(self, x):
        with torch.no_grad(), self._evaluating():
            return self._model(self._arrangement.features(x)).cpu().numpy()

    @contextlib.contextmanager
    def _evaluating(self):
        """Evaluation mode, with the specification's running variances in place of the module's own."""
        variances = [(norm.running_var, norm.running_var.clone(), factor) for norm, factor in
                     self._network.batch_norms]
        self._model.eval()
        try:
            for variance, _, factor in variances:
                variance.mul_(factor)
            yield
        finally:
            for variance, stored, _ in variances:
                variance.copy_(stored)
            self._model.train()

    def inspect(self, x, y):
        x, y = self._arrangement.put(x, y)
        recorder = _Recorder(self._model)
        self._model.zero_grad(set_to_none=True)
        self._criterion(recorder.run(x), y).backward()
        activations = {name: np.array(value.decode(recorder.outputs[value.fx.name].cpu().numpy()))
                       for name, value in self._network.values.items()}
        return activations, self._network.gradients()

    def weights(self):
        return self._network.weights()

    def memory(self):
        if self._device.type != "cuda":
            return {kind: (None, _NOT_COUNTED) for kind in ("allocator_allocated_peak", "allocator_reserved_peak")}
        return {"allocator_allocated_peak": torch.cuda.max_memory_allocated(self._device),
                "allocator_reserved_peak": torch.cuda.max_memory_reserved(self._device)}

    def facts(self):
        cudnn = torch.backends.cudnn
        facts = {"threads": str(torch.get_num_threads()), "interop_threads": str(torch.get_num_interop_threads()),
                 "mkldnn": _text(torch.backends.mkldnn.is_available()), "autotune": _text(cudnn.benchmark),
                 "tf32": _text(torch.backends.cuda.matmul.allow_tf32 and cudnn.allow_tf32), "memory_growth": "true"}
        if self._execution is not None:
            variant = self._execution.variant
            facts["jit"] = compiling.NAME if variant.jit else "none"
            facts["layout"] = "nhwc" if variant.layout == "nhwc" else "nchw"
        if self._updates is not None:
            facts["optimizer"] = optimizers.implementation(self._updates.optimizer)
        return facts


class _Recorder(torch.fx.Interpreter):
    """Runs the module node by node and keeps a copy of every output: {name of the fx node: tensor}."""

    def __init__(self, module):
        super(_Recorder, self).__init__(module)
        self.outputs = {}

    def run_node(self, n):
        value = super(_Recorder, self).run_node(n)
        self.outputs[n.name] = value.detach().clone()
        return value


def _text(flag):
    return "true" if flag else "false"


def _has_cuda():
    return torch.version.cuda is not None


def _has_tf32():
    return _has_cuda() and int(torch.version.cuda.split(".")[0]) >= 11


def _find_device(execution):
    if execution.device == "cpu":
        return torch.device("cpu")
    found = devices.visible()
    for gpu in found:
        if execution.gpu_uuid in ("", gpu.uuid):
            break
    else:
        raise LookupError("PyTorch does not see GPU {}; it sees {}{}".format(
            execution.gpu_uuid or "0", ", ".join(each.uuid or each.name for each in found) or "none",
            "" if _has_cuda() else ", because this build is without CUDA"))
    capability, held = torch.cuda.get_device_capability(gpu.index), devices.architectures()
    if not devices.holds(held, capability):
        raise Unsupported("device gpu", "{} has architecture sm_{}{}, this build of PyTorch holds {}".format(
            gpu.name, capability[0], capability[1], " ".join(held)))
    torch.cuda.set_device(gpu.index)
    return torch.device("cuda", gpu.index)


def _check_variant(variant, on_gpu):
    if variant.jit:
        missing = compiling.missing(on_gpu)
        if missing:
            raise Unsupported("variant jit=true", missing)
    if variant.layout not in _LAYOUTS:
        raise Unsupported("variant layout=" + variant.layout)
    if variant.pipeline not in _PIPELINES:
        raise Unsupported("variant pipeline=" + variant.pipeline)
    if variant.precision == "tf32":
        if not (on_gpu and _has_tf32()):
            raise Unsupported("variant precision=tf32", "needs a GPU and a build for CUDA 11 or newer")
    elif variant.precision != "float32":
        # The specification does not say which type and which scale of the loss mixed precision means.
        raise Unsupported("variant precision=" + variant.precision, "only float32 and, on a GPU, tf32")
    if variant.pipeline == "native" and variant.workers and variant.prefetch < 1:
        raise Unsupported("variant prefetch=0", "workers of DataLoader prepare at least one batch ahead")


ADAPTER = PyTorchAdapter
