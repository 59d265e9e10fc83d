"""How PyTorch is asked for the padding of the specification, which may be larger at the bottom and right."""

import torch
from torch import nn
from trainyard import graph
from trainyard.v1 import workload_pb2


class Window(object):
    """``size``, ``stride``, ``implicit`` (padding of both sides: height, width), ``explicit`` (None, or what
    ``ConstantPad2d`` takes: left, right, top, bottom; then ``implicit`` is zero) and ``overhangs`` (``ceil_mode``:
    the last windows may reach over the bottom and right edge)."""

    def __init__(self, size, stride, implicit=(0, 0), explicit=None, overhangs=False):
        self.size = size
        self.stride = stride
        self.implicit = implicit
        self.explicit = explicit
        self.overhangs = overhangs


def of(node, height, width, may_overhang=False):
    """The Window of a node whose window is ``height`` x ``width``. Explicit padding, a copy, is the last resort."""
    size, stride = (height, width), (node.fields.stride_height, node.fields.stride_width)
    if node.fields.padding == workload_pb2.PADDING_VALID:
        return Window(size, stride)
    lengths = node.input_shapes[0][:2]
    padding = [graph.same_padding(*axis) for axis in zip(lengths, size, stride)]
    before = tuple(pair[0] for pair in padding)
    for overhangs in (False, True) if may_overhang else (False,):
        made = tuple(_output_length(*axis, overhangs=overhangs) for axis in zip(lengths, size, stride, before))
        if made == node.shape[:2]:
            return Window(size, stride, implicit=before, overhangs=overhangs)
    (top, bottom), (left, right) = padding
    return Window(size, stride, explicit=(left, right, top, bottom))


def _output_length(length, window, stride, padding, overhangs):
    """Windows that PyTorch makes of one axis; its first one starts at ``-padding``, as the specification's does."""
    count = (length + 2 * padding - window + (stride - 1 if overhangs else 0)) // stride + 1
    if overhangs and (count - 1) * stride >= length + padding:
        count -= 1  # a window must start inside the picture or its padding before
    return count


class PaddedAverage(nn.Module):
    """Average pooling over explicit padding: the mean with zeros, times the part of the window that they take."""

    def __init__(self, window, node):
        super(PaddedAverage, self).__init__()
        self.pad = nn.ConstantPad2d(window.explicit, 0.0)
        self.pool = nn.AvgPool2d(window.size, window.stride)
        inside = self.pool(self.pad(torch.ones((1, 1) + tuple(node.input_shapes[0][:2]))))
        self.register_buffer("correction", 1.0 / inside)

    def forward(self, x):
        return self.pool(self.pad(x)) * self.correction
