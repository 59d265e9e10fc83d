"""The checked-in stubs: made from the .proto files by one generator, and loadable everywhere from the oldest on."""

import os
import subprocess
from pathlib import Path

import pytest
import uv

PROTO = Path(__file__).resolve().parents[3] / "proto"
# The last generator whose stubs load under every protobuf from 3.8 to 7.
GENERATOR = "grpcio-tools==1.48.2"
GENERATOR_PYTHON = "3.10"

# The workload of ROUND_TRIP: name, dataset.synthetic.shape, one layer, seed.
SERIALIZED = "0a017712062a040a021c1c1a0e0a01641205696e7075745202100038ffffffff0f"

ROUND_TRIP = """
import sys
from trainyard.v1 import runner_pb2, runner_pb2_grpc, workload_pb2
workload = workload_pb2.Workload(name="w", seed=2 ** 32 - 1)
workload.dataset.synthetic.shape.extend([28, 28])
layer = workload.layers.add(name="d", inputs=["input"])
layer.dense.use_bias = False
assert layer.dense.HasField("use_bias") and layer.WhichOneof("op") == "dense"
reply = runner_pb2.DescribeResponse(versions={"a": "1"}, phases={"import": 0.5})
event = runner_pb2.TrainEvent(finished=runner_pb2.Finished(step_seconds=[0.5, 0.25]))
for message in (workload, reply, event):
    assert type(message).FromString(message.SerializeToString()) == message
assert runner_pb2_grpc.RunnerStub and runner_pb2_grpc.RunnerServicer
import google.protobuf
print(google.protobuf.__version__, workload.SerializeToString(deterministic=True).hex())
"""


def run(python, requirements, *command):
    """Runs a command in a throw-away environment of that Python."""
    places = [str(path) for path in Path("~/.pyenv/versions").expanduser().glob("*/bin")]
    path = os.pathsep.join([*places, os.environ["PATH"]])
    arguments = [uv.find_uv_bin(), "run", "--no-project", "--no-config", "--native-tls", "--python", python]
    for requirement in requirements:
        arguments += ["--with", requirement]
    environment = dict(os.environ, PATH=path, PYTHONPATH=str(PROTO))
    return subprocess.run([*arguments, *command], env=environment, capture_output=True, text=True, check=False)


def test_the_stubs_are_what_the_generator_makes(tmp_path):
    sources = sorted(str(path) for path in PROTO.glob("trainyard/v1/*.proto"))
    command = ["python", "-m", "grpc_tools.protoc", f"-I{PROTO}", f"--python_out={tmp_path}"]
    done = run(GENERATOR_PYTHON, [GENERATOR, "setuptools<81"], *command, f"--grpc_python_out={tmp_path}", *sources)
    assert done.returncode == 0, done.stderr
    made = {path.name: path.read_text() for path in tmp_path.rglob("*.py")}
    kept = {path.name: path.read_text() for path in PROTO.glob("trainyard/v1/*_pb2*.py")}
    assert made == kept


@pytest.mark.parametrize(
    ("python", "requirements"),
    [
        ("3.6", ["grpcio==1.48.2", "protobuf==3.19.6"]),
        ("3.9", ["grpcio==1.62.3", "protobuf==3.20.3"]),
        ("3.13", ["grpcio", "protobuf"]),
    ],
    ids=["oldest", "middle", "newest"],
)
def test_one_set_of_stubs_serves_all(python, requirements):
    done = run(python, requirements, "python", "-W", "error::UserWarning", "-c", ROUND_TRIP)
    assert done.returncode == 0, done.stderr
    # The same bytes from every version: the digest of a workload does not depend on who serialized it.
    assert done.stdout.split()[1] == SERIALIZED
