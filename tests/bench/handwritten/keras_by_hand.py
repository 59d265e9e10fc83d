"""mlp-mnist or cnn-mnist written by hand in plain Keras 2, on the backend that KERAS_BACKEND names: the other side of
tests/bench/overhead.py.

Knows nothing of this project's runners. Prints one JSON line; its loss is the mean of the last epoch. ``fit`` slices
arrays itself, so that there are no workers to set. The samples are put in an epoch's order first, and that is timed.
"""

import argparse
import json
import time

import numpy as np
from keras import backend as K
from keras import layers, models, optimizers


def main():
    options = parse()
    set_threads(options.threads)
    x, y, orders = np.load(options.x), np.load(options.y), np.load(options.orders)
    make, names = MODELS[options.model]
    model = make()
    initial = np.load(options.initial)
    model.set_weights([initial[name + part] for name in names for part in ("_kernel", "_bias")])
    stamps = []
    for epoch in range(options.warmup_epochs + options.epochs):
        if epoch >= options.warmup_epochs:
            stamps.append(time.perf_counter())
        order = orders[epoch].ravel()
        history = model.fit(x[order], y[order], orders.shape[2], epochs=1, shuffle=False, verbose=0)
    stamps.append(time.perf_counter())
    print(json.dumps({"measured_seconds": stamps[-1] - stamps[0], "epoch_seconds": np.diff(stamps).tolist(),
                      "loss": float(history.history["loss"][-1])}))


def set_threads(threads):
    """Theano takes them from OMP_NUM_THREADS and OPENBLAS_NUM_THREADS."""
    if K.backend() == "tensorflow":
        import tensorflow as tf
        K.set_session(tf.Session(config=tf.ConfigProto(
            intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)))
    elif K.backend() == "cntk":
        import cntk
        cntk.cntk_py.set_max_num_cputhreads(threads)


def perceptron():
    model = models.Sequential([
        layers.Flatten(input_shape=(28, 28, 1)), layers.Dense(512, activation="relu"),
        layers.Dense(10, activation="softmax")])
    model.compile(optimizers.Adam(1e-3, epsilon=1e-7), "sparse_categorical_crossentropy")
    return model


def convolutions():
    model = models.Sequential([
        layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)), layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(2), layers.Dropout(0.25), layers.Flatten(), layers.Dense(128, activation="relu"),
        layers.Dropout(0.5), layers.Dense(10, activation="softmax")])
    model.compile(optimizers.Adadelta(1.0, rho=0.95, epsilon=1e-8), "sparse_categorical_crossentropy")
    return model


MODELS = {"mlp": (perceptron, ("d1", "d2")), "cnn": (convolutions, ("c1", "c2", "d1", "d2"))}


def parse():
    parser = argparse.ArgumentParser(description="Trains mlp-mnist or cnn-mnist by hand.")
    parser.add_argument("--model", choices=sorted(MODELS), default="mlp")
    for name in ("x", "y", "initial", "orders"):
        parser.add_argument("--" + name, required=True)
    for name, default in (("warmup-epochs", 1), ("epochs", 1), ("threads", 1), ("workers", 0), ("prefetch", 0)):
        parser.add_argument("--" + name, type=int, default=default)
    return parser.parse_args()


if __name__ == "__main__":
    main()
