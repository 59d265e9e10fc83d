"""The real files of ../shared/data, where a checkout has them beside it: known digests, counts and sizes."""

import shutil

import numpy as np
import pytest

from controller.catalog import workloads
from controller.datasets import pictures, text
from controller.datasets.prepare import prepare
from controller.datasets.sources import in_folder
from tests.unit.controller.dataset_files import real


@pytest.fixture
def scratch(tmp_path):
    """Gone after the test: real arrays are large."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def prepare_real(name, file, folder):
    data_dir = real(file)
    return prepare(workloads.find(name), data_dir=data_dir, cache=folder, observer=lambda event: None)


def test_real_mnist_gives_the_known_arrays(scratch):
    prepared = prepare_real("mlp-mnist", "mnist.npz", scratch)
    assert {role: digest[:16] for role, digest in prepared.arrays.items()} == {
        "x_train": "0e7b7a77b96f2b9b",
        "y_train": "1d47e4b8454fe81c",
        "x_test": "b926f5ceccd1e339",
        "y_test": "75b77adafc8ae509",
    }
    assert prepared.note is None


def test_real_reviews_have_the_known_number_of_bigrams(scratch):
    prepared = prepare_real("fasttext-imdb", "imdb-half.npz", scratch)
    assert prepared.workload.layers[0].embedding.vocabulary == 20_000 + 736_682
    assert "half set" in prepared.note
    x = np.load(prepared.blobs / f"{prepared.arrays['x_train']}.npy", mmap_mode="r")
    assert x.shape == (12_452, 400)
    assert x.max() == 20_000 + 736_682 - 1


def test_the_real_text_has_the_published_number_of_windows():
    folder = real("nietzsche.txt")
    found = in_folder("nietzsche", folder)
    made = text.window_blocks(text.read_nietzsche(found), 40, 3)
    assert made["x_train"].shape == (200_285, 40, 57)


def test_real_cifar10_as_jpeg_is_50000_and_10000_pictures():
    folder = real("cifar10-jpeg.npz")
    pytest.importorskip("PIL")
    found = in_folder("cifar10", folder)
    arrays = pictures.load_arrays(found.path)
    assert np.bincount(arrays["split"]).tolist() == [50_000, 10_000]
    assert np.bincount(arrays["label"][arrays["split"] == 0]).tolist() == [5_000] * 10
    one = pictures._decoded(arrays["jpeg"][: arrays["offset"][1]].tobytes(), found.path, 0)
    assert one.shape == (32, 32, 3)
