"""The backend that Keras runs on in this process, as KERAS_BACKEND names it; imports Keras.

Each backend has a module of its own with what Keras leaves to it, or leaves different from the specification."""

import importlib
import os
import warnings

_MODULES = {"theano": "on_theano", "cntk": "on_cntk", "tensorflow": "on_tensorflow"}


def load():
    """The module of the chosen backend. Raises ImportError."""
    name = os.environ.get("KERAS_BACKEND", "")
    if name not in _MODULES:
        raise ImportError("KERAS_BACKEND is {!r}; runners/keras/runner.toml sets it to one of {}".format(
            name, ", ".join(sorted(_MODULES))))
    # Notes of 2018 about systems newer than they are, and about GPUs; not what a log is read for.
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", category=UserWarning, module="cntk")
    return importlib.import_module("runners.keras." + _MODULES[name])
