#!/bin/sh
# Writes the runner's variables as assignments of the shell: those in VARIABLES as they are, and the search paths for
# CUDA's libraries where Python packages have brought them (nvidia/*/lib).
set -eu
printf '%s\n' "${VARIABLES}"
root=$(find /opt/environment/lib -maxdepth 3 -type d -path '*/site-packages/nvidia' | head -n 1)
if [ -n "${root}" ] && [ -s /opt/trainyard/locks/cuda.txt ]; then
    libraries=$(find "${root}" -mindepth 2 -maxdepth 2 -type d -name lib | sort | paste -s -d : -)
    printf "LD_LIBRARY_PATH='%s'\n" "${libraries}"
    if [ -d "${root}/cuda_nvcc" ]; then
        # XLA looks for ptxas on PATH and for libdevice below this folder.
        printf "PATH='%s/cuda_nvcc/bin':\"\${PATH}\"\n" "${root}"
        printf "XLA_FLAGS='--xla_gpu_cuda_data_dir=%s/cuda_nvcc'\n" "${root}"
    fi
fi
