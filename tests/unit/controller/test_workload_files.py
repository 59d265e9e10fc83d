"""The workload file: what it may say, its defaults, and the one line that a mistake gives."""

from pathlib import Path

import pytest
from trainyard.v1 import workload_pb2

from controller.catalog import workload_file, workloads
from controller.errors import UnknownNameError, UsageError, WorkloadFileError

HEAD = """
name = "cnn-tiny"
dataset = "mnist"
loss = "sparse_categorical_crossentropy"
seed = 7
[optimizer]
name = "rmsprop"
learning_rate = 1e-3
[schedule]
batch_size = 32
warmup_steps = 20
steps = 200
"""
LAYERS = """
[[layer]]
op = "conv2d"
name = "c1"
filters = 32
kernel = 3
padding = "same"
[[layer]]
op = "relu"
[[layer]]
op = "flatten"
[[layer]]
op = "dense"
units = 10
"""


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "my.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(WorkloadFileError) as caught:
        workloads.find(write(tmp_path, text))
    line = caught.value.line()
    assert "my.toml" in line
    assert "\n" not in line
    assert caught.value.hint, "every mistake names the next step"
    assert caught.value.exit_code == 2
    return line


def test_the_file_of_the_design_is_read_with_every_default_filled_in(tmp_path):
    workload = workloads.find(write(tmp_path, HEAD + LAYERS))
    assert [layer.name for layer in workload.layers] == ["c1", "relu_1", "flatten_1", "dense_1"]
    assert [list(layer.inputs) for layer in workload.layers] == [["input"], ["c1"], ["relu_1"], ["flatten_1"]]
    conv = workload.layers[0].conv2d
    assert (conv.kernel_height, conv.kernel_width, conv.stride_height, conv.stride_width) == (3, 3, 1, 1)
    assert conv.padding == workload_pb2.PADDING_SAME
    assert conv.HasField("use_bias") and conv.use_bias
    rmsprop = workload.optimizer.rmsprop
    assert (rmsprop.rho, rmsprop.momentum, rmsprop.centered, rmsprop.epsilon) == (0.9, 0.0, False, 1e-7)
    assert workload.optimizer.decay == 0.0
    assert workload.seed == 7


def test_windows_are_a_number_or_height_and_width_and_a_pools_stride_is_its_size(tmp_path):
    layers = LAYERS.replace("kernel = 3", "kernel = [5, 3]\nstride = [2, 1]").replace(
        '[[layer]]\nop = "flatten"', '[[layer]]\nop = "avg_pool2d"\nsize = [2, 4]\n[[layer]]\nop = "flatten"'
    )
    workload = workloads.find(write(tmp_path, HEAD + layers))
    conv, pool = workload.layers[0].conv2d, workload.layers[2].avg_pool2d
    assert (conv.kernel_height, conv.kernel_width, conv.stride_height, conv.stride_width) == (5, 3, 2, 1)
    assert (pool.size_height, pool.size_width, pool.stride_height, pool.stride_width) == (2, 4, 2, 4)


def test_residual_inputs_and_dataset_options(tmp_path):
    text = HEAD.replace('dataset = "mnist"\n', "") + LAYERS.replace(
        '[[layer]]\nop = "flatten"',
        '[[layer]]\nop = "add"\nname = "sum"\ninputs = ["c1", "relu_1"]\n[[layer]]\nop = "flatten"',
    )
    text += '[dataset]\nname = "synthetic"\nshape = [8, 8, 3]\nclasses = 10\nsamples = 64\n'
    workload = workloads.find(write(tmp_path, text))
    assert list(workload.layers[2].inputs) == ["c1", "relu_1"]
    assert list(workload.dataset.synthetic.shape) == [8, 8, 3]
    assert workload.dataset.synthetic.test_samples == 64


