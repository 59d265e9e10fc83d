"""Residual networks as layer graphs: one function for every depth.

He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition" (2016), in the form commonly called
v1.5: the stride of a stage is in the 3x3 convolution, and no convolution has a bias. The stem is ImageNet's
(7x7/2 convolution, 3x3/2 maximum) whatever the size of the picture.
"""

from trainyard.graph import INPUT
from trainyard.v1 import workload_pb2
from trainyard.v1.workload_pb2 import Layer

BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
EXPANSION = 4


class _Graph:
    """Layers in topological order; each method adds some and returns the name of the last."""

    def __init__(self, epsilon: float, momentum: float) -> None:
        self.layers: list[Layer] = []
        self._epsilon = epsilon
        self._momentum = momentum

    def add(self, name: str, *inputs: str) -> Layer:
        self.layers.append(Layer(name=name, inputs=inputs))
        return self.layers[-1]

    def convolution(self, name: str, source: str, filters: int, kernel: int, stride: int) -> str:
        """Convolution without bias, then batch normalisation."""
        conv = self.add(name, source).conv2d
        conv.filters, conv.kernel_height, conv.kernel_width = filters, kernel, kernel
        conv.stride_height, conv.stride_width = stride, stride
        conv.padding, conv.use_bias = workload_pb2.PADDING_SAME, False
        norm = self.add(f"{name}_bn", name).batch_norm
        norm.epsilon, norm.momentum = self._epsilon, self._momentum
        return f"{name}_bn"

    def relu(self, name: str, source: str) -> str:
        self.add(name, source).relu.SetInParent()
        return name

    def stem(self, width: int) -> str:
        last = self.relu("stem_relu", self.convolution("stem_conv", INPUT, width, kernel=7, stride=2))
        pool = self.add("stem_pool", last).max_pool2d
        pool.size_height, pool.size_width, pool.stride_height, pool.stride_width = 3, 3, 2, 2
        pool.padding = workload_pb2.PADDING_SAME
        return "stem_pool"

    def bottleneck(self, name: str, source: str, width: int, stride: int, project: bool) -> str:
        """1x1, 3x3 (with the stride), 1x1 to four times the width; the shortcut is projected where shapes change."""
        last = self.relu(f"{name}_relu1", self.convolution(f"{name}_conv1", source, width, 1, 1))
        last = self.relu(f"{name}_relu2", self.convolution(f"{name}_conv2", last, width, 3, stride))
        last = self.convolution(f"{name}_conv3", last, EXPANSION * width, 1, 1)
        if project:
            source = self.convolution(f"{name}_shortcut", source, EXPANSION * width, 1, stride)
        self.add(f"{name}_add", last, source).add.SetInParent()
        return self.relu(f"{name}_relu3", f"{name}_add")

    def head(self, source: str, classes: int) -> None:
        self.add("pool", source).global_avg_pool2d.SetInParent()
        dense = self.add("logits", "pool").dense
        dense.units, dense.use_bias = classes, True


def resnet(depth: int, classes: int, *, width: int, epsilon: float, momentum: float) -> list[Layer]:
    """The layers of ResNet-``depth`` (a key of ``BLOCKS``) for ``classes`` classes.

    ``width`` is the number of filters of the stem, 64 in the paper; ``epsilon`` and ``momentum`` are those of every
    batch normalisation. Raises KeyError for another depth.
    """
    graph = _Graph(epsilon, momentum)
    last = graph.stem(width)
    for stage, blocks in enumerate(BLOCKS[depth]):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            name = f"stage{stage + 1}_block{block + 1}"
            last = graph.bottleneck(name, last, width << stage, stride, project=block == 0)
    graph.head(last, classes)
    return graph.layers
