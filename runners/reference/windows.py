"""Layers that slide a window over a picture: convolution and the two pools. Pictures are (batch, h, w, channels)."""

import numpy as np
from trainyard.graph import same_padding
from trainyard.v1 import workload_pb2

from runners.reference.layers import Layer


class Windows(object):
    """Where the windows of a layer lie: one strided view of the padded picture for each place in the window."""

    def __init__(self, node, size):
        fields = node.fields
        self.lengths = node.input_shapes[0][:2]
        self.outputs = node.shape[:2]
        self.size = size
        self.strides = (fields.stride_height, fields.stride_width)
        self.padding = ((0, 0), (0, 0))
        if fields.padding == workload_pb2.PADDING_SAME:
            self.padding = tuple(same_padding(*axis) for axis in zip(self.lengths, self.size, self.strides))

    def pad(self, x, value):
        return np.pad(x, ((0, 0),) + self.padding + ((0, 0),), "constant", constant_values=value)

    def views(self, padded):
        """Views (batch, h', w', channels), the window's places in row-major order."""
        return [padded[:, self._axis(0, row), self._axis(1, column)]
                for row in range(self.size[0]) for column in range(self.size[1])]

    def _axis(self, axis, start):
        return slice(start, start + self.strides[axis] * (self.outputs[axis] - 1) + 1, self.strides[axis])

    def collect(self, parts, shape):
        """The opposite of ``views``: sums ``parts`` where they came from, without the padding; ``shape`` is the
        picture's, with the batch."""
        padded = self.pad(np.zeros(shape), 0.0)
        for view, part in zip(self.views(padded), parts):
            np.add(view, part, out=view)
        (top, _), (left, _) = self.padding
        return padded[:, top:top + self.lengths[0], left:left + self.lengths[1]]


class Conv2d(Layer):

    def __init__(self, node, weights, random):
        super(Conv2d, self).__init__(node, weights, random)
        self.windows = Windows(node, (node.fields.kernel_height, node.fields.kernel_width))

    def forward(self, inputs, training):
        self.shape = inputs[0].shape
        self.columns = np.concatenate(self.windows.views(self.windows.pad(inputs[0], 0.0)), axis=-1)
        y = self.columns @ self._matrix()
        return y + self.weights["bias"] if self.fields.use_bias else y

    def _matrix(self):
        return self.weights["kernel"].reshape(-1, self.fields.filters)

    def backward(self, gradient):
        flat = gradient.reshape(-1, gradient.shape[-1])
        rows = self.columns.reshape(-1, self.columns.shape[-1])
        self.gradients["kernel"] = (rows.T @ flat).reshape(self.weights["kernel"].shape)
        if self.fields.use_bias:
            self.gradients["bias"] = flat.sum(axis=0)
        places = self.windows.size[0] * self.windows.size[1]
        parts = np.split(gradient @ self._matrix().T, places, axis=-1)
        return [self.windows.collect(parts, self.shape)]


class Pool(Layer):

    def __init__(self, node, weights, random):
        super(Pool, self).__init__(node, weights, random)
        self.windows = Windows(node, (node.fields.size_height, node.fields.size_width))


class MaxPool2d(Pool):
    """Of several equal values the first in row-major order gets the gradient."""

    def forward(self, inputs, training):
        self.shape = inputs[0].shape
        values = np.stack(self.windows.views(self.windows.pad(inputs[0], -np.inf)))
        self.chosen = values.argmax(axis=0)
        return values.max(axis=0)

    def backward(self, gradient):
        places = self.windows.size[0] * self.windows.size[1]
        parts = (np.where(self.chosen == place, gradient, 0.0) for place in range(places))
        return [self.windows.collect(parts, self.shape)]


class AvgPool2d(Pool):

    def forward(self, inputs, training):
        self.shape = inputs[0].shape
        inside = self.windows.pad(np.ones((1,) + self.shape[1:]), 0.0)
        self.counts = sum(self.windows.views(inside))
        return sum(self.windows.views(self.windows.pad(inputs[0], 0.0))) / self.counts

    def backward(self, gradient):
        share = gradient / self.counts
        return [self.windows.collect([share] * (self.windows.size[0] * self.windows.size[1]), self.shape)]
