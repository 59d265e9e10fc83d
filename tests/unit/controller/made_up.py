"""Campaigns and trials that never ran, for tests of everything that is a function of results."""

from dataclasses import replace

from controller.results import (
    FAIL,
    PASS,
    SUCCEEDED,
    Campaign,
    Cell,
    CellCertificate,
    Certificate,
    Deviation,
    Device,
    Environment,
    Failure,
    Identity,
    Machine,
    Measurement,
    Memory,
    Trial,
    Variant,
    WorkloadSummary,
)

MEBIBYTE = 1024 * 1024
MLP = WorkloadSummary(
    name="mlp-mnist", digest="a1" * 32, dataset="mnist", batch_size=32, optimizer="adam", learning_rate=1e-3,
    warmup="1 epoch", measured="20 epochs", epochs=20, steps=None, seed=0, parameter_count=407050, message="0a",
)  # fmt: skip
RANDOM = replace(
    MLP, name="resnet152-random", digest="b2" * 32, dataset="synthetic", batch_size=8, warmup="10 steps",
    measured="1,000 steps", epochs=None, steps=1000, parameter_count=58_164_298,
)  # fmt: skip
MACHINE = Machine("bench", "Debian GNU/Linux 12 (Linux 6.1.0)", "Example CPU @ 2.00GHz", 2, 8 * 1024**3)
JIT = Variant(jit=True)
IDENTITY = Identity(
    workload_digest=MLP.digest, data_digest="d1" * 32, weights_digest="e1" * 32, service_digest="f1" * 32,
    parameter_count=407050, device=Device("cpu"), versions={"torch": "1.11.0", "python": "3.9.18", "numpy": "1.21.6"},
)  # fmt: skip


def cell(runner, workload=MLP, **fields):
    return Cell(runner, workload.name, workload.digest, **fields)


LOSS = Deviation("loss", "loss of step 3", 1.8653, 1.8652, 2.7e-7, 1e-4)
PASSED = Certificate(PASS, against=("the reference",), probed="a2" * 32, largest=(LOSS,), compared={"loss": 5})
OTHER_WORK = Certificate(
    FAIL, "parts from the reference at layer norm (batch_norm): norm of its output: 12.3 instead of 12.1",
    against=("the reference",), probed="a2" * 32, compared={"loss": 5},
)  # fmt: skip


def certified(whole, *certificates):
    """The campaign with certificates for its first cells."""
    pairs = zip(whole.cells, certificates, strict=False)
    return replace(whole, certificates=tuple(CellCertificate(*pair) for pair in pairs))


def campaign(*cells, trials=3, workloads=(MLP,), notes=()):
    return Campaign(
        id="20240102-030405-abc", created_at="2024-01-02T03:04:05Z", controller_version="0.1.0",
        command="controller compare --device cpu", machine=MACHINE, order_seed=0, trial_count=trials, threads=2,
        cells=cells, workloads=workloads, notes=notes,
    )  # fmt: skip


def measurement(seconds, epochs=20, accuracy=0.9754, memory=(("host_rss_peak", 512), ("workers_pss", 300))):
    return Measurement(
        phases={"import": 2.5, "measure": seconds},
        measured_seconds=seconds,
        step_seconds=(seconds / 200,) * 3,
        epoch_seconds=(seconds / epochs,) * epochs,
        losses=(0.3, 0.2),
        loss_steps=(0, 199),
        sample_count=1_200_000,
        test_loss=0.0812,
        test_accuracy=accuracy,
        test_sample_count=10_000,
        memory=tuple(Memory(kind, size * MEBIBYTE) for kind, size in memory),
    )


def trial(where, number, state=SUCCEEDED, run=None, identity=IDENTITY, failure=None):
    return Trial(
        id=f"{where.label()}-{number}", campaign="20240102-030405-abc", cell=where, block=number, position=0,
        state=state, started_at="2024-01-02T03:04:05Z", environment=Environment("venv", "c3" * 32, "/environments/x"),
        identity=replace(identity, workload_digest=where.workload_digest) if identity is IDENTITY else identity,
        measurement=run, failure=failure,
    )  # fmt: skip


def trials(where, *seconds, **fields):
    """Succeeded trials that took so many seconds."""
    return [trial(where, number, run=measurement(value, **fields)) for number, value in enumerate(seconds)]


def lost(where, state, reason, message, count=3):
    """Trials without a result."""
    failure = Failure(reason, message)
    return [trial(where, number, state, failure=failure, identity=None) for number in range(count)]
