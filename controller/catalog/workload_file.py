"""The workload file: what may stand in it, as pydantic models, and how it becomes a Workload message.

The models mirror ``workload.proto`` and hold its documented defaults; the mathematics is checked afterwards by
``trainyard.graph``. The whole language is described in docs/workload-files.md.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from trainyard.v1 import workload_pb2
from trainyard.v1.workload_pb2 import Dataset, Layer, Optimizer, Schedule, Workload

from controller.catalog.resnet import resnet

LARGEST = 2**31 - 1
MAX_TEST_SAMPLES = 10_000

Count = Annotated[int, Field(ge=1, le=LARGEST)]
Window = Count | Annotated[list[Count], Field(min_length=2, max_length=2)]
Padding = Literal["valid", "same"]
Gate = Literal["sigmoid", "hard_sigmoid"]

PADDINGS = {"valid": workload_pb2.PADDING_VALID, "same": workload_pb2.PADDING_SAME}
GATES = {
    "sigmoid": workload_pb2.RECURRENT_ACTIVATION_SIGMOID,
    "hard_sigmoid": workload_pb2.RECURRENT_ACTIVATION_HARD_SIGMOID,
}


class Strict(BaseModel):
    """Unknown keys and values of another type are errors, never guesses."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


# --- layers ------------------------------------------------------------------------------------------------


class AnyLayer(Strict):
    """Keys that every layer has. ``inputs`` defaults to the layer before."""

    op: str
    name: str | None = None
    inputs: list[str] | None = None


class DenseLayer(AnyLayer):
    units: Count
    use_bias: bool = True


class ConvolutionLayer(AnyLayer):
    filters: Count
    kernel: Window
    stride: Window = 1
    padding: Padding = "valid"
    use_bias: bool = True


class BatchNormLayer(AnyLayer):
    epsilon: float = 1e-3
    momentum: float = 0.99


class PoolLayer(AnyLayer):
    size: Window
    stride: Window | None = None  # the size
    padding: Padding = "valid"


class DropoutLayer(AnyLayer):
    rate: float


class EmbeddingLayer(AnyLayer):
    vocabulary: Count | Literal["dataset"]
    dim: Count


class LstmLayer(AnyLayer):
    units: Count
    return_sequences: bool = False
    recurrent_activation: Gate = "sigmoid"


LAYERS: dict[str, type[AnyLayer]] = {
    "dense": DenseLayer,
    "conv2d": ConvolutionLayer,
    "batch_norm": BatchNormLayer,
    "relu": AnyLayer,
    "sigmoid": AnyLayer,
    "tanh": AnyLayer,
    "softmax": AnyLayer,
    "flatten": AnyLayer,
    "add": AnyLayer,
    "concat": AnyLayer,
    "max_pool2d": PoolLayer,
    "avg_pool2d": PoolLayer,
    "global_avg_pool1d": AnyLayer,
    "global_avg_pool2d": AnyLayer,
    "dropout": DropoutLayer,
    "embedding": EmbeddingLayer,
    "lstm": LstmLayer,
    "bidirectional_lstm": LstmLayer,
}


class ResnetModel(Strict):
    """``[model]`` in place of layers; see ``controller.catalog.resnet``."""

    resnet: Literal[50, 101, 152]
    classes: Count
    width: Count = 64
    batch_norm_epsilon: float
    batch_norm_momentum: float

    def layers(self) -> list[Layer]:
        return resnet(
            self.resnet,
            self.classes,
            width=self.width,
            epsilon=self.batch_norm_epsilon,
            momentum=self.batch_norm_momentum,
        )


# --- datasets ----------------------------------------------------------------------------------------------


class AnyDataset(Strict):
    """Keys that every dataset has."""

    name: str


class Cifar10Dataset(AnyDataset):
    augment: Literal["none", "shift-flip"] = "none"


class ImdbDataset(AnyDataset):
    vocabulary: Count = 20_000
    maxlen: Count = 100
    bigrams: bool = False


class NietzscheDataset(AnyDataset):
    maxlen: Count = 40
    step: Count = 3


class SyntheticDataset(AnyDataset):
    shape: list[Count]
    classes: Count
    samples: Count
    test_samples: Count | None = None  # as many as samples, at most MAX_TEST_SAMPLES
    vocabulary: Annotated[int, Field(ge=0, le=LARGEST)] = 0


DATASETS: dict[str, type[AnyDataset]] = {
    "mnist": AnyDataset,
    "cifar10": Cifar10Dataset,
    "imdb": ImdbDataset,
    "nietzsche": NietzscheDataset,
    "synthetic": SyntheticDataset,
}


# --- optimizers --------------------------------------------------------------------------------------------


class AnyOptimizer(Strict):
    """Keys that every optimizer has."""

    name: str
    learning_rate: float
    decay: float = 0.0


