"""What this machine has for training in containers and on a GPU, as checks with their remedies."""

from collections.abc import Iterator

from controller import hosts, preflight
from controller.catalog import runners as catalog
from controller.errors import HostError
from controller.preflight import FAILED, OK, WARNING, Check
from controller.runtimes import engine as engines
from controller.runtimes.engine import Engine


def checks(context: str = "") -> Iterator[Check]:
    """The engine's, then the GPUs', then each default runner's on each GPU. What is not there is a warning: without
    an engine runners are environments, and without a GPU they train on the CPU. Raises UnknownNameError."""
    try:
        engine: Engine | None = engines.connect(context)
    except HostError as error:
        engine = None
        yield Check("Docker engine", FAILED if context else WARNING, error.message, error.hint)
    if engine is not None:
        yield from preflight.engine_checks(engine, "cpu")
    yield from _gpu_checks(engine)


def _gpu_checks(engine: Engine | None) -> Iterator[Check]:
    search = hosts.find_gpus()
    if not search.gpus:
        yield Check("GPU", WARNING, f"no GPU on this machine: looked for {'; '.join(search.looked_at)}", search.remedy)
    elif engine is not None:
        yield preflight.nvidia_runtime(engine)
    for gpu in search.gpus:
        told = ", ".join(
            filter(
                None,
                (f"driver {gpu.driver}", gpu.driver_model, gpu.capability and f"compute capability {gpu.capability}"),
            )
        )
        yield Check("GPU", OK, f"{gpu.text()}: {told}")
        for spec in catalog.select(()):
            yield from preflight.gpu_checks(spec, gpu)
