"""Words that an option can have."""

from enum import StrEnum


class Output(StrEnum):
    """Form of the result on standard output."""

    table = "table"
    json = "json"


class DeviceKind(StrEnum):
    """What is trained on."""

    cpu = "cpu"
    gpu = "gpu"


class RuntimeKind(StrEnum):
    """How runners are had. ``auto`` takes what this machine can do."""

    auto = "auto"
    venv = "venv"
