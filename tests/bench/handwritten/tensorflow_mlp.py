"""The MNIST MLP trained by hand in TensorFlow, with nothing of Trainyard: what the runner's time is compared with.

    python tensorflow_mlp.py --x x.npy --y y.npy --initial initial.npz --orders orders.npy --epochs 3 --threads 2

x: float32 (samples, 28, 28, 1); y: int32 (samples,); orders: int64 (warm-up and measured epochs, steps, batch).
Prints one JSON line; seconds are between two moments at which the device had nothing left to do.
"""

import argparse
import json
import time

import numpy as np
import tensorflow as tf


def main():
    options = arguments()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    orders = np.load(options.orders)
    variables = [tf.Variable(np.load(options.initial)[name])
                 for name in ("d1_kernel", "d1_bias", "d2_kernel", "d2_bias")]
    step = training_step(variables, orders.shape[2], options.jit)
    order, dataset = pipeline(np.load(options.x), np.load(options.y), orders, options)

    def epoch(number):
        order.assign(orders[number])
        for x, y in dataset:
            loss = step(x, y)
        return loss

    for number in range(options.warmup_epochs):
        epoch(number)
    variables[0].numpy()
    marks = [time.perf_counter()]
    for number in range(options.warmup_epochs, options.warmup_epochs + options.epochs):
        loss = epoch(number)
        marks.append(time.perf_counter())
    variables[0].numpy()
    marks[-1] = time.perf_counter()
    print(json.dumps({"measured_seconds": marks[-1] - marks[0], "epoch_seconds": np.diff(marks).tolist(),
                      "loss": float(loss)}))


def arguments():
    parser = argparse.ArgumentParser(description="Trains the MNIST MLP by hand.")
    for name in ("x", "y", "initial", "orders"):
        parser.add_argument("--" + name, required=True)
    for name, default in (("warmup-epochs", 1), ("epochs", 3), ("threads", 1), ("workers", 4), ("prefetch", 4)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--jit", action="store_true")
    return parser.parse_args()


def training_step(variables, batch, jit):
    """A ``tf.function`` that trains one batch and returns its loss."""
    kernel1, bias1, kernel2, bias2 = variables
    optimizer = tf.keras.optimizers.Adam(1e-3, beta_1=0.9, beta_2=0.999, epsilon=1e-7)

    @tf.function(input_signature=(tf.TensorSpec((batch, 28, 28, 1), tf.float32), tf.TensorSpec((batch,), tf.int32)),
                 autograph=False, jit_compile=jit or None)
    def step(x, y):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(tf.reshape(x, (-1, 784)), kernel1), bias1))
            logits = tf.nn.bias_add(tf.matmul(hidden, kernel2), bias2)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return step


def pipeline(x, y, orders, options):
    """(variable that takes an epoch's order, dataset of its batches)."""
    with tf.device("/CPU:0"):
        x, y = tf.Variable(x, trainable=False), tf.Variable(y, trainable=False)
        order = tf.Variable(orders[0], trainable=False)

    def batch(number):
        indices = tf.gather(order, number)
        return tf.gather(x, indices), tf.gather(y, indices)

    settings = tf.data.Options()
    settings.experimental_deterministic = True
    settings.experimental_optimization.autotune = False
    dataset = tf.data.Dataset.range(orders.shape[1]).map(batch, num_parallel_calls=options.workers or None)
    return order, dataset.with_options(settings).prefetch(options.prefetch)


if __name__ == "__main__":
    main()
