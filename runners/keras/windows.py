"""Windows of convolutions and pools: the padding of the specification, and what an average leaves out. NumPy only."""

import numpy as np
from trainyard import graph
from trainyard.v1 import workload_pb2

NONE = ((0, 0), (0, 0))


def strides(fields):
    return (fields.stride_height, fields.stride_width)


def padding(node, size):
    """((top, bottom), (left, right)) of a layer whose window has ``size``."""
    if node.fields.padding != workload_pb2.PADDING_SAME:
        return NONE
    return tuple(graph.same_padding(*axis) for axis in zip(node.input_shapes[0][:2], size, strides(node.fields)))


def padding_name(fields):
    return "same" if fields.padding == workload_pb2.PADDING_SAME else "valid"


def correction(lengths, size, steps, pads):
    """What the mean of each window of a picture padded with zeros is multiplied by to be the mean of the values
    inside: float32 (1, rows, columns). ``lengths``: height and width without the padding."""
    parts = []
    for length, window, step, (before, after) in zip(lengths, size, steps, pads):
        inside = np.pad(np.ones(length), (before, after), "constant")
        starts = range(0, len(inside) - window + 1, step)
        parts.append(np.array([window / inside[start:start + window].sum() for start in starts]))
    return np.outer(*parts)[None].astype(np.float32)
