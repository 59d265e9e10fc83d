"""The meaning of a workload message: shapes, parameters, and what is refused with which words."""

import itertools

import pytest
from trainyard import graph
from trainyard.v1 import workload_pb2

from tests.contract.sketch import Sketch
from tests.contract.train_checks import MODELS


def rows():
    """A workload that is right."""
    sketch = Sketch((6,))
    sketch.add("dense", "d", units=3)
    return sketch


def picture(op, shape=(9, 8, 3), **fields):
    """Output shape of one layer on a picture."""
    sketch = Sketch(shape)
    sketch.add(op, "it", **fields)
    sketch.add("global_avg_pool2d")
    return sketch.model().nodes[0].shape


def residual_block(sketch, name, filters, stride, project):
    """A bottleneck block: 1x1, 3x3 with the stride, 1x1 to four times as many, and a shortcut."""
    source = sketch.last
    for number, (kernel, count, step) in enumerate(((1, filters, 1), (3, filters, stride), (1, 4 * filters, 1)), 1):
        sketch.add(
            "conv2d", f"{name}.c{number}", filters=count, kernel=kernel, stride=step, padding="same", use_bias=False
        )
        sketch.add("batch_norm", f"{name}.b{number}")
        if number < 3:
            sketch.add("relu", f"{name}.r{number}")
    if project:
        sketch.add(
            "conv2d",
            name + ".shortcut",
            [source],
            filters=4 * filters,
            kernel=1,
            stride=stride,
            padding="same",
            use_bias=False,
        )
        source = sketch.add("batch_norm", name + ".shortcut-norm")
    sketch.add("add", name + ".sum", [name + ".b3", source])
    sketch.add("relu", name + ".out")


def test_residual_graph_has_the_shapes_and_counts_of_its_paper():
    """The first two stages of ResNet-50, at 224 x 224 (He et al., 2015, table 1)."""
    sketch = Sketch((224, 224, 3), classes=10)
    sketch.add("conv2d", "stem", filters=64, kernel=7, stride=2, padding="same", use_bias=False)
    sketch.add("batch_norm", "stem-norm")
    sketch.add("relu", "stem-relu")
    sketch.add("max_pool2d", "pool", size=3, stride=2, padding="same")
    for stage, (filters, blocks) in enumerate(((64, 3), (128, 4)), 1):
        for block in range(blocks):
            residual_block(
                sketch, f"s{stage}b{block}", filters, 2 if (stage, block) == (2, 0) else 1, project=block == 0
            )
    sketch.add("global_avg_pool2d", "head")
    sketch.add("dense", "logits", units=10)
    model = sketch.model()
    shapes = {node.name: node.shape for node in model.nodes}
    assert shapes["stem"] == (112, 112, 64)
    assert shapes["pool"] == (56, 56, 64)
    assert shapes["s1b2.out"] == (56, 56, 256)
    assert shapes["s2b0.c1"] == (56, 56, 128)
    assert shapes["s2b0.c2"] == shapes["s2b3.c2"] == (28, 28, 128)
    assert shapes["s2b3.out"] == (28, 28, 512)
    assert shapes["head"] == (512,)
    # Stem 9,536; the stages as published for ResNet-50: 215,808 and 1,219,584; the head 512 x 10 + 10.
    assert model.parameter_count == 9536 + 215808 + 1219584 + 5130
    assert model.classes == 10


@pytest.mark.parametrize(
    ("length", "window", "stride", "output", "before", "after"),
    [
        (5, 3, 1, 5, 1, 1),
        (6, 3, 2, 3, 0, 1),
        (7, 3, 2, 4, 1, 1),
        (224, 7, 2, 112, 2, 3),
        (112, 3, 2, 56, 0, 1),
        (5, 2, 1, 5, 0, 1),
        (8, 1, 2, 4, 0, 0),
        (9, 5, 3, 3, 1, 1),
        (3, 5, 1, 3, 2, 2),
        (10, 4, 3, 4, 1, 2),
        (1, 3, 2, 1, 1, 1),
        (4, 2, 4, 1, 0, 0),
    ],
)
def test_same_padding_of_one_axis(length, window, stride, output, before, after):
    assert graph.same_padding(length, window, stride) == (before, after)
    fields = {"filters": 2, "kernel": (window, 1), "stride": (stride, 1), "padding": "same"}
    assert picture("conv2d", (length, 5, 3), **fields) == (output, 5, 2)
    assert picture("avg_pool2d", (5, length, 3), size=(1, window), stride=(1, stride), padding="same") == (5, output, 3)


