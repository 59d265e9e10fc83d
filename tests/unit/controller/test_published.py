"""The published tables: all numbers are there, each belongs to a workload, and the printed ratios come out."""

import pytest

from controller.catalog import published, workloads
from controller.errors import UnknownNameError


def test_every_workload_has_its_published_table_and_the_reverse():
    assert {table.workload for table in published.tables()} == set(workloads.names())
    assert len({table.name for table in published.tables()}) == 10
    assert published.find("ttj-4") is published.find("resnet152-random")
    with pytest.raises(UnknownNameError, match="unknown published table 'ttj-5'"):
        published.find("ttj-5")


def test_every_printed_number_is_there():
    rows = {table.name: len(table.row) for table in published.tables()}
    assert rows == {
        "ttj-1": 3, "ttj-2": 4, "ttj-3": 5, "ttj-4": 3,
        "keras-bilstm-imdb": 10, "keras-fasttext-imdb": 11, "keras-mlp2-mnist": 11,
        "keras-cnn-mnist": 11, "keras-cnn-cifar10": 11, "keras-lstm-nietzsche": 11,
    }  # fmt: skip
    runs = [len(row.seconds) for table in published.tables() for row in table.row if table.name.startswith("ttj")]
    assert sum(runs) == 9 + 8 + 10 + 9


def test_the_schedule_of_each_table_is_the_workloads():
    for table in published.tables():
        schedule = workloads.find(table.workload).schedule
        assert (table.epochs or 0, table.steps or 0) == (schedule.epochs, schedule.steps), table.name


@pytest.mark.parametrize(
    ("name", "framework", "gpu", "printed"),
    [
        ("bilstm-imdb", "Keras on Theano", "GTX Titan X", 3.1),
        ("bilstm-imdb", "Keras on Theano", "GTX 1080 Ti", 1.6),
        ("fasttext-imdb", "Keras on Theano", "Tesla M60", 3.4),
        ("fasttext-imdb", "Keras on CNTK", "Tesla K80", 1.2),
        ("mlp2-mnist", "Keras on Theano", "GTX Titan X", 14.3),
        ("cnn-mnist", "Keras on Theano", "GTX Titan X", 53.6),
        ("cnn-mnist", "Keras on CNTK", "GTX 1080 Ti", 1.1),
        ("cnn-cifar10", "Keras on Theano", "Tesla M60", 16.2),
        ("cnn-cifar10", "Keras on CNTK", "GTX 1080 Ti", 1.7),
        ("lstm-nietzsche", "Keras on Theano", "Tesla M60", 7.3),
        ("lstm-nietzsche", "Keras on TensorFlow", "GTX 1080 Ti", 3.3),
    ],
)
def test_the_ratios_printed_beside_the_times_come_out(name, framework, gpu, printed):
    table = published.find(name)
    (row,) = [row for row in table.row if (row.framework, row.gpu) == (framework, gpu)]
    assert round(table.ratio(row), 1) == printed


def test_what_was_not_the_same_work_is_said():
    assert any("evaluation mode" in note for note in published.find("resnet152-random").notes)
    assert any("divided by 255" in note for note in published.find("resnet50-cifar10").notes)
    assert any("training loss" in note for note in published.find("lstm-nietzsche").notes)
    for table in published.tables():
        assert table.notes
        assert table.source.startswith("https://")
        assert all(0 < row.quality < 1 for row in table.row if table.quality == "accuracy")


def test_medians_and_the_fastest_of_a_machine():
    table = published.find("resnet50-cifar10-b8")
    assert table.best("GTX 1070 Ti", "WSL2").framework == "Jittor"
    assert table.best("GTX 1070 Ti", "Windows 10").framework == "TensorFlow"
    pytorch = next(row for row in table.row if (row.framework, row.host) == ("PyTorch", "WSL2"))
    assert pytorch.median_seconds == 54.5