class SgdOptimizer(AnyOptimizer):
    momentum: float = 0.0
    nesterov: bool = False


class AdamOptimizer(AnyOptimizer):
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7


class RmsPropOptimizer(AnyOptimizer):
    rho: float = 0.9
    momentum: float = 0.0
    centered: bool = False
    epsilon: float = 1e-7


class AdadeltaOptimizer(AnyOptimizer):
    rho: float = 0.95
    epsilon: float = 1e-7


OPTIMIZERS: dict[str, type[AnyOptimizer]] = {
    "sgd": SgdOptimizer,
    "adam": AdamOptimizer,
    "rmsprop": RmsPropOptimizer,
    "adadelta": AdadeltaOptimizer,
}


# --- the rest ----------------------------------------------------------------------------------------------


class QuickTable(Strict):
    """``[quick]``: what ``--quick`` puts in place of the schedule's own numbers."""

    batch_size: Count | None = None
    warmup_steps: Count | None = None
    warmup_epochs: Count | None = None
    steps: Count | None = None
    epochs: Count | None = None


class ScheduleTable(QuickTable):
    batch_size: Count


class FileTable(Strict):
    """The whole file; its tables are checked one by one, each against the model that its name or op selects."""

    name: str
    description: str = ""
    dataset: str | dict[str, Any]
    loss: Literal["sparse_categorical_crossentropy", "binary_crossentropy"]
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    optimizer: dict[str, Any]
    schedule: dict[str, Any]
    quick: dict[str, Any] | None = None
    model: dict[str, Any] | None = None
    layer: list[dict[str, Any]] | None = None


# --- to messages -------------------------------------------------------------------------------------------


def layer_messages(tables: list[AnyLayer], dataset: Dataset) -> list[Layer]:
    """Layers with their names, inputs and every default filled in."""
    messages: list[Layer] = []
    counts: dict[str, int] = {}
    for table in tables:
        counts[table.op] = counts.get(table.op, 0) + 1
        before = messages[-1].name if messages else "input"
        name = f"{table.op}_{counts[table.op]}" if table.name is None else table.name
        message = Layer(name=name, inputs=[before] if table.inputs is None else table.inputs)
        fields = getattr(message, table.op)
        fields.SetInParent()
        for key, value in table:
            if key not in AnyLayer.model_fields:
                _set_field(fields, key, _resolved(table, key, value, dataset))
        messages.append(message)
    return messages


def _resolved(table: AnyLayer, key: str, value: Any, dataset: Dataset) -> Any:
    if isinstance(table, PoolLayer) and key == "stride" and value is None:
        return table.size
    if isinstance(table, EmbeddingLayer) and value == "dataset":
        kind = dataset.WhichOneof("kind")
        # With bigrams the preparation of the data raises this to the number of words and pairs.
        return getattr(getattr(dataset, kind), "vocabulary", 0) or 1
    return value


def _set_field(fields: Any, key: str, value: Any) -> None:
    if key in ("kernel", "size", "stride"):
        height, width = value if isinstance(value, list) else (value, value)
        setattr(fields, f"{key}_height", height)
        setattr(fields, f"{key}_width", width)
    elif key == "padding":
        fields.padding = PADDINGS[value]
    elif key == "recurrent_activation":
        fields.recurrent_activation = GATES[value]
    else:
        setattr(fields, key, value)


def dataset_message(table: AnyDataset) -> Dataset:
    """The Dataset message with every default filled in."""
    message = Dataset()
    options = getattr(message, table.name)
    options.SetInParent()
    values = table.model_dump(exclude={"name"})
    if isinstance(table, SyntheticDataset):
        options.shape.extend(values.pop("shape"))
        if table.test_samples is None:
            values["test_samples"] = min(table.samples, MAX_TEST_SAMPLES)
    for key, value in values.items():
        setattr(options, key, value)
    return message


def optimizer_message(table: AnyOptimizer) -> Optimizer:
    """The Optimizer message with every default filled in."""
    message = Optimizer(learning_rate=table.learning_rate, decay=table.decay)
    options = getattr(message, table.name)
    options.SetInParent()
    for key, value in table.model_dump(exclude=set(AnyOptimizer.model_fields)).items():
        setattr(options, key, value)
    return message


def schedule_message(table: QuickTable) -> Schedule:
    """The Schedule message; which keys exclude each other is checked before."""
    return Schedule(**table.model_dump(exclude_none=True))


def workload_message(
    table: FileTable, layers: list[Layer], dataset: Dataset, optimizer: Optimizer, schedule: Schedule
) -> Workload:
    """All parts as one Workload message."""
    return Workload(
        name=table.name,
        dataset=dataset,
        layers=layers,
        optimizer=optimizer,
        loss=table.loss,
        schedule=schedule,
        seed=table.seed,
    )
