"""Preparation: every layout read, every rule of the preprocessing, the cache, the fallback, and what is refused."""

import hashlib
import io

import numpy as np
import pytest
from trainyard import graph

from controller.catalog import workloads
from controller.datasets import blobs, prepare, synthetic, text
from controller.errors import DatasetError, UsageError
from controller.events import DataProgress, Note
from tests.unit.controller.dataset_files import cifar10, cifar10_jpeg, imdb, imdb_half, mnist, pin, serving

REVIEWS = [[1, 2, 1, 2], [3], [2, 1, 9], [1, 2]]  # word ranks


def run(workload, tmp_path, data_dir="data"):
    """(Prepared, its arrays, the events)"""
    events = []
    folder = None if data_dir is None else tmp_path / data_dir
    prepared = prepare.prepare(workload, data_dir=folder, cache=tmp_path / "cache", observer=events.append)
    arrays = {}
    for role, digest in prepared.arrays.items():
        path = prepared.blobs / f"{digest}.npy"
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
        arrays[role] = np.load(path, allow_pickle=False)
    graph.parse(prepared.workload)
    return prepared, arrays, events


def small(name, batch_size=1):
    return workloads.override(workloads.find(name), batch_size=batch_size)


def imdb_workload(vocabulary, maxlen, bigrams, embedding=None):
    workload = small("fasttext-imdb")
    options = workload.dataset.imdb
    options.vocabulary, options.maxlen, options.bigrams = vocabulary, maxlen, bigrams
    workload.layers[0].embedding.vocabulary = embedding or vocabulary
    return workload


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


# --- .npy files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3,), (3, 28, 28, 1), (3, 2), (1000, 1)])
@pytest.mark.parametrize("dtype", [blobs.FLOAT, blobs.INTEGER])
def test_blobs_are_npy_files_of_version_1_that_numpy_reads(tmp_path, shape, dtype):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    blob = blobs.write(tmp_path, blobs.Blocks(shape, dtype, [array[:1], array[1:]]))
    content = blobs.path(tmp_path, blob.sha256).read_bytes()
    assert content[:8] == b"\x93NUMPY\x01\x00"
    assert (len(content) - array.nbytes) % 64 == 0
    assert len(content) == blob.size_bytes
    loaded = np.load(io.BytesIO(content), allow_pickle=False)
    assert loaded.dtype == array.dtype
    np.testing.assert_array_equal(loaded, array)
    assert len(list(tmp_path.iterdir())) == 1


def test_an_array_that_breaks_off_leaves_nothing(tmp_path):
    def parts():
        yield np.zeros((1, 4))
        raise DatasetError("broken")

    with pytest.raises(DatasetError):
        blobs.write(tmp_path, blobs.Blocks((2, 4), blobs.FLOAT, parts()))
    with pytest.raises(ValueError, match="got 1 rows"):
        blobs.write(tmp_path, blobs.Blocks((2, 4), blobs.FLOAT, [np.zeros((1, 4))]))
    assert not list(tmp_path.iterdir())


# --- pictures ----------------------------------------------------------------------------------------------


def test_mnist_is_scaled_and_gets_a_channel(tmp_path, data, monkeypatch):
    raw = mnist(data, monkeypatch)
    prepared, arrays, events = run(small("mlp-mnist"), tmp_path)
    assert arrays["x_train"].dtype == np.float32
    assert arrays["x_train"].shape == (40, 28, 28, 1)
    np.testing.assert_array_equal(arrays["x_test"][..., 0], raw["x_test"].astype(np.float32) / np.float32(255))
    assert arrays["y_train"].dtype == np.int32
    np.testing.assert_array_equal(arrays["y_train"], raw["y_train"])
    assert prepared.note is None
    assert prepared.workload == small("mlp-mnist")
    assert [event.state for event in events][-1] == "done"
    assert any(event.fraction == 1.0 for event in events)


def test_cifar10_planes_become_channels(tmp_path, data, monkeypatch):
    cifar10(data)
    pin(monkeypatch, "cifar10", data / "cifar-10-python.tar.gz")
    prepared, arrays, _ = run(small("resnet50-cifar10"), tmp_path)
    assert arrays["x_train"].shape == (10, 32, 32, 3)
    np.testing.assert_array_equal(arrays["x_train"][0, 5, 7], [1, 0, 0])
    np.testing.assert_array_equal(arrays["x_test"][1, 31, 0], np.array([0, 0, 0.2], np.float32))
    np.testing.assert_array_equal(arrays["y_train"], [3, 7] * 5)
    assert prepared.note is None


