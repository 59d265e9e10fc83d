"""What a framework fills in. Everything that is timed, counted or compared is done by the core instead.

An adapter is one class per framework API, in ``runners/<framework>/adapter.py``, registered by the module's
last line ``ADAPTER = MyAdapter``. Importing that module imports the framework (the core times it).

Order of calls, all on the main thread of a fresh process that has no gRPC in it:

    describe, devices      any time
    open                   once: choose device, threads, precision
    build                  once: the model, its optimizer, and the shared initial weights
    loader, put            make batches
    step, wait, read       train; see ``step``
    predict                evaluation mode
    inspect                the certificate only
    weights, memory        any time after build

Rules: no clock, no print, no sampling, no thread or process but the framework's own. Raise ``Unsupported`` for
what the framework cannot do exactly as ``workload.proto`` says; any other exception is a failed trial. Nothing
is approximated silently. Weights cross this interface as NumPy arrays in the logical layout:
{layer name: {parameter name: array}} with the names and shapes of ``trainyard.graph.Node``.
"""


class Unsupported(Exception):
    """This framework cannot do that. ``what`` names it as the request does, such as ``layer lstm``."""

    def __init__(self, what, why=""):
        super(Unsupported, self).__init__(what + (": " + why if why else ""))
        self.what = what


class Device(object):
    """A device as the framework reports it. ``kind`` is "cpu" or "gpu"; unknown texts are empty."""

    def __init__(self, kind, index=0, uuid="", name="", pci_bus_id=""):
        self.kind = kind
        self.index = index
        self.uuid = uuid
        self.name = name
        self.pci_bus_id = pci_bus_id


class Description(object):
    """What an adapter can do.

    framework          name for people
    versions           {distribution: version}, the framework's own first
    layers, losses, optimizers   names as in workload.proto
    variants           {option: values it can have}, such as {"jit": ("false", "true"), ...}
    gpu_architectures  such as ("sm_70", "compute_70"); empty for a build without CUDA
    """

    def __init__(self, framework, versions, layers, losses, optimizers, variants, gpu_architectures=()):
        self.framework = framework
        self.versions = versions
        self.layers = tuple(layers)
        self.losses = tuple(losses)
        self.optimizers = tuple(optimizers)
        self.variants = variants
        self.gpu_architectures = tuple(gpu_architectures)


class Adapter(object):
    """See the module. Methods without a body must be written; the others have a sound default."""

    def describe(self):
        """Returns a ``Description``. Must not touch a GPU."""
        raise NotImplementedError

    def devices(self):
        """Returns the ``Device`` objects that the framework can see."""
        return [Device("cpu")]

    def open(self, execution):
        """Takes an Execution message: selects the device and sets threads, TF32, autotune, memory growth,
        explicitly and all of them. Raises Unsupported for a variant, LookupError for a device that is not there."""
        raise NotImplementedError

    def build(self, model, initial):
        """Builds the training step of a ``trainyard.graph.Model`` from ``initial`` weights (float32).

        Must copy the arrays. Seeds the framework's generator with ``model.workload.seed``."""
        raise NotImplementedError

    def device(self):
        """Returns the ``Device`` on which the model's parameters really lie, asked of the framework."""
        raise NotImplementedError

    def loader(self, source):
        """Takes a ``runners.core.batches.Source``; returns an object with

            epoch(number)   an iterator over the ``source.steps_per_epoch`` batches of that epoch, in order
            close()         ends workers; called once
            skip_to(number) optional: makes ready to begin with that epoch

        according to the variant's ``pipeline``, ``workers`` and ``prefetch``. The core may abandon an epoch's
        iterator early, and then ask for another epoch. It calls ``skip_to`` before the clock starts: where an abandoned
        epoch has a price, such as new workers, it is paid there and not in the measured section."""
        raise NotImplementedError

    def put(self, x, y):
        """Returns NumPy arrays ``x`` (batch, ...) and ``y`` (batch,) as a batch that ``step`` takes."""
        raise NotImplementedError

    def step(self, batch):
        """Trains one batch and returns its loss (before the update) as something ``read`` understands, which
        must stay valid after further steps. May return before the device is done. The hot path: nothing else."""
        raise NotImplementedError

    def wait(self):
        """Returns when all steps so far are done, their updates included, on every device."""
        raise NotImplementedError

    def read(self, loss):
        """Returns a loss of ``step`` as a float. Never called in a measured section."""
        raise NotImplementedError

    def predict(self, x):
        """Returns the logits for NumPy ``x`` (batch, ...) in evaluation mode, as a float array."""
        raise NotImplementedError

    def inspect(self, x, y):
        """For one batch in training mode, without an update: returns (activations {layer: array (batch, ...)},
        gradients {layer: {parameter: array}}), in the logical layout. Batch-norm's running values
        may or may not move; it is called on a model that is thrown away."""
        raise NotImplementedError

    def weights(self):
        """Returns all parameters and state now, as float arrays."""
        raise NotImplementedError

    def memory(self):
        """Returns {kind: bytes or (None, reason)} for the allocator's kinds of runner.proto's ``Memory``."""
        return {}

    def facts(self):
        """Returns {name: text} read back from the framework, such as {"threads": "2", "tf32": "false"}."""
        return {}
