"""Batches of training samples: through ``tf.data``, or sliced from tensors that lie on the device."""

import tensorflow as tf


def make(source, device, integer):
    """The loader of a ``Source`` for batches on ``device``, with integers (labels, word numbers) as ``integer``."""
    if source.pipeline == "memory":
        return PutLoader(source, device, integer) if source.transform else MemoryLoader(source, device, integer)
    return NativeLoader(source, device, integer)


def tensor(array, integer):
    """A tensor of a NumPy array on the current ``tf.device``."""
    return tf.constant(array, dtype=tf.float32 if array.dtype.kind == "f" else integer)


class NativeLoader(object):
    """A ``tf.data`` pipeline: batch numbers in order, gathered by parallel calls, prefetched.

    One dataset serves all epochs; it reads the order from a variable. Samples are a variable too: as a
    constant they would be copied each time an iterator is made (0.2 s for MNIST)."""

    def __init__(self, source, device, integer):
        self._source = source
        with tf.device("/CPU:0"):
            self._x = tf.Variable(tensor(source.x, integer), trainable=False)
            self._y = tf.Variable(tensor(source.y, integer), trainable=False)
            self._order = tf.Variable(source.order(0), trainable=False)
            self._epoch = tf.Variable(0, trainable=False, dtype=tf.int64)
            self._dataset = self._pipeline(device)

    def epoch(self, number):
        self._order.assign(self._source.order(number))
        self._epoch.assign(number)
        return iter(self._dataset)

    def close(self):
        self._dataset = None

    def _pipeline(self, device):
        source = self._source
        dataset = tf.data.Dataset.range(source.steps_per_epoch)
        dataset = dataset.map(self._batch if source.transform is None else self._transformed,
                              num_parallel_calls=source.workers or None)
        options = tf.data.Options()
        options.experimental_deterministic = True
        # Every buffer and parallelism is given; there is nothing to tune.
        options.experimental_optimization.autotune = False
        dataset = dataset.with_options(options)
        if not source.prefetch:
            return dataset
        if "GPU" in device:
            return dataset.apply(tf.data.experimental.prefetch_to_device(device, source.prefetch))
        return dataset.prefetch(source.prefetch)

    def _batch(self, number):
        indices = tf.gather(self._order, number)
        return tf.gather(self._x, indices), tf.gather(self._y, indices)

    def _transformed(self, number):
        x, y = self._batch(number)
        indices = tf.gather(self._order, number)
        changed = tf.numpy_function(self._source.transform, (x, self._epoch, indices), x.dtype)
        changed.set_shape(x.shape)
        return changed, y


class MemoryLoader(object):
    """All samples on the device; each batch is gathered there by its row of the order."""

    def __init__(self, source, device, integer):
        self._source, self._device = source, device
        with tf.device(device):
            self._x, self._y = tensor(source.x, integer), tensor(source.y, integer)

    def epoch(self, number):
        with tf.device(self._device):
            rows = tf.unstack(tf.constant(self._source.order(number)))
        return ((tf.gather(self._x, row), tf.gather(self._y, row)) for row in rows)

    def close(self):
        self._x = self._y = None


class PutLoader(object):
    """``memory`` with a transform, which is NumPy's: batches are made on the host and put."""

    def __init__(self, source, device, integer):
        self._source, self._device, self._integer = source, device, integer

    def epoch(self, number):
        for indices in self._source.order(number):
            x, y = self._source.take(number, indices)
            with tf.device(self._device):
                yield tensor(x, self._integer), tensor(y, self._integer)

    def close(self):
        pass