def test_an_archive_of_pickles_that_is_not_the_canonical_one_is_never_opened(tmp_path, data, monkeypatch):
    cifar10(data)
    imdb(data, REVIEWS, REVIEWS)
    monkeypatch.setattr("pickle.load", lambda *arguments, **options: pytest.fail("unpickled"))
    for name, file in (("resnet50-cifar10", "cifar-10-python.tar.gz"), ("bilstm-imdb", "imdb.npz")):
        with pytest.raises(DatasetError) as caught:
            run(small(name), tmp_path)
        assert "not the canonical file" in caught.value.line()
        assert hashlib.sha256((data / file).read_bytes()).hexdigest() in caught.value.line()


def test_cifar10_as_jpeg_is_taken_with_a_note(tmp_path, data):
    cifar10_jpeg(data)
    prepared, arrays, _ = run(small("resnet50-cifar10"), tmp_path)
    assert arrays["x_train"].shape == (2, 32, 32, 3)
    np.testing.assert_allclose(arrays["x_train"][:, 0, 0, 0], [0, 1], atol=0.01)
    np.testing.assert_allclose(arrays["x_test"], 128 / 255, atol=0.01)
    np.testing.assert_array_equal(arrays["y_train"], [1, 3])
    assert "JPEG" in prepared.note
    assert "cifar10-jpeg.npz" in prepared.source


def test_augmentation_is_not_in_the_arrays(tmp_path, data, monkeypatch):
    cifar10(data)
    pin(monkeypatch, "cifar10", data / "cifar-10-python.tar.gz")
    plain, _, _ = run(small("resnet50-cifar10"), tmp_path)
    augmented, _, events = run(small("cnn-cifar10"), tmp_path)
    assert augmented.arrays == plain.arrays
    assert events == [DataProgress("cifar10", "ready")]


# --- text --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [imdb_half, imdb])
def test_reviews_become_padded_word_numbers(tmp_path, data, monkeypatch, write):
    write(data, REVIEWS, REVIEWS[:2])
    pin(monkeypatch, "imdb", data / "imdb.npz")
    prepared, arrays, _ = run(imdb_workload(6, 4, bigrams=False), tmp_path)
    # number 1 starts; rank r is r + 3; ranks 3 and 9 are not below 6, so they are number 2; cut at the front
    np.testing.assert_array_equal(arrays["x_train"], [[4, 5, 4, 5], [0, 0, 1, 2], [1, 5, 4, 2], [0, 1, 4, 5]])
    np.testing.assert_array_equal(arrays["x_test"], [[4, 5, 4, 5], [0, 0, 1, 2]])
    np.testing.assert_array_equal(arrays["y_train"], [0, 1, 0, 1])
    assert arrays["x_train"].dtype == arrays["y_train"].dtype == np.int32
    assert (prepared.note is None) == (write is imdb)


def test_bigrams_are_numbered_by_the_pair_and_size_the_embedding(tmp_path, data):
    imdb_half(data, REVIEWS, [[2, 2, 1]])
    asked = imdb_workload(6, 8, bigrams=True)
    prepared, arrays, _ = run(asked, tmp_path)
    # pairs in training: (1,4) (4,5) (5,4) | (1,2) | (1,5) (5,4) (4,2) | (1,4) (4,5); sorted:
    pairs = [(1, 2), (1, 4), (1, 5), (4, 2), (4, 5), (5, 4)]
    number = {pair: 6 + place for place, pair in enumerate(pairs)}
    np.testing.assert_array_equal(arrays["x_train"][3], [0, 0, 0, 1, 4, 5, number[1, 4], number[4, 5]])
    np.testing.assert_array_equal(
        arrays["x_train"][0], [4, 5, 4, 5, number[1, 4], number[4, 5], number[5, 4], number[4, 5]]
    )
    # (5, 5) was never seen in training
    np.testing.assert_array_equal(arrays["x_test"][0], [0, 0, 1, 5, 5, 4, number[1, 5], number[5, 4]])
    assert prepared.workload.layers[0].embedding.vocabulary == 12
    assert asked.layers[0].embedding.vocabulary == 6, "the workload asked for is not touched"
    assert workloads.summarise(prepared.workload).digest != workloads.summarise(asked).digest
    again, _, events = run(asked, tmp_path)
    assert again == prepared
    assert events == [DataProgress("imdb", "ready")]


def test_an_embedding_too_small_for_the_bigrams_is_refused_with_both_numbers(tmp_path, data):
    imdb_half(data, REVIEWS, REVIEWS)
    with pytest.raises(UsageError, match=r"layer tokens: a vocabulary of 9 cannot hold the 12 words and bigrams"):
        run(imdb_workload(6, 8, bigrams=True, embedding=9), tmp_path)
    prepared, _, _ = run(imdb_workload(6, 8, bigrams=True, embedding=50), tmp_path)
    assert prepared.workload.layers[0].embedding.vocabulary == 50


