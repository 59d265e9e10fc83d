"""Flattened pictures where a framework computes with channels first.

The specification flattens (height, width, channels). Instead of moving the activations of every step into that order,
the rows of the dense kernels that follow are moved once, when weights come and go: what one does by hand, and the
same work.
"""

# One value depends on one value in the same place: they work in any order of the elements.
_ELEMENTWISE = ("relu", "sigmoid", "tanh", "dropout")


def order_is_free(node, consumers):
    """Whether all that follows ``node`` up to the next dense layers works in any order of its elements.
    ``consumers``: the nodes that take each node, by its name."""
    followers = consumers[node.name]
    return bool(followers) and all(
        follower.op == "dense" or (follower.op in _ELEMENTWISE and order_is_free(follower, consumers))
        for follower in followers)


def kernel_codec(pixels):
    """(encode, decode) between a dense kernel (inputs, units) and its transpose for inputs with channels first.
    ``pixels``: (height, width, channels) of the picture."""
    height, width, channels = pixels

    def encode(kernel):
        return kernel.reshape(height, width, channels, -1).transpose(3, 2, 0, 1).reshape(kernel.shape[1], -1)

    def decode(weight):
        return weight.reshape(-1, channels, height, width).transpose(2, 3, 1, 0).reshape(-1, weight.shape[0])

    return encode, decode


def decode_rows(rows, pixels):
    """A batch (batch, features) that was flattened with channels first, in the specification's order."""
    height, width, channels = pixels
    return rows.reshape(-1, channels, height, width).transpose(0, 2, 3, 1).reshape(len(rows), -1)
