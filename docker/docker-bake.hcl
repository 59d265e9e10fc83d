# Written by `python -m controller.images.bake` from runners/*/runner.toml: change those, not this.
# All runners' images with BuildKit, from the repository's root:
#
#     docker buildx bake -f docker/docker-bake.hcl                    # the default runners, for CPUs
#     docker buildx bake -f docker/docker-bake.hcl pytorch-1_11_0-gpu
#
# `controller compare` makes its own images (`controller build`): it measures none whose labels do not say what the
# image was made from.

target "runner" {
  context    = "."
  dockerfile = "docker/Dockerfile"
}

group "default" {
  targets = ["jittor-1_3_1-cpu", "pytorch-1_9_1-cpu", "pytorch-1_11_0-cpu", "tensorflow-2_6_0-cpu"]
}

target "jittor-1_3_1-cpu" {
  inherits = ["runner"]
  tags     = ["trainyard/jittor-1.3.1:cpu"]
  args = {
    "BASE_IMAGE" = "python:3.10-slim-bookworm",
    "DEBIAN_PACKAGES" = "g++",
    "PIP_LOCK" = "docker/pip/pip.txt",
    "LOCK" = "runners/jittor/locks/1.3.1.63-cpu-py310.txt",
    "CUDA_LOCK" = "docker/cuda/none.txt",
    "VARIABLES" = "JITTOR_HOME=/opt/environment/jittor\ncache_name=default\ncc_flags='-march=x86-64-v3 -include \"/opt/environment/jittor/std.h\"'\nnvcc_path=''\ngdb_path=''\nmpicc_path=''\ndebug=0\nuse_mkl=1\nuse_mpi=0\nuse_nccl=0\nlog_silent=1\nOMP_WAIT_POLICY=passive\nJITTOR_CPU_KEY=x86-64-v3",
    "PREPARE" = "runners.jittor.prepare",
    "PREPARE_SOURCE" = ".",
    "ADAPTER" = "runners.jittor.adapter",
    "RUNNER" = "jittor-1.3.1",
    "FLAVOUR" = "cpu"
  }
}

target "keras-tensorflow-cpu" {
  inherits = ["runner"]
  tags     = ["trainyard/keras-tensorflow:cpu"]
  args = {
    "BASE_IMAGE" = "python:3.6-slim-bookworm",
    "PIP_LOCK" = "docker/pip/pip-py36.txt",
    "LOCK" = "runners/keras/locks/tensorflow-1.15.5-py36.txt",
    "CUDA_LOCK" = "docker/cuda/none.txt",
    "VARIABLES" = "KERAS_BACKEND=tensorflow\nKERAS_HOME=/opt/environment/keras\nTF_CPP_MIN_LOG_LEVEL=2",
    "PREPARE_SOURCE" = "docker/pip",
    "ADAPTER" = "runners.keras.adapter",
    "RUNNER" = "keras-tensorflow",
    "FLAVOUR" = "cpu"
  }
}

target "keras-theano-cpu" {
  inherits = ["runner"]
  tags     = ["trainyard/keras-theano:cpu"]
  args = {
    "BASE_IMAGE" = "python:3.6-slim-bookworm",
    "DEBIAN_PACKAGES" = "g++",
    "PIP_LOCK" = "docker/pip/pip-py36.txt",
    "LOCK" = "runners/keras/locks/theano-1.0.5-py36.txt",
    "CUDA_LOCK" = "docker/cuda/none.txt",
    "VARIABLES" = "KERAS_BACKEND=theano\nKERAS_HOME=/opt/environment/keras\nLIBRARY_PATH=/opt/environment/blas\nTHEANO_FLAGS=device=cpu,floatX=float32,base_compiledir=/opt/environment/theano,compiledir_format=compiled,blas.ldflags=-lopenblas,gcc.cxxflags=-march=x86-64-v3\nTHEANORC=/opt/environment/theanorc",
    "PREPARE" = "runners.keras.prepare_theano",
    "PREPARE_SOURCE" = ".",
    "ADAPTER" = "runners.keras.adapter",
    "RUNNER" = "keras-theano",
    "FLAVOUR" = "cpu"
  }
}

