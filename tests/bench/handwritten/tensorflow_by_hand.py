"""mlp-mnist or cnn-mnist trained by hand in TensorFlow, with nothing of Trainyard: what the runner's time is compared
with.

    python tensorflow_by_hand.py --x x.npy --y y.npy --initial initial.npz --orders orders.npy --epochs 3 --threads 2

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
    names, forward, optimizer = MODELS[options.model]
    variables = [tf.Variable(np.load(options.initial)[name + part])
                 for name in names for part in ("_kernel", "_bias")]
    step = training_step(variables, forward, optimizer(), orders.shape[2], options.jit)
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
    parser = argparse.ArgumentParser(description="Trains mlp-mnist or cnn-mnist by hand.")
    parser.add_argument("--model", choices=sorted(MODELS), default="mlp")
    for name in ("x", "y", "initial", "orders"):
        parser.add_argument("--" + name, required=True)
    for name, default in (("warmup-epochs", 1), ("epochs", 3), ("threads", 1), ("workers", 4), ("prefetch", 4)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--jit", action="store_true")
    return parser.parse_args()


def perceptron(x, kernel1, bias1, kernel2, bias2):
    hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(tf.reshape(x, (-1, 784)), kernel1), bias1))
    return tf.nn.bias_add(tf.matmul(hidden, kernel2), bias2)


def convolutions(x, kernel1, bias1, kernel2, bias2, kernel3, bias3, kernel4, bias4):
    x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel1, 1, "VALID"), bias1))
    x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel2, 1, "VALID"), bias2))
    x = tf.nn.dropout(tf.nn.max_pool2d(x, 2, 2, "VALID"), 0.25)
    x = tf.nn.relu(tf.nn.bias_add(tf.matmul(tf.reshape(x, (-1, 9216)), kernel3), bias3))
    return tf.nn.bias_add(tf.matmul(tf.nn.dropout(x, 0.5), kernel4), bias4)


def adam():
    return tf.keras.optimizers.Adam(1e-3, beta_1=0.9, beta_2=0.999, epsilon=1e-7)


def adadelta():
    return tf.keras.optimizers.Adadelta(1.0, rho=0.95, epsilon=1e-8)


MODELS = {"mlp": (("d1", "d2"), perceptron, adam), "cnn": (("c1", "c2", "d1", "d2"), convolutions, adadelta)}


def training_step(variables, forward, optimizer, batch, jit):
    """A ``tf.function`` that trains one batch and returns its loss."""

    @tf.function(input_signature=(tf.TensorSpec((batch, 28, 28, 1), tf.float32), tf.TensorSpec((batch,), tf.int32)),
                 autograph=False, jit_compile=jit or None)
    def step(x, y):
        with tf.GradientTape() as tape:
            logits = forward(x, *variables)
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
