"""Augmentation: what workload.proto says, the same for every way of cutting samples into batches."""

import pickle

import numpy as np
import pytest
from trainyard import graph
from trainyard.v1 import workload_pb2

from controller.catalog import workloads
from runners.core import augmentation, trial

SAMPLES = 400


def pictures(count=SAMPLES):
    """Every pixel is another number, so that each can be found again."""
    return np.arange(count * 32 * 32 * 3, dtype=np.float32).reshape(count, 32, 32, 3)


def source_of(name):
    model = graph.parse(workloads.find(name))
    arrays = {"x_train": pictures(), "y_train": np.zeros(SAMPLES, np.int32)}
    return trial.training_source(model, arrays, workload_pb2.Variant(pipeline="native", prefetch=1))


def test_an_augmented_workload_is_trained_on_augmented_pictures():
    source = source_of("cnn-cifar10")
    indices = np.arange(SAMPLES)
    x, _ = source.take(0, indices)
    assert x.dtype == np.float32 and x.shape == source.x.shape
    assert not np.array_equal(x, source.x)
    assert not np.array_equal(x, source.take(1, indices)[0])
    assert source_of("resnet50-cifar10").transform is None


def test_a_picture_does_not_depend_on_its_batch():
    whole = source_of("cnn-cifar10").take(3, np.arange(SAMPLES))[0]
    # A framework may hand over numbers of its own kind, and unpickle the source in a worker.
    transform = pickle.loads(pickle.dumps(source_of("cnn-cifar10").transform))
    some = np.array([7, 399, 0], np.int64)
    assert np.array_equal(transform(pictures()[some], np.int64(3), some), whole[some])


def test_pictures_are_moved_by_up_to_a_tenth_and_half_of_them_mirrored():
    x = pictures()
    found = augmentation.ShiftFlip(7, SAMPLES)(x, 0, np.arange(SAMPLES))
    shifts, mirrored = set(), 0
    for before, after in zip(x, found, strict=True):
        candidates = {
            (down, right, mirror): moved(before, down, right, mirror)
            for down in range(-3, 4)
            for right in range(-3, 4)
            for mirror in (False, True)
        }
        matches = [key for key, wanted in candidates.items() if np.array_equal(wanted, after)]
        assert len(matches) == 1
        shifts.add(matches[0][:2])
        mirrored += matches[0][2]
    assert len(shifts) == 49
    assert mirrored / SAMPLES == pytest.approx(0.5, abs=0.1)


def moved(picture, down, right, mirror):
    """Written the other way round: a padded picture is cut out."""
    padded = np.pad(picture, ((3, 3), (3, 3), (0, 0)), "edge")
    cut = padded[3 - down : 35 - down, 3 - right : 35 - right]
    return cut[:, ::-1] if mirror else cut
