"""What can go wrong, as one tree. The command line prints the message and exits with the code; no traceback.

    ControllerError              exit 1: something failed
    +-- UsageError               exit 2: the user asked for something that does not exist or contradicts itself
    |   +-- UnknownNameError     an unknown runner, workload, variant ...; names the close ones
    |   +-- WorkloadFileError    a workload file that cannot be read or breaks a rule
    +-- HostError                this machine lacks something: a GPU, a Python, a compiler, memory
    |   +-- BuildError           an environment could not be built; carries the log's last lines
    +-- DatasetError             data that is absent, corrupt or cannot be downloaded
    +-- RunnerError              a runner that did not start, died, or broke the protocol
    |   +-- TrialRefused         a runner that answered that it cannot do this trial (a gRPC status)
    +-- StoreError               the results file is damaged or from a newer version

Exit codes: 0 all cells sound, 1 something failed, 2 usage, 130 interrupted.
"""

import difflib
from collections.abc import Iterable


class ControllerError(Exception):
    """``message`` says what happened and where, in one line; ``hint`` is the next step, or empty."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def line(self) -> str:
        """Both in one line, as printed."""
        text = f"{self.message}; {self.hint}" if self.hint else self.message
        return " ".join(text.split())


class UsageError(ControllerError):
    """The request itself is wrong."""

    exit_code = 2


class UnknownNameError(UsageError):
    """``kind`` has no ``name``; ``known`` are those that exist, ``more`` what else can be given."""

    def __init__(self, kind: str, name: str, known: Iterable[str], more: str = "") -> None:
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
        listed = ", ".join(names) or "none"
        guess = f"did you mean {close[0]!r}? " if close else ""
        super().__init__(f"unknown {kind} {name!r}", f"{guess}known: {listed}{more}")


class WorkloadFileError(UsageError):
    """A workload file is unreadable or breaks a rule of the workload language."""


class HostError(ControllerError):
    """This machine lacks something."""


class BuildError(HostError):
    """An environment could not be built; ``log_tail`` holds the last lines of what the builder printed."""

    def __init__(self, message: str, hint: str = "", log_tail: str = "") -> None:
        super().__init__(message, hint)
        self.log_tail = log_tail


class DatasetError(ControllerError):
    """A dataset is absent, corrupt, or cannot be downloaded."""


class RunnerError(ControllerError):
    """A runner did not start, died, or broke the protocol; ``reason`` is a word like PROCESS_DIED."""

    def __init__(self, message: str, hint: str = "", reason: str = "RUNNER_ERROR", log_tail: str = "") -> None:
        super().__init__(message, hint)
        self.reason = reason
        self.log_tail = log_tail


class TrialRefused(RunnerError):  # noqa: N818 - a refusal is an answer, not an error of the runner
    """The runner answered that it cannot do this trial; ``reason`` is its machine-readable word."""


class StoreError(ControllerError):
    """The results file cannot be used."""


class StoreBusyError(StoreError):
    """The results file cannot be used now: another program holds it, or its disk is full."""