def test_the_models_of_the_file_and_the_message_have_the_same_operations_and_fields():
    messages = {
        "op": (workload_pb2.Layer, workload_file.LAYERS, workload_file.AnyLayer),
        "kind": (workload_pb2.Optimizer, workload_file.OPTIMIZERS, workload_file.AnyOptimizer),
    }
    for oneof, (message, models, common) in messages.items():
        fields = {field.name: field for field in message.DESCRIPTOR.oneofs_by_name[oneof].fields}
        assert set(fields) == set(models)
        for name, model in models.items():
            here = set(model.model_fields) - set(common.model_fields)
            there = {
                field.name.removesuffix("_height").removesuffix("_width") for field in fields[name].message_type.fields
            }
            assert here == there, name
    datasets = workload_pb2.Dataset.DESCRIPTOR.oneofs_by_name["kind"].fields
    for field in datasets:
        here = set(workload_file.DATASETS[field.name].model_fields) - {"name"}
        assert here == {option.name for option in field.message_type.fields}


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ('op = "relu"', 'op = "rellu"', ["layer 2", "unknown op 'rellu'", "did you mean 'relu'?"]),
        ("filters = 32", "filtrs = 32", ["layer 1 'c1'", "conv2d", "and 1 more"]),
        ("units = 10", "units = 10\nunit = 3", ["layer 4: dense", "unknown key 'unit'", "did you mean 'units'?"]),
        ("units = 10", "unit = 10", ["layer 4: dense", "unknown key 'unit'", "did you mean 'units'?"]),
        ("units = 10", "units = 10\nactivation = 'relu'", ["unknown key 'activation'", "a layer of its own"]),
        ("units = 10", "", ["layer 4: dense", "'units' is missing"]),
        ("units = 10", "units = 10.0", ["units 10.0 should be a valid integer"]),
        ("units = 10", "units = true", ["units True should be a valid integer"]),
        ("units = 10", "units = -3", ["units -3 should be greater than or equal to 1"]),
        ("units = 10", f"units = {10**30}", ["units", "less than or equal to 2147483647"]),
        ("units = 10", "units = 5", ["layer dense_1", "(5,)", "10 classes"]),
        ('padding = "same"', 'padding = "full"', ["layer 1 'c1'", "padding 'full'", "'valid' or 'same'"]),
        ("kernel = 3", "kernel = [3, 3, 3]", ["layer 1 'c1'", "kernel"]),
        ('"mnist"', '"minst"', ["unknown dataset 'minst'", "did you mean 'mnist'?"]),
        ('"rmsprop"', '"adm"', ["unknown optimizer 'adm'", "did you mean 'adam'?"]),
        ("learning_rate = 1e-3", "lr = 1e-3", ["optimizer", "unknown key 'lr'", "learning_rate"]),
        ("learning_rate = 1e-3", "learning_rate = -1.0", ["optimizer.learning_rate", "-1.0 is not more than 0"]),
        ("learning_rate = 1e-3", "learning_rate = nan", ["optimizer.learning_rate", "nan is not a finite number"]),
        ("learning_rate = 1e-3", "learning_rate = inf", ["optimizer.learning_rate", "inf is not a finite number"]),
        ('name = "c1"', 'name = ""', ["'' is not a name"]),
        ('name = "c1"', 'name = "c1"\ninputs = []', ["layer c1", "conv2d needs one input, not 0"]),
        ("seed = 7", "seed = " + 3000 * "[" + 3000 * "]", ["nested too deeply"]),
        ('"sparse_categorical_crossentropy"', '"mse"', ["loss 'mse'", "sparse_categorical_crossentropy"]),
        ("steps = 200", "steps = 200\nepochs = 3", ["[schedule] has both steps and epochs"]),
        ("\nsteps = 200", "", ["[schedule] has neither steps nor epochs"]),
        ("batch_size = 32", "batch_size = -1", ["schedule", "batch_size -1"]),
        ("seed = 7", "seed = -7", ["seed -7"]),
        ("seed = 7", "sed = 7", ["unknown key 'sed'", "did you mean 'seed'?"]),
        ('name = "cnn-tiny"', 'name = "CNN tiny"', ["name", "lower case letters"]),
        ('[[layer]]\nop = "flatten"\n', "", ["layer dense_1", "dense needs an input", "(28, 28, 32)", "flatten"]),
        (LAYERS, '[[layer]]\nop = "flatten"' + LAYERS, ["c1: conv2d needs an input of", "put it before the flatten"]),
        ('[[layer]]\nop = "flatten"', '[[layer]]\nop = "flatten"\ninputs = ["c2"]', ["'c2' is no earlier layer"]),
        ('op = "relu"', 'op = "relu"\nname = "c1"', ["the name is taken already"]),
        ("kernel = 3", "kernel = 99\nstride = 1", ["layer c1"]),
        ("seed = 7", "seed = = 7", ["not valid TOML", "line 5"]),
        ('op = "relu"', "op = 3", ["layer 2", "'op' must be a text"]),
        ('op = "relu"', 'name = "r"', ["layer 2 'r'", "'op' is missing", "conv2d"]),
    ],
)
def test_each_mistake_is_one_line_that_names_it(tmp_path, old, new, parts):
    text = HEAD + LAYERS
    assert old in text
    if new.startswith("kernel = 99"):
        text = text.replace('padding = "same"', 'padding = "valid"')
    line = refusal(tmp_path, text.replace(old, new, 1))
    for part in parts:
        assert part in line, line


def test_shapes_that_do_not_fit_name_the_layer_its_line_and_both_shapes(tmp_path):
    text = HEAD + LAYERS.replace(
        '[[layer]]\nop = "flatten"',
        '[[layer]]\nop = "max_pool2d"\nname = "half"\nsize = 2\n[[layer]]\nop = "add"\nname = "sum"\n'
        'inputs = ["c1", "half"]\n[[layer]]\nop = "flatten"',
    )
    line = refusal(tmp_path, text)
    header = text.splitlines().index('name = "sum"') - 1
    assert f"my.toml:{header}:" in line
    assert "layer sum" in line
    assert "(28, 28, 32)" in line
    assert "(14, 14, 32)" in line


