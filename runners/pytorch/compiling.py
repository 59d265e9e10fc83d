"""The variant ``jit``: ``torch.compile`` where the version has it, else TorchScript."""

import os
import shutil
import sys
import sysconfig

import torch
from torch import nn

HAS_COMPILE = hasattr(torch, "compile")
NAME = "torch.compile" if HAS_COMPILE else "torch.jit.script"


class Objective(nn.Module):
    """Model and loss as one module, so that both are compiled together."""

    def __init__(self, model, loss):
        super(Objective, self).__init__()
        self.model = model
        self.loss = loss

    def forward(self, x, y):
        return self.loss(self.model(x), y)


def missing(on_gpu):
    """What this host lacks for ``jit``, as text for people, or "" if nothing."""
    if not HAS_COMPILE:
        return ""
    if sys.platform == "win32" and not on_gpu:
        return "" if shutil.which("cl") else "torch.compile needs cl.exe (Visual C++) on PATH"
    compiler = os.environ.get("CC", "cc") if on_gpu else os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        return "torch.compile needs {} on PATH; on Debian: apt-get install g++ python3-dev".format(compiler)
    header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
    if not os.path.exists(header):
        return "torch.compile needs {}; on Debian: apt-get install python3-dev".format(header)
    return ""


def compiled(model, loss):
    """``f(x, y)``, the compiled loss of the model in training mode. Compilation happens in the first calls."""
    objective = Objective(model, loss)
    # Every batch has the same shape.
    return torch.compile(objective, dynamic=False) if HAS_COMPILE else torch.jit.script(objective)
