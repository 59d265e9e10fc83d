"""The backend that Keras runs on in this process, as KERAS_BACKEND names it.

Each backend has a module of its own with what Keras leaves to it, or does otherwise than the specification says."""

import importlib
import os
import warnings

# By backend: its module, and what must be in the environment before it is imported.
_MODULES = {
    "theano": ("runners.keras.on_theano", {"THEANO_FLAGS": "device=cpu,floatX=float32"}),
    "cntk": ("runners.keras.on_cntk", {}),
    "tensorflow": ("runners.keras.on_tensorflow", {"TF_CPP_MIN_LOG_LEVEL": "2"}),
}


def load():
    """The module of the chosen backend; imports Keras. Raises ImportError."""
    name = os.environ.get("KERAS_BACKEND", "")
    if name not in _MODULES:
        raise ImportError("KERAS_BACKEND is {!r}; runners/keras/runner.toml sets it to one of {}".format(
            name, ", ".join(sorted(_MODULES))))
    module, variables = _MODULES[name]
    for variable, value in variables.items():
        os.environ.setdefault(variable, value)
    # Notes of 2018 on systems and libraries newer than they are.
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", category=UserWarning, module="cntk")
    return importlib.import_module(module)
