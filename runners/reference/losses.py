"""The losses: (logits, labels) -> (mean over the batch, its gradient by the logits)."""

import numpy as np

from runners.reference.layers import sigmoid, softmax


def sparse_categorical_crossentropy(logits, labels):
    """Logits (batch, classes), labels (batch,)."""
    rows = np.arange(len(labels))
    shifted = logits - logits.max(axis=1, keepdims=True)
    loss = np.mean(np.log(np.exp(shifted).sum(axis=1)) - shifted[rows, labels])
    gradient = softmax(logits)
    gradient[rows, labels] -= 1
    return loss, gradient / len(labels)


def binary_crossentropy(logits, labels):
    """Logits (batch, 1), labels (batch,) of 0 and 1."""
    z, y = logits[:, 0], labels.astype(np.float64)
    loss = np.mean(np.maximum(z, 0) - z * y + np.log1p(np.exp(-np.abs(z))))
    return loss, ((sigmoid(z) - y) / len(labels))[:, np.newaxis]


LOSSES = {
    "sparse_categorical_crossentropy": sparse_categorical_crossentropy,
    "binary_crossentropy": binary_crossentropy,
}
