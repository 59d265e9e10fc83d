"""The ten workloads of the catalog: pinned bytes, parameter counts, nothing left to a default."""

import tomllib

import pytest
from trainyard import graph

from controller.catalog import resnet, workload_file, workloads

# SHA-256 of the serialized message. A change here changes what every stored result is comparable with.
DIGESTS = {
    "bilstm-imdb": "58e178895c9cc834434c8e083e44f186e68f1d279e2070767aabd586302b960a",
    "cnn-cifar10": "dc1581db1544373a9c3622969b7aa0f00e2f4034c38af115dc61ad919b038825",
    "cnn-mnist": "e74b0ddc16335998858d21605e996c635e102a920988a7fd551c4df54a7693a3",
    "fasttext-imdb": "4ae94041ab2415118e04a760ea2502b4d34880627b3452390689835a23df592a",
    "lstm-nietzsche": "f452b53031d34bc59c82f9bcadbed6426f22c4bec2d1999e3b247aafc454426c",
    "mlp-mnist": "e65dbea17ebd13b84483d4fef0006b85d63c6356c36a5a8c31d963e71f83da40",
    "mlp2-mnist": "fe2f5087b03e15ea9ec9844b08b45066bda572ab51f8c9e649a1165fe0db92eb",
    "resnet152-random": "ba649989491b8ee1bf9c790b2fc77cc92d1e7c7e106c6af5873f6e82187658d7",
    "resnet50-cifar10": "7e32111bef0cbb7158a2e2331dea12d979f9b6defa453be1e9ff1753cad8a38d",
    "resnet50-cifar10-b8": "a2d01460bd78a6e0d6a584184a63c9d4dcbc7b5cc37995a515c882e0d6a80a20",
}
# As published, or as the public definitions of the models give them; fasttext-imdb with words alone.
PARAMETERS = {
    "mlp-mnist": 407_050,
    "resnet50-cifar10": 23_528_522,
    "resnet50-cifar10-b8": 23_528_522,
    "resnet152-random": 58_164_298,
    "bilstm-imdb": 2_658_945,
    "fasttext-imdb": 1_000_051,
    "mlp2-mnist": 669_706,
    "cnn-mnist": 1_199_882,
    "cnn-cifar10": 1_250_858,
    "lstm-nietzsche": 102_585,
}


def test_the_catalog_has_the_ten_workloads():
    assert set(workloads.names()) == set(DIGESTS) == set(PARAMETERS)


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_the_request_is_the_same_bytes_as_ever(name):
    workload = workloads.find(name)
    assert workload.name == name
    summary = workloads.summarise(workload)
    assert summary.digest == DIGESTS[name]
    assert summary.parameter_count == PARAMETERS[name]


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_the_quick_form_is_shorter_and_another_workload(name):
    full, quick = workloads.find(name), workloads.find(name, quick=True)
    assert workloads.serialise(full) != workloads.serialise(quick)
    warmup, measured, _ = graph.step_counts(full.schedule, 25_000)
    quick_warmup, quick_measured, _ = graph.step_counts(quick.schedule, 25_000)
    assert quick_warmup <= warmup
    assert quick_measured < measured


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_every_hyper_parameter_is_written_out(name):
    data = tomllib.loads((workloads.MODELS / f"{name}.toml").read_text(encoding="utf-8"))
    optimizer = data["optimizer"]
    assert set(optimizer) == set(workload_file.OPTIMIZERS[optimizer["name"]].model_fields)
    if isinstance(data["dataset"], dict):
        assert set(data["dataset"]) == set(workload_file.DATASETS[data["dataset"]["name"]].model_fields)
    for layer in data.get("layer", ()):
        assert set(layer) == set(workload_file.LAYERS[layer["op"]].model_fields) - {"inputs"}
    if "model" in data:
        assert set(data["model"]) == set(workload_file.ResnetModel.model_fields)
    assert {"description", "seed", "quick"} <= set(data)


@pytest.mark.parametrize(
    ("depth", "classes", "parameters"),
    [
        (50, 1000, 25_557_032),
        (50, 10, 23_528_522),
        (101, 1000, 44_549_160),
        (152, 1000, 60_192_808),
        (152, 10, 58_164_298),
    ],
)
def test_residual_networks_have_the_published_number_of_parameters(depth, classes, parameters):
    workload = workloads.find("resnet152-random")
    del workload.layers[:]
    workload.layers.extend(resnet.resnet(depth, classes, width=64, epsilon=1e-5, momentum=0.9))
    model = graph.parse(workload)
    assert model.parameter_count == parameters
    assert sum(node.op == "conv2d" for node in model.nodes) == depth - 1 + 4, "all but the last layer; 4 shortcuts"


def test_residual_networks_stride_in_the_3x3_and_have_no_convolution_bias():
    model = graph.parse(workloads.find("resnet152-random"))
    shapes = {node.name: node.shape for node in model.nodes}
    assert shapes["stem_conv"] == (112, 112, 64)
    assert shapes["stem_pool"] == (56, 56, 64)
    assert [shapes[f"stage{n}_block1_relu3"] for n in (1, 2, 3, 4)] == [
        (56, 56, 256),
        (28, 28, 512),
        (14, 14, 1024),
        (7, 7, 2048),
    ]
    for node in model.nodes:
        if node.op == "conv2d":
            assert not node.fields.use_bias
            if node.fields.stride_height == 2:
                assert node.fields.kernel_height in (3, 7) or node.name.endswith("shortcut")
