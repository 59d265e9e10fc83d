"""Devices: those that TensorFlow sees, the one a run computes on, and the UUID that proves which GPU it is."""

import ctypes
import os
import re
import sys
import uuid

import tensorflow as tf
from tensorflow.python.client import device_lib

from runners.core.adapter import Device

_PCI = re.compile(r"pci bus id: ([0-9a-fA-F:.]+)")


def visible():
    """The CPU, then the GPUs in TensorFlow's order, which is the CUDA driver's. No device is initialised."""
    gpus = tf.config.list_physical_devices("GPU")
    return [Device("cpu")] + [_gpu(index, gpu) for index, gpu in enumerate(gpus)]


def select(execution):
    """Makes the device of an Execution message the only one that TensorFlow uses; returns its name for
    ``tf.device`` and its compute capability ((0, 0) for the CPU). Raises LookupError if it is not there."""
    if execution.device == "cpu":
        tf.config.set_visible_devices([], "GPU")
        return "/CPU:0", (0, 0)
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise LookupError("TensorFlow {} sees no GPU (built with CUDA: {})".format(
            tf.__version__, tf.test.is_built_with_cuda()))
    chosen = gpus[_index(execution.gpu_uuid, len(gpus))]
    tf.config.set_visible_devices([chosen], "GPU")
    tf.config.experimental.set_memory_growth(chosen, bool(execution.memory_growth))
    return "/GPU:0", tf.config.experimental.get_device_details(chosen).get("compute_capability", (0, 0))


def holding(variables):
    """The ``Device`` on which ``variables`` lie, by their own word. Raises RuntimeError if they are apart."""
    names = sorted(set(variable.device for variable in variables))
    if len(names) != 1:
        raise RuntimeError("the model's parameters lie on several devices: {}".format(", ".join(names)))
    kind, index = names[0].rsplit("device:", 1)[1].split(":")
    if kind != "GPU":
        return Device(kind.lower(), int(index))
    return _placed_gpu(names[0], int(index))


def _index(wanted_uuid, count):
    """Number of the GPU with that UUID. Where the driver tells no UUID it is the first: the caller has
    limited CUDA_VISIBLE_DEVICES to the one that it wants, and checks what ``holding`` says."""
    known = [_driver_uuid("cuDeviceGet", index) for index in range(count)]
    if not wanted_uuid or not any(known):
        return 0
    if wanted_uuid not in known:
        raise LookupError("TensorFlow sees no GPU {}; it sees {}".format(wanted_uuid, ", ".join(known)))
    return known.index(wanted_uuid)


def _gpu(index, physical):
    details = tf.config.experimental.get_device_details(physical)
    return Device("gpu", index, _driver_uuid("cuDeviceGet", index), details.get("device_name", ""))


def _placed_gpu(name, index):
    """A GPU by the description that the running TensorFlow gives of it. Its PCI address leads to the UUID."""
    for attributes in device_lib.list_local_devices():
        if name.endswith(attributes.name) and attributes.device_type == "GPU":
            text = attributes.physical_device_desc
            address = _PCI.search(text)
            address = address.group(1) if address else ""
            model = re.search(r"name: (.*?), pci", text)
            return Device("gpu", index, _driver_uuid("cuDeviceGetByPCIBusId", address.encode("ascii")),
                          model.group(1) if model else "", address)
    return Device("gpu", index)


def _driver_uuid(lookup, key):
    """"GPU-..." of the device that the CUDA driver's ``lookup`` finds by ``key``; "" where it can't be told.
    TensorFlow 2.6 has no call for it; the driver is loaded in this process already."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        arguments = (key,) if isinstance(key, bytes) else (ctypes.c_int(key),)
        if driver.cuInit(0) or getattr(driver, lookup)(ctypes.byref(device), *arguments):
            return ""
        return "" if driver.cuDeviceGetUuid(raw, device) else "GPU-" + str(uuid.UUID(bytes=bytes(raw)))
    except (OSError, AttributeError):
        return ""


def set_autotune(wanted):
    """Whether convolution algorithms are chosen by trying them, in TensorFlow and in XLA. Both read their
    environment variable at the first convolution, so this works before any was made."""
    os.environ["TF_CUDNN_USE_AUTOTUNE"] = "1" if wanted else "0"
    kept = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if "xla_gpu_autotune_level" not in flag]
    os.environ["XLA_FLAGS"] = " ".join(kept + ["--xla_gpu_autotune_level={}".format(4 if wanted else 0)])
