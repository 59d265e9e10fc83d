"""What engines and NVIDIA's toolkit really printed, and the line that a user is told instead."""

NO_RUNTIME = "the Docker engine has no NVIDIA runtime"
RECORDED = [
    # Docker 20.10.24 through docker-py, at start of a container with a device request.
    (
        'could not select device driver "" with capabilities: [[gpu]]',
        NO_RUNTIME,
    ),
    (
        '500 Server Error for http+docker://localhost/v1.41/containers/5a/start: Internal Server Error ("could not '
        'select device driver "" with capabilities: [[gpu compute utility]]")',
        NO_RUNTIME,
    ),
    ("Unknown runtime specified nvidia", NO_RUNTIME),  # 20.10, at create
    ("unknown or invalid runtime name: nvidia", NO_RUNTIME),  # 26.1, at create
    (
        "failed to create shim: OCI runtime create failed: container_linux.go:380: starting container process caused: "
        "process_linux.go:545: container init caused: Running hook #0:: error running hook: exit status 1, stdout: , "
        "stderr: nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
        "driver of the engine's machine does not work",
    ),
    (
        "OCI runtime create failed: runc create failed: unable to start container process: error during container "
        "init: error running hook #0: error running hook: exit status 1, stdout: , stderr: Auto-detected mode as "
        "'legacy' nvidia-container-cli: requirement error: unsatisfied condition: cuda>=11.2, please update your "
        "driver to a newer version, or use an earlier cuda container: unknown",
        "too old for this image (it wants cuda>=11.2)",
    ),
    (
        "OCI runtime create failed: error running hook: exit status 1, stderr: nvidia-container-cli: initialization "
        "error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory: "
        "unknown",
        "no NVIDIA driver libraries",
    ),
    (
        "OCI runtime create failed: stderr: nvidia-container-cli: device error: "
        "GPU-5f0b7a9e-0000-1111-2222-333344445555: unknown device: unknown",
        "does not know the GPU GPU-5f0b7a9e-0000-1111-2222-333344445555",
    ),
    (
        "could not select device driver with capabilities: failed to inject CDI devices: unresolvable CDI devices "
        "nvidia.com/gpu=7: unknown",
        "does not know the GPU nvidia.com/gpu=7:",
    ),
    (
        "write /var/lib/docker/tmp/GetImageBlob1: no space left on device",
        "the engine's disk is full",
    ),
    (
        "Error while fetching server API version: ('Connection aborted.', PermissionError(13, 'Permission denied'))",
        "you may not use the Docker engine",
    ),
    (
        "Error while fetching server API version: ('Connection aborted.', ConnectionRefusedError(111, 'Connection "
        "refused'))",
        "the Docker engine does not answer",
    ),
    (
        "Error while fetching server API version: ('Connection aborted.', FileNotFoundError(2, 'No such file or "
        "directory'))",
        "the Docker engine does not answer",
    ),
    (
        "client version 1.50 is too new. Maximum supported API version is 1.38",
        "the Docker engine is too old",
    ),
    ("exec /bin/sh: exec format error", "another kind of processor"),
    ("no matching manifest for linux/arm64/v8 in the manifest list entries", "another kind of processor"),
]
NETWORK = [
    'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io on 10.0.0.1:53: no such host',
    'Get "https://registry-1.docker.io/v2/": net/http: TLS handshake timeout',
    'Get "https://registry-1.docker.io/v2/": x509: certificate signed by unknown authority',
    "dial tcp 1.2.3.4:443: i/o timeout",
]
NOT_NETWORK = [
    "manifest for python:3.6-slim-bookworm not found: manifest unknown: manifest unknown",
    "toomanyrequests: You have reached your pull rate limit.",
]
