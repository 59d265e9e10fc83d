"""CUDA devices as this build of PyTorch sees them, and what its build can run on."""

import ctypes
import sys
import uuid

import torch

from runners.core.adapter import Device


def architectures():
    """GPU architectures that the build holds, such as ("sm_70",); asked of the library, with or without a GPU."""
    flags = getattr(torch._C, "_cuda_getArchFlags", None)
    return tuple((flags() or "").split()) if flags is not None else ()


def visible():
    """The GPUs that PyTorch sees, as a list of ``Device``."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [gpu(index) for index in range(count)]


def gpu(index):
    """One GPU as a ``Device``; CUDA numbers devices alike for PyTorch and for the driver's own interface."""
    number, bus = _identity(index)
    return Device("gpu", index, number, torch.cuda.get_device_name(index), bus)


def holds(names, capability):
    """Whether a build of architectures ``names`` runs on a GPU of ``capability`` (major, minor): machine code runs
    on the same major version from its minor version on, PTX on everything newer."""
    for name in names:
        kind, _, number = name.partition("_")
        number = number.rstrip("abcdef")
        major, minor = int(number[:-1]), int(number[-1])
        if kind == "sm" and major == capability[0] and minor <= capability[1]:
            return True
        if kind == "compute" and (major, minor) <= tuple(capability):
            return True
    return False


def _identity(index):
    """(UUID, PCI bus id) by the CUDA driver, because older versions of PyTorch do not tell; empty if unknown."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return "", ""
    device, number, bus = ctypes.c_int(), (ctypes.c_ubyte * 16)(), ctypes.create_string_buffer(64)
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), index):
        return "", ""
    failed = driver.cuDeviceGetUuid(ctypes.byref(number), device)
    name = "" if failed else "GPU-" + str(uuid.UUID(bytes=bytes(bytearray(number))))
    failed = driver.cuDeviceGetPCIBusId(bus, len(bus), device)
    return name, "" if failed else bus.value.decode("ascii")
