"""The domain model: frozen values that trials leave behind and reports are made from. No input or output."""

from dataclasses import dataclass, field

SUCCEEDED = "succeeded"
FAILED = "failed"
CANCELLED = "cancelled"
UNSUPPORTED = "unsupported"
PASS = "pass"  # noqa: S105 - a state
FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Variant:
    """Options of a run that keep the mathematics; see ``Variant`` in workload.proto."""

    jit: bool = False
    layout: str = "default"
    precision: str = "float32"
    pipeline: str = "native"
    workers: int = 4
    prefetch: int = 4

    def label(self) -> str:
        """What differs from the default, such as ``jit, pipeline=memory``; empty for the default."""
        parts = ["jit"] if self.jit else []
        for name in ("layout", "precision", "pipeline", "workers", "prefetch"):
            value, default = getattr(self, name), type(self).__dataclass_fields__[name].default
            if value != default:
                parts.append(f"{name}={value}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Cell:
    """What is compared: one runner, variant, workload, host and device."""

    runner: str
    workload: str
    workload_digest: str
    variant: Variant = Variant()
    host: str = "local"
    device: str = "cpu"

    @property
    def place(self) -> tuple[str, str]:
        """Host and runner."""
        return self.host, self.runner

    def label(self) -> str:
        """For people: the runner and what differs from the default."""
        variant = self.variant.label()
        return f"{self.runner} ({variant})" if variant else self.runner

    def placed(self) -> str:
        """The label, with host and device where they are not this machine's CPU."""
        place = [part for part, usual in ((self.host, "local"), (self.device, "cpu")) if part != usual]
        return " on ".join([self.label(), *place])


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no result. ``reason`` is a word like OUT_OF_MEMORY, ``message`` one line for people."""

    reason: str
    message: str
    log_tail: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """``size_bytes`` is None where the platform does not define it; then ``reason`` says why."""

    kind: str
    size_bytes: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """The device as the framework itself reported it."""

    kind: str = ""
    index: int = 0
    uuid: str = ""
    name: str = ""
    pci_bus_id: str = ""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where the runner came from. ``digest`` is the lock's SHA-256, or the image's; empty for the user's own."""

    runtime: str
    digest: str = ""
    location: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """What proves that two trials did the same: digests of request, data and initial weights, and versions."""

    workload_digest: str = ""
    data_digest: str = ""
    weights_digest: str = ""
    service_digest: str = ""
    parameter_count: int = 0
    device: Device = Device()
    versions: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one trial measured. Seconds on the runner's monotonic clock; accuracy is a fraction of 1.

    ``telemetry`` as in telemetry/summary.py and runner.proto, ``telemetry_absent``: why a number of it is missing,
    ``conditions``: what of the machine is no number, such as the processors' governor."""

    phases: dict[str, float]
    measured_seconds: float
    step_seconds: tuple[float, ...]
    epoch_seconds: tuple[float, ...]
    losses: tuple[float, ...]
    loss_steps: tuple[int, ...]
    sample_count: int
    test_loss: float
    test_accuracy: float
    test_sample_count: int
    memory: tuple[Memory, ...]
    telemetry: dict[str, float] = field(default_factory=dict)
    telemetry_absent: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one cell in a fresh process. ``block`` and ``position`` give its place in the campaign's order."""

    id: str
    campaign: str
    cell: Cell
    block: int
    position: int
    state: str
    started_at: str
    environment: Environment
    identity: Identity | None = None
    measurement: Measurement | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class OutputNorm:
    """A node's output for the first batch; fields as in ``ActivationNorm``."""

    layer: str
    norm: float
    ramp: float


@dataclass(frozen=True, slots=True)
class ParameterChange:
    """One parameter, or state (``gradient`` None), over the steps of a probe; fields as in ``ParameterNorm``."""

    layer: str
    parameter: str
    initial: float
    final: float
    moved: float
    ramp: float
    gradient: float | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """What a runner's few steps gave, dropout off; fields as in ``ProbeResponse``."""

    workload_digest: str
    data_digest: str
    weights_digest: str
    device: Device
    parameter_count: int
    sample_count: int
    losses: tuple[float, ...]
    gradient_norm: float
    parameters: tuple[ParameterChange, ...]
    outputs: tuple[OutputNorm, ...]


@dataclass(frozen=True, slots=True)
class Deviation:
    """One number of a probe beside the one that was expected. ``deviation`` and ``allowed`` are relative;
    ``found`` and ``deviation`` are None where they are not finite."""

    kind: str
    what: str
    found: float | None
    expected: float
    deviation: float | None
    allowed: float


@dataclass(frozen=True, slots=True)
class Certificate:
    """Whether a cell does the work of its workload.

    state     PASS, FAIL or UNSUPPORTED
    text      why it is not a pass, in one line; empty for a pass
    against   what its probe was compared with: "reference", labels of other cells
    probed    digest of the workload that was probed: the cell's own, shortened or cut down
    cut       what was cut down for the probe, in words; empty for nothing
    parting   for a FAIL: the first number, in the order in which a step computes them, that differs
    largest   of each kind of number the largest deviation, as a share of what is allowed
    compared  how many numbers of each kind were compared; ``unjudged`` more are carried too far by rounding
    """

    state: str
    text: str = ""
    against: tuple[str, ...] = ()
    probed: str = ""
    cut: str = ""
    parting: Deviation | None = None
    largest: tuple[Deviation, ...] = ()
    compared: dict[str, int] = field(default_factory=dict)
    unjudged: int = 0


@dataclass(frozen=True, slots=True)
class CellCertificate:
    """A campaign's cell and its certificate."""

    cell: Cell
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class WorkloadSummary:
    """A workload as tables show it. ``message`` is the serialized request part, in hexadecimal."""

    name: str
    digest: str
    dataset: str
    batch_size: int
    optimizer: str
    learning_rate: float
    warmup: str
    measured: str
    epochs: int | None
    steps: int | None
    seed: int
    parameter_count: int
    message: str


@dataclass(frozen=True, slots=True)
class Machine:
    """The host that trials ran on."""

    name: str
    system: str
    cpu: str
    cpu_count: int
    memory_bytes: int
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Calibration:
    """How fast a host is without any framework, and a runner's call in one way of having runners.

    ``values``: ``python_loop_s`` (500,000 turns), ``matrix_product_flops`` (float32, 768 x 768, NumPy's own threads),
    ``memory_copy_bytes_per_s`` (64 MiB), ``rpc_round_trip_s``. ``absent``: why one is missing."""

    host: str
    runtime: str
    values: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Campaign:
    """A set of cells run together, in one interleaved order. ``notes`` say in words what is not as asked.
    A cell without a certificate was not verified. With ``until_precision`` whole blocks were added to the planned
    ``trial_count`` until each row's time was known to that fraction, or had ``max_trials``. ``machines``: by host,
    where there are several or another than ``machine``, which is the controller's own or else the first host."""

    id: str
    created_at: str
    controller_version: str
    command: str
    machine: Machine
    order_seed: int
    trial_count: int
    threads: int
    cells: tuple[Cell, ...]
    workloads: tuple[WorkloadSummary, ...]
    notes: tuple[str, ...] = ()
    certificates: tuple[CellCertificate, ...] = ()
    until_precision: float | None = None
    max_trials: int = 0
    calibrations: tuple[Calibration, ...] = ()
    machines: dict[str, Machine] = field(default_factory=dict)
