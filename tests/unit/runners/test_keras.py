"""What of the Keras runners needs no Keras: windows, models compiled beforehand, shells for MPI."""

import numpy as np
import pytest
from trainyard import graph
from trainyard.v1 import workload_pb2

from runners.keras import prepare_cntk, warm, windows


@pytest.mark.parametrize(
    ("lengths", "size", "steps"), [((5, 6), (3, 3), (1, 1)), ((7, 4), (3, 2), (2, 2)), ((2, 9), (2, 5), (1, 3))]
)
def test_an_average_is_corrected_to_the_values_inside(lengths, size, steps):
    pads = tuple(graph.same_padding(*axis) for axis in zip(lengths, size, steps, strict=True))
    picture = np.random.RandomState(0).uniform(size=lengths)
    found = means(np.pad(picture, pads), size, steps) * windows.correction(lengths, size, steps, pads)[0]
    inside = means(np.pad(picture, pads, constant_values=np.nan), size, steps)
    np.testing.assert_allclose(found, inside, rtol=1e-6)


def means(picture, size, steps):
    """Mean of each window, values that are no numbers left out."""
    rows = range(0, picture.shape[0] - size[0] + 1, steps[0])
    columns = range(0, picture.shape[1] - size[1] + 1, steps[1])
    return np.array([[np.nanmean(picture[r : r + size[0], c : c + size[1]]) for c in columns] for r in rows])


@pytest.mark.parametrize("number", range(len(warm.MODELS)))
def test_every_model_that_is_compiled_beforehand_is_one(number):
    workload = warm._workload(*warm.MODELS[number])
    assert len(graph.parse(workload).nodes) == len(warm.MODELS[number][1])


def test_models_that_are_compiled_beforehand_have_every_optimizer():
    kinds = {warm._workload(*model).optimizer.WhichOneof("kind") for model in warm.MODELS}
    assert kinds == {field.name for field in workload_pb2.Optimizer.DESCRIPTOR.oneofs_by_name["kind"].fields}


def test_names_of_mpi_are_found_in_the_libraries_of_cntk(tmp_path):
    names = [b"", b"MPI_Init", b"memcpy", b"ompi_mpi_float", b"_ZN3MPI3Win4FreeEv", b"MPI_Send", b"no MPI_Name", b""]
    (tmp_path / "libCntk.Core-2.7.so").write_bytes(b"\0".join(names))
    (tmp_path / "other.so").write_bytes(b"\0MPI_Other\0")
    assert prepare_cntk._names(str(tmp_path)) == ["MPI_Init", "MPI_Send", "_ZN3MPI3Win4FreeEv", "ompi_mpi_float"]


def test_libraries_without_mpi_are_not_those_of_cntk(tmp_path):
    (tmp_path / "libCntk.Core-2.7.so").write_bytes(b"\0memcpy\0")
    with pytest.raises(prepare_cntk.Problem, match="no libraries of CNTK"):
        prepare_cntk._names(str(tmp_path))