def test_windows_are_one_hot_with_the_character_that_follows(tmp_path, data, monkeypatch):
    characters = [chr(ord("0") + place) for place in range(57 + 26) if not chr(ord("0") + place).isupper()]
    path = data / "nietzsche.txt"
    path.write_text("".join(characters) + "AbC", encoding="utf-8")
    pin(monkeypatch, "nietzsche", path)
    workload = small("lstm-nietzsche")
    prepared, arrays, _ = run(workload, tmp_path)
    assert arrays["x_train"].shape == (7, 40, 57)  # starts 0, 3, ... 18 of 60 characters
    assert arrays["x_train"].dtype == np.float32
    np.testing.assert_array_equal(arrays["x_train"].sum(axis=-1), 1)
    numbers = arrays["x_train"].argmax(axis=-1)
    np.testing.assert_array_equal(numbers[1][:5], [3, 4, 5, 6, 7])
    np.testing.assert_array_equal(arrays["y_train"], [*range(40, 57, 3), characters.index("b")])
    assert "no held-out part" in prepared.note


def test_a_text_with_other_characters_is_refused(tmp_path, data, monkeypatch):
    path = data / "nietzsche.txt"
    path.write_text("only a few letters " * 9, encoding="utf-8")
    with pytest.raises(DatasetError, match="not the canonical text"):
        run(small("lstm-nietzsche"), tmp_path)
    pin(monkeypatch, "nietzsche", path)
    with pytest.raises(DatasetError, match="different characters, not 57"):
        run(small("lstm-nietzsche"), tmp_path)


def test_at_most_ten_thousand_windows_are_evaluated():
    numbers = (np.arange(60_000) % 57).astype(np.uint8)
    made = text.window_blocks(numbers, 40, 3)
    assert made["x_train"].shape[0] == 19_987
    assert 9_000 <= made["x_test"].shape[0] <= 10_000


# --- what is refused ---------------------------------------------------------------------------------------


def test_a_folder_without_the_file_is_an_error_and_no_fallback(tmp_path, data):
    with pytest.raises(DatasetError, match=r"has no mnist\.npz"):
        run(small("mlp-mnist"), tmp_path)
    with pytest.raises(DatasetError, match=r"no cifar-10-python\.tar\.gz or cifar10-jpeg\.npz"):
        run(small("cnn-cifar10"), tmp_path)
    with pytest.raises(UsageError, match="is not a folder"):
        run(small("mlp-mnist"), tmp_path, data_dir="absent")


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "roles"])
def test_a_corrupt_file_is_named_with_both_digests(tmp_path, data, monkeypatch, damage):
    mnist(data, monkeypatch)
    path = data / "mnist.npz"
    content = bytearray(path.read_bytes())
    content[5000] ^= 255
    new = {"cut": content[:9000], "flipped": content, "empty": b"", "text": b"not here", "roles": b""}[damage]
    path.write_bytes(new)
    if damage == "roles":
        np.savez(path, x_train=np.zeros(3, np.uint8))
    with pytest.raises(DatasetError) as caught:
        run(small("mlp-mnist"), tmp_path)
    line = caught.value.line()
    assert "mnist.npz is corrupt" in line
    assert hashlib.sha256(path.read_bytes()).hexdigest() in line
    assert "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1" in line
    assert not (tmp_path / "cache" / "index").exists()


def test_other_pictures_in_the_layout_of_mnist_are_refused(tmp_path, data, monkeypatch):
    arrays = mnist(data, monkeypatch)
    arrays["x_train"] = arrays["x_train"].copy()
    arrays["x_train"][3, 4, 5] ^= 1
    np.savez(data / "mnist.npz", **arrays)
    with pytest.raises(DatasetError, match="does not hold MNIST"):
        run(small("mlp-mnist"), tmp_path)


def test_mnist_packed_otherwise_is_accepted(tmp_path, data, monkeypatch):
    arrays = mnist(data, monkeypatch)
    first, _, _ = run(small("mlp-mnist"), tmp_path)
    np.savez_compressed(data / "mnist.npz", **arrays)
    second, _, _ = run(small("mlp-mnist"), tmp_path)
    assert second.arrays == first.arrays
    assert second.source != first.source