target "keras-cntk-cpu" {
  inherits = ["runner"]
  tags     = ["trainyard/keras-cntk:cpu"]
  args = {
    "BASE_IMAGE" = "python:3.6-slim-bookworm",
    "DEBIAN_PACKAGES" = "g++",
    "PIP_LOCK" = "docker/pip/pip-py36.txt",
    "LOCK" = "runners/keras/locks/cntk-2.7-py36.txt",
    "CUDA_LOCK" = "docker/cuda/none.txt",
    "VARIABLES" = "KERAS_BACKEND=cntk\nKERAS_HOME=/opt/environment/keras",
    "PREPARE" = "runners.keras.prepare_cntk",
    "PREPARE_SOURCE" = ".",
    "ADAPTER" = "runners.keras.adapter",
    "RUNNER" = "keras-cntk",
    "FLAVOUR" = "cpu"
  }
}

target "pytorch-1_9_1-cpu" {
  inherits = ["runner"]
  tags     = ["trainyard/pytorch-1.9.1:cpu"]
  args = {
    "BASE_IMAGE" = "python:3.9-slim-bookworm",
    "PIP_LOCK" = "docker/pip/pip.txt",
    "LOCK" = "runners/pytorch/locks/1.9.1-py39.txt",
    "CUDA_LOCK" = "docker/cuda/none.txt",
    "PREPARE_SOURCE" = "docker/pip",
    "ADAPTER" = "runners.pytorch.adapter",
    "RUNNER" = "pytorch-1.9.1",
    "FLAVOUR" = "cpu"
  }
}

target "pytorch-1_9_1-gpu" {
  inherits = ["runner"]
  tags     = ["trainyard/pytorch-1.9.1:gpu"]
  args = {
    "BASE_IMAGE" = "python:3.9-slim-bookworm",
    "PIP_LOCK" = "docker/pip/pip.txt",
    "LOCK" = "runners/pytorch/locks/1.9.1-py39.txt",
    "CUDA_LOCK" = "docker/cuda/none.txt",
    "PREPARE_SOURCE" = "docker/pip",
    "ADAPTER" = "runners.pytorch.adapter",
    "RUNNER" = "pytorch-1.9.1",
    "FLAVOUR" = "gpu"
  }
}

target "pytorch-1_11_0-cpu" {
  inherits = ["runner"]
  tags     = ["trainyard/pytorch-1.11.0:cpu"]
  args = {
    "BASE_IMAGE" = "python:3.9-slim-bookworm",
    "PIP_LOCK" = "docker/pip/pip.txt",
    "LOCK" = "runners/pytorch/locks/1.11.0-py39.txt",
    "CUDA_LOCK" = "docker/cuda/none.txt",
    "PREPARE_SOURCE" = "docker/pip",
    "ADAPTER" = "runners.pytorch.adapter",
    "RUNNER" = "pytorch-1.11.0",
    "FLAVOUR" = "cpu"
  }
}

target "pytorch-1_11_0-gpu" {
  inherits = ["runner"]
  tags     = ["trainyard/pytorch-1.11.0:gpu"]
  args = {
    "BASE_IMAGE" = "python:3.9-slim-bookworm",
    "PIP_LOCK" = "docker/pip/pip.txt",
    "LOCK" = "runners/pytorch/locks/1.11.0-py39.txt",
    "CUDA_LOCK" = "docker/cuda/none.txt",
    "PREPARE_SOURCE" = "docker/pip",
    "ADAPTER" = "runners.pytorch.adapter",
    "RUNNER" = "pytorch-1.11.0",
    "FLAVOUR" = "gpu"
  }
}

target "pytorch-2_13_0-cpu" {
  inherits = ["runner"]
  tags     = ["trainyard/pytorch-2.13.0:cpu"]
  args = {
    "BASE_IMAGE" = "python:3.11-slim-bookworm",
    "DEBIAN_PACKAGES" = "g++ python3-dev",
    "PIP_LOCK" = "docker/pip/pip.txt",
    "LOCK" = "runners/pytorch/locks/2.13.0-cpu-py311.txt",
    "CUDA_LOCK" = "docker/cuda/none.txt",
    "INDEXES" = "https://download.pytorch.org/whl/cpu",
    "VARIABLES" = "TORCHINDUCTOR_CACHE_DIR=/opt/environment/cache/inductor",
    "PREPARE_SOURCE" = "docker/pip",
    "ADAPTER" = "runners.pytorch.adapter",
    "RUNNER" = "pytorch-2.13.0",
    "FLAVOUR" = "cpu"
  }
}

