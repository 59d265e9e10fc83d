"""TensorFlow 2: one ``tf.function`` a step, with XLA or without, fed by ``tf.data``."""

import os

import numpy as np
import tensorflow as tf

from runners.core.adapter import Adapter, Description, Unsupported
from runners.tensorflow import devices, loaders
from runners.tensorflow.layers import LAYERS, Network
from runners.tensorflow.optimizers import LOSSES, OPTIMIZERS, Optimizer

tf.get_logger().setLevel("ERROR")


class TensorFlowAdapter(Adapter):
    """See ``runners.core.adapter``."""

    def describe(self):
        build, cuda = tf.sysconfig.get_build_info(), tf.test.is_built_with_cuda()
        variants = {
            "jit": ("false", "true") if tf.test.is_built_with_xla() else ("false",),
            "layout": ("default", "nhwc", "nchw") if cuda else ("default", "nhwc"),
            "precision": ("float32", "tf32") if cuda else ("float32",),
            "pipeline": ("native", "memory"),
        }
        versions = {"tensorflow": tf.__version__, "keras": tf.keras.__version__, "numpy": np.__version__}
        return Description("TensorFlow", versions, LAYERS, tuple(LOSSES), OPTIMIZERS, variants,
                           build.get("cuda_compute_capabilities", ()))

    def devices(self):
        return devices.visible()

    def open(self, execution):
        _check(execution)
        tf.config.threading.set_intra_op_parallelism_threads(execution.threads)
        tf.config.threading.set_inter_op_parallelism_threads(execution.threads)
        devices.set_autotune(execution.autotune)
        self._device, capability = devices.select(execution)
        if execution.variant.precision == "tf32" and capability < (8, 0):
            raise Unsupported("precision=tf32", "this GPU's compute capability {}.{} is below 8.0".format(*capability))
        tf.config.experimental.enable_tensor_float_32_execution(bool(execution.tf32))
        tf.config.optimizer.set_jit(False)
        # Unless a layout is asked for, the graph optimizer may turn NHWC pictures to NCHW on a GPU.
        tf.config.optimizer.set_experimental_options({"layout_optimizer": execution.variant.layout == "default"})
        self._execution = execution
        # TensorFlow keeps int32 tensors of a GPU function in host memory, so there integers are int64.
        self._integer = tf.int64 if execution.device == "gpu" else tf.int32

    def build(self, model, initial):
        variant, batch = self._execution.variant, model.workload.schedule.batch_size
        tf.random.set_seed(model.workload.seed)
        with tf.device(self._device):
            self._network = network = Network(model, initial, variant.jit, variant.layout == "nchw")
            optimizer = Optimizer(model.workload.optimizer, network.trainable)
        loss_of = LOSSES[model.workload.loss]

        def train(x, y):
            with tf.GradientTape() as tape:
                loss = loss_of(network.logits(x, True), y)
            optimizer.apply(tape.gradient(loss, network.trainable), network.trainable)
            return loss

        def inspect(x, y):
            with tf.GradientTape() as tape:
                outputs = network.outputs(x, True)
                loss = loss_of(outputs[model.nodes[-1].name], y)
            gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, network.trainable)]
            return {name: network.logical(value) for name, value in outputs.items()}, gradients

        kind = self._integer if model.input_is_integer else tf.float32
        samples, labels = tf.TensorSpec((batch,) + model.input_shape, kind), tf.TensorSpec((batch,), self._integer)
        self._train = tf.function(train, (samples, labels), autograph=False, jit_compile=variant.jit or None)
        self._inspect = tf.function(inspect, autograph=False)
        self._logits = tf.function(lambda x: network.logits(x, False),
                                   (tf.TensorSpec((None,) + model.input_shape, kind),), autograph=False)
        self._settled = tf.function(lambda: tf.add_n([tf.reshape(v, (-1,))[0] for v in network.trainable]),
                                    autograph=False)
        self._model = model
        self.wait()

    def device(self):
        return devices.holding([v for group in self._network.variables.values() for v in group.values()])

    def loader(self, source):
        return loaders.make(source, self._device, self._integer)

    def put(self, x, y):
        with tf.device(self._device):
            return loaders.tensor(x, self._integer), loaders.tensor(y, self._integer)

    def step(self, batch):
        return self._train(*batch)

    def wait(self):
        # One number that depends on every parameter's last update, fetched to the host.
        self._settled().numpy()

    def read(self, loss):
        return float(loss)

    def predict(self, x):
        with tf.device(self._device):
            return self._logits(loaders.tensor(x, self._integer)).numpy()

    def inspect(self, x, y):
        activations, gradients = self._inspect(*self.put(x, y))
        values = iter(gradients)
        return ({name: value.numpy() for name, value in activations.items()},
                {node.name: {name: next(values).numpy() for name in node.parameters}
                 for node in self._model.nodes if node.parameters})

    def weights(self):
        return {layer: {name: variable.numpy() for name, variable in group.items()}
                for layer, group in self._network.variables.items()}

    def memory(self):
        if self._execution.device == "cpu":
            why = (None, "TensorFlow counts its allocations on GPUs only")
            return {"allocator_allocated_peak": why, "allocator_reserved_peak": why}
        return {"allocator_allocated_peak": tf.config.experimental.get_memory_info("GPU:0")["peak"],
                "allocator_reserved_peak": (None, "TensorFlow {} does not tell it".format(tf.__version__))}

    def facts(self):
        options = tf.config.optimizer.get_experimental_options()
        facts = {"threads": tf.config.threading.get_intra_op_parallelism_threads(),
                 "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
                 "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
                 "layout_optimizer": options.get("layout_optimizer", True),
                 "autotune": os.environ["TF_CUDNN_USE_AUTOTUNE"] == "1",
                 "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "0") == "1"}
        for gpu in tf.config.get_visible_devices("GPU"):
            build = tf.sysconfig.get_build_info()
            facts["memory_growth"] = tf.config.experimental.get_memory_growth(gpu)
            facts["cuda"], facts["cudnn"] = build.get("cuda_version"), build.get("cudnn_version")
        return {name: str(value).lower() for name, value in facts.items()}


def _check(execution):
    """Refuses the variants that would not keep the mathematics, or that TensorFlow has no kernels for."""
    variant, gpu = execution.variant, execution.device == "gpu"
    if variant.precision not in ("float32", "tf32"):
        raise Unsupported("precision=" + variant.precision, "its loss scaling is not part of the specification")
    if variant.precision == "tf32" and not gpu:
        raise Unsupported("precision=tf32", "only GPUs have it")
    if variant.layout not in ("default", "nhwc", "nchw"):
        raise Unsupported("layout=" + variant.layout)
    if variant.layout == "nchw" and not gpu:
        raise Unsupported("layout=nchw", "TensorFlow's convolution takes only NHWC on a CPU")
    if variant.pipeline not in ("native", "memory"):
        raise Unsupported("pipeline=" + variant.pipeline)


ADAPTER = TensorFlowAdapter