def test_an_embedding_that_cannot_hold_the_words_is_refused(tmp_path):
    text = (
        HEAD.replace('dataset = "mnist"', 'dataset = "imdb"').replace("sparse_categorical", "binary")
        + '[[layer]]\nop = "embedding"\nvocabulary = 100\ndim = 4\n[[layer]]\nop = "global_avg_pool1d"\n'
        + '[[layer]]\nop = "dense"\nunits = 1\n'
    )
    assert "cannot hold the dataset's 20000 words" in refusal(tmp_path, text)
    found = workloads.find(write(tmp_path, text.replace("vocabulary = 100", 'vocabulary = "dataset"')))
    assert found.layers[0].embedding.vocabulary == 20000


def test_layers_or_a_model_but_not_both(tmp_path):
    model = "[model]\nresnet = 50\nclasses = 10\nbatch_norm_epsilon = 1e-5\nbatch_norm_momentum = 0.9\n"
    assert "either [[layer]] tables or one [model]" in refusal(tmp_path, HEAD)
    assert "either [[layer]] tables or one [model]" in refusal(tmp_path, HEAD + model + LAYERS)
    assert "resnet 34 should be 50, 101 or 152" in refusal(tmp_path, HEAD + model.replace("50", "34"))


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(WorkloadFileError, match=r"cannot read workload file .*absent\.toml"):
        workloads.find(str(tmp_path / "absent.toml"))
    path = tmp_path / "my.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkloadFileError, match="UTF-8"):
        workloads.find(str(path))


def test_an_unknown_name_lists_the_catalog_and_the_closest():
    with pytest.raises(UnknownNameError) as caught:
        workloads.find("mlp-minst")
    assert "did you mean 'mlp-mnist'?" in caught.value.line()
    with pytest.raises(UnknownNameError):
        workloads.find("../models/mlp-mnist")


def test_overrides_change_the_digest_and_replace_the_other_of_a_pair():
    original = workloads.find("mlp-mnist")
    digests = {workloads.summarise(original).digest}
    for change in (
        {"batch_size": 64},
        {"steps": 10},
        {"epochs": 3},
        {"warmup_steps": 5},
        {"warmup_epochs": 2},
        {"seed": 99},
    ):
        changed = workloads.override(original, **change)
        digests.add(workloads.summarise(changed).digest)
        ((key, value),) = change.items()
        assert (changed.seed if key == "seed" else getattr(changed.schedule, key)) == value
    assert len(digests) == 7
    assert workloads.override(original, steps=10).schedule.WhichOneof("measured") == "steps"
    assert workloads.override(original) == original
    assert original.schedule.epochs == 20, "the original is not touched"


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"batch_size": -3}, "--batch-size -3"),
        ({"batch_size": 0}, "--batch-size 0"),
        ({"steps": 2**40}, "--steps"),
        ({"seed": -1}, "--seed -1"),
        ({"steps": 1, "epochs": 1}, "both --steps and --epochs"),
        ({"warmup_steps": 1, "warmup_epochs": 1}, "both --warmup-steps and --warmup-epochs"),
        ({"batch_size": 10**8}, "batch_size"),
    ],
)
def test_overrides_out_of_range_are_usage_errors(change, part):
    with pytest.raises(UsageError) as caught:
        workloads.override(workloads.find("mlp-mnist"), **change)
    assert part in caught.value.line()


def test_quick_takes_the_files_table_or_else_a_general_limit(tmp_path):
    assert workloads.find("mlp-mnist", quick=True).schedule.steps == 400
    path = write(tmp_path, HEAD + LAYERS)
    assert workloads.find(path, quick=True).schedule.steps == workloads.QUICK_STEPS
    longer = workloads.find(write(tmp_path, (HEAD + LAYERS).replace("\nsteps = 200", "\nepochs = 9")), quick=True)
    assert longer.schedule.steps == workloads.QUICK_STEPS
    own = workloads.find(write(tmp_path, HEAD + "[quick]\nsteps = 3\nbatch_size = 8\n" + LAYERS), quick=True)
    assert (own.schedule.steps, own.schedule.batch_size, own.schedule.warmup_steps) == (3, 8, 20)
    assert "[quick] has both" in refusal(tmp_path, HEAD + "[quick]\nsteps = 3\nepochs = 1\n" + LAYERS)


def test_the_mark_that_some_editors_begin_a_file_with_is_no_part_of_it(tmp_path):
    assert workloads.find(write(tmp_path, "\ufeff" + HEAD + LAYERS)).name == "cnn-tiny"


def test_a_summary_says_what_a_table_needs():
    summary = workloads.summarise(workloads.find("mlp-mnist"))
    assert (summary.dataset, summary.optimizer, summary.warmup, summary.measured) == (
        "mnist",
        "Adam",
        "1 epoch",
        "20 epochs",
    )
    assert (summary.epochs, summary.steps, summary.parameter_count) == (20, None, 407050)
    again = workload_pb2.Workload.FromString(bytes.fromhex(summary.message))
    assert again == workloads.find("mlp-mnist")
