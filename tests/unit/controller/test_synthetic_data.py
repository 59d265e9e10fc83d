"""Synthetic data: the same bytes as ever, whatever the parts; it can be learned, though not to the last sample."""

import numpy as np
import pytest
from trainyard.v1.workload_pb2 import Synthetic

from controller.datasets import blobs, synthetic


def gather(made):
    return {role: np.concatenate(list(block.parts)) for role, block in made.items()}


@pytest.mark.parametrize(
    ("shape", "vocabulary", "x_train", "y_train"),
    [((5, 6, 2), 0, "3e2de3829d9d2c47", "6a0c6eb616802318"), ((9,), 100, "395732cc797c4590", "6a0c6eb616802318")],
)
def test_synthetic_data_are_the_same_bytes_as_ever(tmp_path, shape, vocabulary, x_train, y_train):
    options = Synthetic(shape=shape, classes=3, samples=40, test_samples=9, vocabulary=vocabulary)
    digests = {role: blobs.write(tmp_path, block).sha256[:16] for role, block in synthetic.blocks(options).items()}
    assert (digests["x_train"], digests["y_train"]) == (x_train, y_train)


def test_synthetic_arrays_do_not_depend_on_how_they_are_cut(monkeypatch):
    for vocabulary in (0, 100):
        options = Synthetic(shape=(7,), classes=3, samples=100, test_samples=9, vocabulary=vocabulary)
        whole = gather(synthetic.blocks(options))
        monkeypatch.setattr(blobs, "PART_BYTES", 200)
        pieces = gather(synthetic.blocks(options))
        monkeypatch.undo()
        for role, array in whole.items():
            np.testing.assert_array_equal(array, pieces[role])


def test_synthetic_features_can_be_learned_but_not_to_the_last_one():
    options = Synthetic(shape=(12, 12, 1), classes=5, samples=2000, test_samples=2000)
    made = gather(synthetic.blocks(options))
    assert 0 <= made["x_train"].min() < made["x_train"].max() < 1
    means = np.stack([made["x_train"][made["y_train"] == label].mean(axis=0) for label in range(5)])
    distances = ((made["x_test"][:, np.newaxis] - means) ** 2).sum(axis=(2, 3, 4))
    assert 0.93 < (distances.argmin(axis=1) == made["y_test"]).mean() < 0.99


def test_synthetic_tokens_can_be_learned():
    options = Synthetic(shape=(60,), classes=2, samples=2000, test_samples=2000, vocabulary=500)
    made = gather(synthetic.blocks(options))
    assert made["x_train"].dtype.kind == "i"
    assert made["x_train"].min() >= 0 and made["x_train"].max() < 500
    counts = np.stack(
        [np.bincount(made["x_train"][made["y_train"] == label].ravel(), minlength=500) + 1.0 for label in (0, 1)]
    )
    odds = np.log(counts[1] / counts[1].sum()) - np.log(counts[0] / counts[0].sum())
    guessed = odds[made["x_test"]].sum(axis=1) > 0
    assert 0.9 < (guessed == made["y_test"]).mean() < 0.99
