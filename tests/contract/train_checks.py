"""Training: optimizers, small models, running values, evaluation. Python 3.6 syntax."""

import numpy as np

from tests.contract.bench import Deviation, train
from tests.contract.layer_checks import varied
from tests.contract.sketch import Sketch, samples

# Check name -> (optimizer, learning rate, decay, options). Epsilons of 0.01 show where they are added.
OPTIMIZERS = {
    "sgd": ("sgd", 0.3, 0.0, {}),
    "sgd-decay": ("sgd", 0.3, 0.5, {}),
    "sgd-momentum": ("sgd", 0.1, 0.0, {"momentum": 0.9}),
    "sgd-nesterov": ("sgd", 0.1, 0.1, {"momentum": 0.9, "nesterov": True}),
    "adam": ("adam", 1e-3, 0.0, {}),
    "adam-odd": ("adam", 0.01, 0.3, {"beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-2}),
    "rmsprop": ("rmsprop", 1e-3, 0.0, {}),
    "rmsprop-odd": ("rmsprop", 0.01, 0.3, {"rho": 0.8, "epsilon": 1e-2}),
    "rmsprop-momentum": ("rmsprop", 1e-3, 0.0, {"momentum": 0.9, "epsilon": 1e-2}),
    "rmsprop-centered": ("rmsprop", 1e-3, 0.0, {"centered": True, "epsilon": 1e-3}),
    "rmsprop-centered-momentum": ("rmsprop", 1e-3, 0.3, {"centered": True, "momentum": 0.5, "epsilon": 1e-2}),
    "adadelta": ("adadelta", 1.0, 0.0, {}),
    "adadelta-odd": ("adadelta", 0.5, 0.3, {"rho": 0.8, "epsilon": 1e-2}),
}
# Rows of a table that no token of the batch names move too: momentum and moments decay for all of them alike.
TABLE_OPTIMIZERS = {
    "sgd-momentum": ("sgd", 1.0, 0.0, {"momentum": 0.9}),
    "adam": ("adam", 1e-3, 0.0, {"epsilon": 1e-4}),
    "rmsprop": ("rmsprop", 1e-3, 0.0, {"momentum": 0.5, "epsilon": 1e-3}),
    "adadelta": ("adadelta", 1.0, 0.0, {"epsilon": 1e-4}),
}
# Means of squared gradients halve with each step in which the gradient stays away.
SILENT_STEPS = 200
SILENT_OPTIMIZERS = {
    "adam": ("adam", 1e-3, 0.0, {"beta_1": 0.5, "beta_2": 0.5}),
    "rmsprop": ("rmsprop", 1e-3, 0.0, {"rho": 0.5}),
    "rmsprop-centered": ("rmsprop", 1e-3, 0.0, {"rho": 0.5, "centered": True, "epsilon": 1e-3}),
    "adadelta": ("adadelta", 1.0, 0.0, {"rho": 0.5, "epsilon": 1e-4}),
}


def batches(model, steps):
    """So many (x, y), one after the other."""
    size = model.workload.schedule.batch_size
    x, y = samples(model, size * steps)
    return [(x[start:start + size], y[start:start + size]) for start in range(0, size * steps, size)]


def check_optimizer(bench, name):
    optimizer, rate, decay, options = OPTIMIZERS[name]
    sketch = Sketch((12,)).optimizer(optimizer, rate, decay, **options)
    sketch.add("dense", "hidden", units=10)
    sketch.add("tanh")
    sketch.add("dense", "logits", units=3)
    _trains_alike(bench, sketch.model(), 6)


def check_table_optimizer(bench, name):
    optimizer, rate, decay, options = TABLE_OPTIMIZERS[name]
    sketch = Sketch((5,), vocabulary=60).optimizer(optimizer, rate, decay, **options)
    sketch.add("embedding", "table", vocabulary=60, dim=4)
    sketch.add("flatten")
    sketch.add("dense", "logits", units=3)
    _trains_alike(bench, sketch.model(), 6)


def check_silent_optimizer(bench, name):
    """Weights of features that are zero from the second step on stay finite where they are, also when the optimizer's
    means fall below the least normal number of float32 (after some 120 steps)."""
    optimizer, rate, decay, options = SILENT_OPTIMIZERS[name]
    sketch = Sketch((32,), samples=8 * SILENT_STEPS).optimizer(optimizer, rate, decay, **options)
    sketch.add("dense", "hidden", units=32)
    sketch.add("tanh")
    sketch.add("dense", "logits", units=3)
    model = sketch.model()
    subject, oracle = bench.pair(model)
    pairs = [(x.copy(), y) for x, y in batches(model, SILENT_STEPS)]
    for x, _ in pairs[1:]:
        x[:, :16] = 0
    bench.losses(train(subject, pairs), train(oracle, pairs))
    bench.weights(model, subject, oracle)


def check_model(bench, name):
    _trains_alike(bench, MODELS[name](), 5)


def _trains_alike(bench, model, steps):
    subject, oracle = bench.pair(model)
    pairs = batches(model, steps)
    bench.losses(train(subject, pairs), train(oracle, pairs))
    bench.weights(model, subject, oracle)


# --- models -------------------------------------------------------------------------------------------------

def mlp():
    sketch = Sketch((28, 28, 1), classes=10, batch_size=32, samples=256).optimizer("adam", 1e-3)
    sketch.add("flatten")
    for name, units in (("hidden1", 64), ("hidden2", 32)):
        sketch.add("dense", name, units=units)
        sketch.add("relu")
        sketch.add("dropout", rate=0.0)
    sketch.add("dense", "logits", units=10)
    return sketch.model()


def cnn():
    """Convolutions of all kinds, both pools, a residual and a concatenating joint, both ways to the head."""
    sketch = Sketch((13, 12, 3), classes=5, batch_size=16).optimizer("sgd", 0.05, momentum=0.9)
    sketch.add("conv2d", "c1", filters=8, padding="same", use_bias=False)
    sketch.add("batch_norm", "b1")
    first = sketch.add("relu", "r1")
    sketch.add("conv2d", "c2", filters=8, padding="same")
    sketch.add("add", "residual", ["c2", first])
    sketch.add("max_pool2d", "p1", padding="same")
    sketch.add("conv2d", "left", ["p1"], filters=6, stride=2, padding="same")
    sketch.add("conv2d", "right", ["p1"], filters=4, kernel=(3, 2), stride=2)
    sketch.add("avg_pool2d", "p2", ["right"], size=2, stride=1, padding="same")
    sketch.add("global_avg_pool2d", "pooled", ["left"])
    sketch.add("flatten", "flat", ["p2"])
    sketch.add("concat", "joined", ["pooled", "flat"])
    sketch.add("dropout", rate=0.0)
    sketch.add("dense", "logits", units=5)
    return sketch.model()


def flattened():
    """What a flattened picture goes through on its way to dense layers, two of them on one, and to no dense layer."""
    sketch = Sketch((8, 7, 3), classes=5, batch_size=16).optimizer("sgd", 0.05, momentum=0.9)
    picture = sketch.add("conv2d", "c1", filters=6)
    first = sketch.add("flatten", "free", [picture])
    sketch.add("relu")
    sketch.add("dropout", rate=0.0)
    sketch.add("dense", "through", units=5)
    sketch.add("dense", "beside", [first], units=4)
    second = sketch.add("flatten", "fixed", [picture])
    sketch.add("dense", "of-fixed", [second], units=3)
    sketch.add("concat", "joined", ["through", "beside", "of-fixed", second])
    sketch.add("dense", "logits", units=5)
    return sketch.model()


def fasttext():
    sketch = Sketch((9,), vocabulary=50, batch_size=16).optimizer("adam", 1e-3).binary()
    sketch.add("embedding", "words", vocabulary=50, dim=8)
    sketch.add("global_avg_pool1d")
    sketch.add("dense", "logits", units=1)
    return sketch.model()


def bilstm():
    sketch = Sketch((9,), vocabulary=50, batch_size=16).optimizer("adam", 1e-3).binary()
    sketch.add("embedding", "words", vocabulary=50, dim=8)
    sketch.add("bidirectional_lstm", "both", units=6, return_sequences=True)
    sketch.add("bidirectional_lstm", "ends", units=6, recurrent_activation="hard_sigmoid")
    sketch.add("dropout", rate=0.0)
    sketch.add("dense", "logits", units=1)
    return sketch.model()


def lstm():
    sketch = Sketch((7, 12), classes=12, batch_size=16).optimizer("rmsprop", 1e-2, epsilon=1e-3)
    sketch.add("lstm", "all", units=10, return_sequences=True)
    sketch.add("lstm", "last", units=10, recurrent_activation="hard_sigmoid")
    sketch.add("dense", "logits", units=12)
    return sketch.model()


MODELS = {"mlp": mlp, "cnn": cnn, "flattened": flattened, "fasttext": fasttext, "bilstm": bilstm, "lstm": lstm}


# --- single properties --------------------------------------------------------------------------------------

def check_running_values(bench):
    """Batch-norm's running values after training, their use in evaluation, and that evaluation moves nothing."""
    sketch = Sketch((6, 5, 2))
    sketch.add("conv2d", "c", filters=3)
    sketch.add("batch_norm", "picture", momentum=0.7, epsilon=0.05)
    sketch.add("flatten")
    sketch.add("dense", "d", units=4)
    sketch.add("batch_norm", "row", momentum=0.9)
    sketch.add("dense", "logits", units=3)
    model = sketch.model()
    subject, oracle = bench.pair(model, varied(model))
    pairs = batches(model, 5)
    x = samples(model, 11)[0]
    bench.output("output in evaluation, untrained", subject.predict(x), oracle.predict(x))
    bench.losses(train(subject, pairs[:3]), train(oracle, pairs[:3]))
    bench.output("output in evaluation, trained", subject.predict(x), oracle.predict(x))
    bench.weights(model, subject, oracle)
    bench.losses(train(subject, pairs[3:]), train(oracle, pairs[3:]))
    bench.weights(model, subject, oracle)


def dropout_model():
    sketch = Sketch((20,), batch_size=16)
    sketch.add("dense", "hidden", units=40)
    sketch.add("relu")
    sketch.add("dropout", rate=0.5)
    sketch.add("dense", "logits", units=3)
    return sketch.model()


def check_evaluation(bench):
    """``predict`` leaves dropout out, takes any number of samples, and says the same twice; ``step`` drops."""
    model = dropout_model()
    subject, oracle = bench.pair(model)
    for count in (16, 5, 1, 23):
        x = samples(model, count)[0]
        for _ in range(2):
            bench.output("output in evaluation of {} samples".format(count), subject.predict(x), oracle.predict(x))
    x, y = batches(model, 1)[0]
    found = train(subject, [(x, y)])[0]
    plain = oracle.loss(oracle.predict(x), y)[0]
    if abs(found - plain) < 1e-6:
        raise Deviation("layer dropout-3 (dropout): a training step does not drop anything")


def check_dropout_scale(bench):
    """What is kept is divided by (1 - rate), and about ``rate`` of all values are dropped."""
    sketch = Sketch((3000,), batch_size=8)
    sketch.add("dropout", "drop", rate=0.3)
    sketch.add("dense", "logits", units=3)
    model = sketch.model()
    subject, _ = bench.pair(model)
    x, y = batches(model, 1)[0]
    dropped = np.asarray(subject.inspect(x, y)[0]["drop"])
    kept = dropped != 0
    bench.output("layer drop (dropout): values that are kept", dropped[kept], x[kept].astype(np.float64) / 0.7)
    share = 1 - kept.mean()
    if not 0.27 < share < 0.33:  # 24,000 draws: 10 standard deviations
        raise Deviation("layer drop (dropout): drops {:.3f} of all values, not 0.3".format(share))


def check_repeatable(bench):
    """Losses with dropout, for the caller to compare between two processes."""
    model = dropout_model()
    subject, _ = bench.pair(model)
    bench.outcome.losses = train(subject, batches(model, 6))


def check_arrays_kept(bench):
    """Training changes neither the initial weights nor the samples, and ``weights`` starts as they are."""
    sketch = Sketch((20,), batch_size=16).optimizer("adam", 0.1)
    sketch.add("dense", "hidden", units=8)
    sketch.add("batch_norm", "norm")
    sketch.add("dense", "logits", units=3)
    model = sketch.model()
    subject, _ = bench.pair(model)
    before = {layer: {name: array.copy() for name, array in arrays.items()} for layer, arrays in bench.initial.items()}
    _same_weights("weights() after build", subject.weights(), before)
    pairs = [(x.copy(), y.copy()) for x, y in batches(model, 3)]
    train(subject, pairs)
    taken = subject.weights()
    kept = {layer: {name: np.array(array) for name, array in arrays.items()} for layer, arrays in taken.items()}
    train(subject, pairs)
    _same_weights("the initial arrays after training", bench.initial, before)
    _same_weights("what weights() gave, after further training", taken, kept)
    for (x, y), (old_x, old_y) in zip(pairs, batches(model, 3)):
        if not (np.array_equal(x, old_x) and np.array_equal(y, old_y)):
            raise Deviation("a batch given to put() is changed by training")


def _same_weights(what, found, wanted):
    for layer, arrays in wanted.items():
        for name, array in arrays.items():
            if not np.array_equal(np.asarray(found.get(layer, {}).get(name), np.float64), array.astype(np.float64)):
                raise Deviation("layer {}: {} of {} differ from what they were".format(layer, name, what))


def check_losses_later(bench):
    """A loss of ``step`` can be read any time later, and more than once."""
    model = mlp()
    subject, oracle = bench.pair(model)
    pairs = batches(model, 5)
    wanted = train(oracle, pairs)
    losses = [subject.step(subject.put(x, y)) for x, y in pairs]
    subject.wait()
    for order in (range(4, -1, -1), range(5)):
        for step in order:
            bench.loss(step + 1, subject.read(losses[step]), wanted[step])