target "pytorch-2_13_0-gpu" {
  inherits = ["runner"]
  tags     = ["trainyard/pytorch-2.13.0:gpu"]
  args = {
    "BASE_IMAGE" = "python:3.11-slim-bookworm",
    "DEBIAN_PACKAGES" = "g++ python3-dev",
    "PIP_LOCK" = "docker/pip/pip.txt",
    "LOCK" = "runners/pytorch/locks/2.13.0-gpu-py311.txt",
    "CUDA_LOCK" = "docker/cuda/none.txt",
    "INDEXES" = "https://download.pytorch.org/whl/cpu",
    "VARIABLES" = "TORCHINDUCTOR_CACHE_DIR=/opt/environment/cache/inductor",
    "PREPARE_SOURCE" = "docker/pip",
    "ADAPTER" = "runners.pytorch.adapter",
    "RUNNER" = "pytorch-2.13.0",
    "FLAVOUR" = "gpu"
  }
}

target "reference-cpu" {
  inherits = ["runner"]
  tags     = ["trainyard/reference:cpu"]
  args = {
    "BASE_IMAGE" = "python:3.11-slim-bookworm",
    "PIP_LOCK" = "docker/pip/pip.txt",
    "LOCK" = "runners/reference/locks/1.0.txt",
    "CUDA_LOCK" = "docker/cuda/none.txt",
    "PREPARE_SOURCE" = "docker/pip",
    "ADAPTER" = "runners.reference.adapter",
    "RUNNER" = "reference",
    "FLAVOUR" = "cpu"
  }
}

target "tensorflow-2_6_0-cpu" {
  inherits = ["runner"]
  tags     = ["trainyard/tensorflow-2.6.0:cpu"]
  args = {
    "BASE_IMAGE" = "python:3.9-slim-bookworm",
    "PIP_LOCK" = "docker/pip/pip.txt",
    "LOCK" = "runners/tensorflow/locks/2.6.0-cpu-py39.txt",
    "CUDA_LOCK" = "docker/cuda/none.txt",
    "VARIABLES" = "TF_CPP_MIN_LOG_LEVEL=2\nTF_ENABLE_ONEDNN_OPTS=0",
    "PREPARE_SOURCE" = "docker/pip",
    "ADAPTER" = "runners.tensorflow.adapter",
    "RUNNER" = "tensorflow-2.6.0",
    "FLAVOUR" = "cpu"
  }
}

target "tensorflow-2_6_0-gpu" {
  inherits = ["runner"]
  tags     = ["trainyard/tensorflow-2.6.0:gpu"]
  args = {
    "BASE_IMAGE" = "python:3.9-slim-bookworm",
    "PIP_LOCK" = "docker/pip/pip.txt",
    "LOCK" = "runners/tensorflow/locks/2.6.0-gpu-py39.txt",
    "CUDA_LOCK" = "docker/cuda/tensorflow-11.2.txt",
    "VARIABLES" = "TF_CPP_MIN_LOG_LEVEL=2\nTF_ENABLE_ONEDNN_OPTS=0",
    "PREPARE_SOURCE" = "docker/pip",
    "ADAPTER" = "runners.tensorflow.adapter",
    "RUNNER" = "tensorflow-2.6.0",
    "FLAVOUR" = "gpu"
  }
}

target "tensorflow-2_6_3-cpu" {
  inherits = ["runner"]
  tags     = ["trainyard/tensorflow-2.6.3:cpu"]
  args = {
    "BASE_IMAGE" = "python:3.9-slim-bookworm",
    "PIP_LOCK" = "docker/pip/pip.txt",
    "LOCK" = "runners/tensorflow/locks/2.6.3-cpu-py39.txt",
    "CUDA_LOCK" = "docker/cuda/none.txt",
    "VARIABLES" = "TF_CPP_MIN_LOG_LEVEL=2\nTF_ENABLE_ONEDNN_OPTS=0",
    "PREPARE_SOURCE" = "docker/pip",
    "ADAPTER" = "runners.tensorflow.adapter",
    "RUNNER" = "tensorflow-2.6.3",
    "FLAVOUR" = "cpu"
  }
}

target "tensorflow-2_6_3-gpu" {
  inherits = ["runner"]
  tags     = ["trainyard/tensorflow-2.6.3:gpu"]
  args = {
    "BASE_IMAGE" = "python:3.9-slim-bookworm",
    "PIP_LOCK" = "docker/pip/pip.txt",
    "LOCK" = "runners/tensorflow/locks/2.6.3-gpu-py39.txt",
    "CUDA_LOCK" = "docker/cuda/tensorflow-11.2.txt",
    "VARIABLES" = "TF_CPP_MIN_LOG_LEVEL=2\nTF_ENABLE_ONEDNN_OPTS=0",
    "PREPARE_SOURCE" = "docker/pip",
    "ADAPTER" = "runners.tensorflow.adapter",
    "RUNNER" = "tensorflow-2.6.3",
    "FLAVOUR" = "gpu"
  }
}