@pytest.mark.parametrize("array", ["train_offset", "train_words", "y_train"])
def test_reviews_that_do_not_fit_each_other_are_refused(tmp_path, data, array):
    imdb_half(data, REVIEWS, REVIEWS)
    with np.load(data / "imdb-half.npz") as archive:
        arrays = dict(archive)
    arrays[array] = arrays[array][:-1]
    np.savez(data / "imdb-half.npz", **arrays)
    with pytest.raises(DatasetError, match=r"imdb-half\.npz is corrupt"):
        run(imdb_workload(6, 4, bigrams=False), tmp_path)


def test_a_batch_larger_than_the_data_is_a_usage_error(tmp_path, data, monkeypatch):
    mnist(data, monkeypatch)
    with pytest.raises(UsageError, match="41 is more than the 40 training samples"):
        run(small("mlp-mnist", batch_size=41), tmp_path)


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path, data, monkeypatch):
    mnist(data, monkeypatch)
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(DatasetError, match="cannot write to"):
        run(small("mlp-mnist"), tmp_path)


# --- cache, download, fallback -----------------------------------------------------------------------------


def test_a_second_run_reads_nothing_again(tmp_path, data, monkeypatch):
    mnist(data, monkeypatch)
    first, _, _ = run(small("mlp-mnist"), tmp_path)
    monkeypatch.setattr(prepare.pictures, "read_mnist", lambda found: pytest.fail("read again"))
    second, _, events = run(small("mlp-mnist", batch_size=4), tmp_path)
    assert second.arrays == first.arrays
    assert events == [DataProgress("mnist", "ready")]


@pytest.mark.parametrize("damage", ["blob gone", "blob cut", "index damaged"])
def test_a_damaged_cache_is_made_again(tmp_path, data, monkeypatch, damage):
    mnist(data, monkeypatch)
    first, _, _ = run(small("mlp-mnist"), tmp_path)
    blob = first.blobs / f"{first.arrays['x_train']}.npy"
    if damage == "blob gone":
        blob.unlink()
    elif damage == "blob cut":
        blob.write_bytes(blob.read_bytes()[:-1])
    else:
        next((tmp_path / "cache" / "index").iterdir()).write_text("{")
    second, _, events = run(small("mlp-mnist"), tmp_path)
    assert second == first
    assert events[-1].state == "done"


def test_a_download_is_cached_and_a_damaged_one_fetched_again(tmp_path, data, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    mnist(data, monkeypatch)
    content = (data / "mnist.npz").read_bytes()
    with serving(content) as server:
        pin(monkeypatch, "mnist", data / "mnist.npz", server.url)
        first, _, events = run(small("mlp-mnist"), tmp_path, data_dir=None)
        assert any(getattr(event, "stage", "").startswith("downloading") for event in events)
        again, _, _ = run(small("mlp-mnist"), tmp_path, data_dir=None)
        assert len(server.requests) == 1
        (tmp_path / "cache" / "sources" / "mnist.npz").write_bytes(content[:-1])
        third, _, events = run(small("mlp-mnist"), tmp_path, data_dir=None)
        assert len(server.requests) == 2
    assert first == again == third
    assert first.note is None
    assert any(isinstance(event, Note) and "damaged" in event.text for event in events)


@pytest.mark.parametrize("name", ["mlp-mnist", "cnn-cifar10", "bilstm-imdb", "fasttext-imdb", "lstm-nietzsche"])
def test_without_internet_synthetic_data_of_the_same_shapes_stands_in_and_says_so(tmp_path, monkeypatch, name):
    def nothing(*arguments):
        raise prepare.UnreachableError("no internet")

    def fewer(dataset, like=synthetic._like):
        options = like(dataset)
        options.samples, options.test_samples = 50, 20
        return options

    monkeypatch.setattr(prepare, "download", nothing)
    sizes = synthetic._like(workloads.find(name).dataset)
    assert sizes.samples == {"mlp-mnist": 60_000, "cnn-cifar10": 50_000, "lstm-nietzsche": 200_285}.get(name, 25_000)
    monkeypatch.setattr(synthetic, "_like", fewer)
    asked = small(name)
    prepared, arrays, _ = run(asked, tmp_path, data_dir=None)
    assert "synthetic data in place of" in prepared.note
    assert "no internet" in prepared.note
    assert "--data-dir" in prepared.note
    assert graph.input_shape(prepared.workload.dataset) == graph.input_shape(asked.dataset)
    assert workloads.summarise(prepared.workload).dataset.startswith("synthetic")
    assert workloads.summarise(prepared.workload).digest != workloads.summarise(asked).digest
    if arrays["x_train"].dtype == np.int32:
        assert arrays["x_train"].max() < prepared.workload.layers[0].embedding.vocabulary