def test_same_padding_always_leaves_a_real_value_in_every_window():
    for length, window, stride in itertools.product(range(1, 12), range(1, 8), range(1, 8)):
        before, after = graph.same_padding(length, window, stride)
        assert 0 <= after - before <= 1
        starts = [index * stride - before for index in range(-(-length // stride))]
        assert all(start < length and start + window > 0 for start in starts)
        assert starts[-1] + window <= length + after


@pytest.mark.parametrize(
    ("length", "window", "stride", "output"),
    [
        (9, 3, 1, 7),
        (9, 3, 2, 4),
        (8, 3, 2, 3),
        (8, 2, 2, 4),
        (9, 2, 2, 4),
        (5, 5, 3, 1),
        (7, 1, 3, 3),
    ],
)
def test_valid_windows_of_one_axis(length, window, stride, output):
    fields = {"kernel": (1, window), "stride": (1, stride)}
    assert picture("conv2d", (5, length, 3), filters=2, **fields) == (5, output, 2)


@pytest.mark.parametrize(
    ("op", "fields", "shape", "parameters"),
    [
        ("dense", {"units": 4}, (6, 4), {"kernel": (5, 4), "bias": (4,)}),
        ("dense", {"units": 4, "use_bias": False}, (6, 4), {"kernel": (5, 4)}),
        ("lstm", {"units": 3}, (3,), {"kernel": (5, 12), "recurrent": (3, 12), "bias": (12,)}),
        ("lstm", {"units": 3, "return_sequences": True}, (6, 3), None),
        ("bidirectional_lstm", {"units": 3}, (6,), None),
        ("bidirectional_lstm", {"units": 3, "return_sequences": True}, (6, 6), None),
        ("batch_norm", {}, (6, 5), {"scale": (5,), "offset": (5,)}),
        ("global_avg_pool1d", {}, (5,), {}),
        ("flatten", {}, (30,), {}),
        ("softmax", {}, (6, 5), {}),
    ],
)
def test_layers_on_a_sequence(op, fields, shape, parameters):
    sketch = Sketch((6, 5))
    sketch.add(op, "it", **fields)
    sketch.add("flatten")
    sketch.add("dense", units=3)
    node = sketch.model().nodes[0]
    assert node.shape == shape
    if parameters is not None:
        assert dict(node.parameters) == parameters


def test_batch_norm_has_state_and_conv_parameters_are_in_order():
    nodes = {node.name: node for node in MODELS["cnn"]().nodes}
    assert dict(nodes["b1"].state) == {"mean": (8,), "variance": (8,)}
    assert list(nodes["c2"].parameters.items()) == [("kernel", (3, 3, 8, 8)), ("bias", (8,))]
    assert nodes["joined"].shape == (6 + 3 * 3 * 4,)


def test_bidirectional_parameters_are_named_by_direction():
    node = next(node for node in MODELS["bilstm"]().nodes if node.name == "both")
    assert list(node.parameters) == [
        direction + name for direction in ("forward_", "backward_") for name in ("kernel", "recurrent", "bias")
    ]


# --- refusals ------------------------------------------------------------------------------------------------


def refusal(sketch):
    with pytest.raises(graph.WorkloadError) as caught:
        sketch.model()
    assert str(caught.value).startswith(caught.value.field + ": ")
    return caught.value.field, str(caught.value)


BAD_LAYERS = {
    "units": ((6,), "dense", {"units": 0}, "layer it.units", "0 is not between 1"),
    "negative": ((6,), "dense", {"units": -3}, "layer it.units", "-3"),
    "huge": ((60000,), "dense", {"units": 60000}, "layer it: size of kernel", "3600000000"),
    "dense-picture": ((5, 5, 1), "dense", {"units": 3}, "layer it", "(features) or (time, features)"),
    "conv-row": ((6,), "conv2d", {"filters": 3}, "layer it", "(height, width, channels)"),
    "window": ((4, 9, 1), "conv2d", {"filters": 3, "kernel": 5}, "layer it", "a window of 5"),
    "pool": ((4, 2, 1), "max_pool2d", {"size": 3}, "layer it", "a window of 3"),
    "stride": ((4, 4, 1), "conv2d", {"filters": 3, "stride": 0}, "layer it.stride_height", "0"),
    "lstm": ((6,), "lstm", {"units": 3}, "layer it", "(time, features)"),
    "pool1d": ((4, 4, 1), "global_avg_pool1d", {}, "layer it", "(time, features)"),
    "rate": ((6,), "dropout", {"rate": 1.0}, "layer it.rate", "not below 1"),
    "negative-rate": ((6,), "dropout", {"rate": -0.1}, "layer it.rate", "-0.1"),
    "nan-rate": ((6,), "dropout", {"rate": float("nan")}, "layer it.rate", "nan"),
    "epsilon": ((6,), "batch_norm", {"epsilon": 0.0}, "layer it.epsilon", "0.0"),
    "momentum": ((6,), "batch_norm", {"momentum": 1.5}, "layer it.momentum", "1.5"),
    "embedding": ((6,), "embedding", {"vocabulary": 9, "dim": 2}, "layer it", "word numbers"),
}


@pytest.mark.parametrize("name", sorted(BAD_LAYERS))
def test_bad_layer_is_refused_by_name(name):
    shape, op, fields, field, words = BAD_LAYERS[name]
    sketch = Sketch(shape)
    sketch.add(op, "it", **fields)
    found, text = refusal(sketch)
    assert found == field
    assert words in text


def test_missing_optional_fields_are_refused():
    for op, field in (("dense", "use_bias"), ("dropout", "rate"), ("batch_norm", "momentum")):
        sketch = rows()
        message = sketch.workload.layers.add(name="it", inputs=["d"])
        getattr(message, op).SetInParent()
        if op == "dense":
            message.dense.units = 3
        if op == "batch_norm":
            message.batch_norm.epsilon = 1e-3
        assert refusal(sketch) == ("layer it." + field, f"layer it.{field}: is missing")


def test_unspecified_padding_and_recurrent_activation_are_refused():
    sketch = Sketch((5, 5, 1))
    sketch.add("conv2d", "it", filters=2)
    sketch.workload.layers[0].conv2d.padding = workload_pb2.PADDING_UNSPECIFIED
    assert refusal(sketch)[0] == "layer it.padding"
    sketch = Sketch((5, 5))
    sketch.add("lstm", "it", units=2)
    for value in (0, 9):
        sketch.workload.layers[0].lstm.recurrent_activation = value
        assert refusal(sketch)[0] == "layer it.recurrent_activation"


def test_joints_name_both_shapes():
    for op, shape in (("add", (4,)), ("concat", (6, 5))):
        sketch = Sketch((6, 5))
        sketch.add("flatten" if op == "add" else "global_avg_pool1d", "left")
        sketch.add("dense", "right", [graph.INPUT], units=shape[-1])
        sketch.add(op, "joint", ["left", "right"])
        field, text = refusal(sketch)
        assert field == "layer joint"
        assert "left" in text
        assert "right" in text
        assert text.count("(") == 2


BAD_GRAPHS = {
    "no layers": (lambda s: s.workload.ClearField("layers"), "layer", "at least one layer"),
    "no op": (lambda s: s.workload.layers.add(name="x", inputs=["d"]), "layer x (number 2)", "has no op"),
    "no name": (lambda s: s.workload.layers.add(inputs=["d"]).relu.SetInParent(), "layer number 2", "not a name"),
    "bad name": (lambda s: s.add("relu", "a/b"), "layer a/b (number 2)", "not a name"),
    "twice": (lambda s: s.add("relu", "d"), "layer d (number 2)", "taken already"),
    "input": (lambda s: s.add("relu", "input"), "layer input (number 2)", "taken already"),
    "unknown input": (lambda s: s.add("relu", "r", ["later"]), "layer r (number 2)", "'later' is no earlier layer"),
    "itself": (lambda s: s.add("relu", "r", ["r"]), "layer r (number 2)", "'r' is no earlier layer"),
    "no inputs": (lambda s: s.add("relu", "r", []), "layer r (number 2)", "needs one input, not 0"),
    "two inputs": (lambda s: s.add("relu", "r", ["d", "d"]), "layer r (number 2)", "needs one input, not 2"),
    "lonely add": (lambda s: s.add("add", "a", ["d"]), "layer a (number 2)", "needs 2 to"),
    "unused": (lambda s: s.add("dense", "e", ["input"], units=3), "layer d", "used by no other layer"),
    "softmax": (lambda s: s.add("softmax", "p"), "layer p", "leave the last softmax out"),
    "wide binary": (lambda s: s.binary(), "layer d", "needs an output of shape (1,)"),
    "one class": (lambda s: s.add("dense", "one", units=1), "layer one", "at least 2 outputs"),
}


@pytest.mark.parametrize("name", sorted(BAD_GRAPHS))
def test_bad_graph_is_refused(name):
    change, field, words = BAD_GRAPHS[name]
    sketch = rows()
    change(sketch)
    found, text = refusal(sketch)
    assert found == field
    assert words in text


def test_output_with_several_axes_is_refused():
    sketch = Sketch((6, 5))
    sketch.add("dense", "d", units=3)
    assert refusal(sketch)[0] == "layer d"


def test_word_numbers_only_go_into_an_embedding():
    sketch = Sketch((6,), vocabulary=9)
    sketch.add("dense", "d", units=3)
    assert refusal(sketch) == ("layer d", "layer d: dense cannot take word numbers; start with an embedding")


BAD_FIELDS = {
    "name": ("My model", "'My model'"),
    "seed": (-1, "-1"),
    "loss": ("mse", "'mse'"),
    "schedule.batch_size": (-32, "-32"),
    "schedule.steps": (0, "0 is not"),
    "schedule.warmup_epochs": (0, "0 is not"),
    "optimizer.learning_rate": (float("inf"), "inf"),
    "optimizer.decay": (-0.5, "-0.5"),
    "dataset.classes": (1, "1 is not"),
    "dataset.samples": (0, "0 is not"),
    "dataset.vocabulary": (-1, "-1"),
}


@pytest.mark.parametrize("name", sorted(BAD_FIELDS))
def test_bad_field_is_refused(name):
    value, words = BAD_FIELDS[name]
    sketch = rows()
    owner, _, field = name.rpartition(".")
    message = {
        "": sketch.workload,
        "schedule": sketch.workload.schedule,
        "optimizer": sketch.workload.optimizer,
        "dataset": sketch.workload.dataset.synthetic,
    }[owner]
    setattr(message, field, value)
    found, text = refusal(sketch)
    assert found == name
    assert words in text


@pytest.mark.parametrize(
    ("optimizer", "options", "field"),
    [
        ("sgd", {"momentum": 1.0}, "momentum"),
        ("sgd", {"momentum": -0.1}, "momentum"),
        ("adam", {"beta_1": 1.0}, "beta_1"),
        ("adam", {"beta_2": 2.0}, "beta_2"),
        ("adam", {"epsilon": 0.0}, "epsilon"),
        ("rmsprop", {"rho": 1.0}, "rho"),
        ("rmsprop", {"epsilon": -1e-7}, "epsilon"),
        ("adadelta", {"rho": float("nan")}, "rho"),
        ("adadelta", {"epsilon": 0.0}, "epsilon"),
    ],
)
def test_bad_optimizer_is_refused(optimizer, options, field):
    assert refusal(rows().optimizer(optimizer, 0.1, **options))[0] == "optimizer." + field


def test_missing_parts_are_refused():
    for part, field in (("dataset", "dataset"), ("optimizer", "optimizer"), ("schedule", "schedule.batch_size")):
        sketch = rows()
        sketch.workload.ClearField(part)
        assert refusal(sketch)[0] == field
    sketch = rows()
    sketch.workload.schedule.ClearField("steps")
    assert refusal(sketch) == ("schedule", "schedule: one of steps, epochs is needed")


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        ([], "dataset.shape"),
        ([1, 2, 3, 4], "dataset.shape"),
        ([0], "dataset.shape"),
        ([9000, 9000, 900], "dataset.shape"),
    ],
)
def test_bad_sample_shapes_are_refused(shape, field):
    sketch = rows()
    del sketch.workload.dataset.synthetic.shape[:]
    sketch.workload.dataset.synthetic.shape.extend(shape)
    assert refusal(sketch)[0] == field


@pytest.mark.parametrize(
    ("kind", "options", "shape", "integer"),
    [
        ("mnist", {}, (28, 28, 1), False),
        ("cifar10", {"augment": "none"}, (32, 32, 3), False),
        ("imdb", {"vocabulary": 100, "maxlen": 7}, (7,), True),
        ("nietzsche", {"maxlen": 5, "step": 3}, (5, 57), False),
    ],
)
def test_input_shapes_of_the_datasets(kind, options, shape, integer):
    dataset = workload_pb2.Dataset()
    getattr(dataset, kind).SetInParent()
    for name, value in options.items():
        setattr(getattr(dataset, kind), name, value)
    assert graph.input_shape(dataset) == (shape, integer)


# --- schedule, dropout, digest -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("warmup", "measured", "expected"),
    [
        ({"warmup_steps": 20}, {"steps": 200}, (20, 200, 3)),
        ({"warmup_epochs": 1}, {"epochs": 20}, (8, 160, 1)),
        ({"warmup_steps": 8}, {"epochs": 2}, (8, 16, 1)),
        ({"warmup_steps": 9}, {"steps": 1}, (9, 1, 2)),
    ],
)
def test_measuring_starts_at_an_epoch_that_warm_up_did_not_touch(warmup, measured, expected):
    schedule = workload_pb2.Schedule(batch_size=8, **dict(warmup, **measured))
    assert graph.step_counts(schedule, 67) == expected


def test_fewer_samples_than_a_batch_are_refused():
    with pytest.raises(graph.WorkloadError, match="32 is more than the 31 training samples"):
        graph.steps_per_epoch(31, 32)


def test_without_dropout_changes_a_copy_alone():
    sketch = rows()
    sketch.add("dropout", "drop", ["d"], rate=0.5)
    workload = sketch.workload
    calm = graph.without_dropout(workload)
    assert [workload.layers[1].dropout.rate, calm.layers[1].dropout.rate] == [0.5, 0.0]
    assert calm.layers[1].dropout.HasField("rate")


def test_digest_is_that_of_the_bytes():
    assert graph.digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
