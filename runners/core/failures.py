"""From an exception, or a dead process, to a reason. The only place that knows how frameworks word things."""

import signal

from runners.core.adapter import Unsupported

OUT_OF_MEMORY, FRAMEWORK_ERROR = "OUT_OF_MEMORY", "FRAMEWORK_ERROR"
_MEMORY_WORDS = ("out of memory", "oom when allocating", "resource_exhausted", "bad_alloc", "can't allocate memory",
                 "cannot allocate memory", "unable to allocate", "failed to allocate memory", "not enough memory",
                 "cuda_error_out_of_memory", "alloc_failed")


class Refused(Exception):
    """A request that cannot start. ``code`` is the name of a gRPC status, ``reason`` a word and what it names."""

    def __init__(self, code, reason, message):
        super(Refused, self).__init__(message)
        self.code = code
        self.reason = reason
        self.message = message


class TrialFailed(Exception):
    """A trial that started and cannot be finished. ``reason`` is one of runner.proto's words."""

    def __init__(self, reason, message):
        super(TrialFailed, self).__init__(message)
        self.reason = reason
        self.message = message


class Cancelled(Exception):
    """The client has gone, or its deadline passed."""


def reason_of(error):
    """(reason, one line) of an exception that a framework raised while training."""
    if isinstance(error, TrialFailed):
        return error.reason, error.message
    if isinstance(error, Unsupported):
        return "UNSUPPORTED", one_line(error)
    text = one_line(error)
    if isinstance(error, MemoryError) or any(word in text.lower() for word in _MEMORY_WORDS):
        return OUT_OF_MEMORY, text or "not enough memory"
    return FRAMEWORK_ERROR, "{}: {}".format(type(error).__name__, text)


def one_line(error):
    """The text of an exception, without line breaks, at most 500 characters."""
    return " ".join(str(error).split())[:500]


def reason_of_exit(code, out_of_memory_kills=0):
    """(reason, one line) of a training process that ended without a result: ``code`` as in subprocess."""
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "unknown"
        text = "the training process was killed by signal {} ({})".format(-code, name)
        if out_of_memory_kills > 0:
            return OUT_OF_MEMORY, text + ": the kernel had no memory left for it"
        return "PROCESS_DIED", text
    return "PROCESS_DIED", "the training process ended with exit code {} and no result".format(code)
