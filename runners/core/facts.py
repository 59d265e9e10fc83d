"""What the process finds about itself, read back from inside: versions, processors, limits."""

import os
import platform

from runners.core.confinement import confinement_facts

_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY",
              "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
_UNLIMITED = 1 << 60


def versions():
    """{name: version} of the interpreter and of what every runner has."""
    import google.protobuf
    import numpy
    return {"python": platform.python_version(), "numpy": numpy.__version__, "protobuf": google.protobuf.__version__}


def process_facts():
    """{name: text} about the process and its limits."""
    facts = {"system": platform.platform(), "cpus": str(len(_processors()))}
    for name in _VARIABLES:
        facts[name] = os.environ.get(name, "")
    limit = memory_limit()
    if limit is not None:
        facts["memory_limit_bytes"] = str(limit)
    facts.update(confinement_facts())
    return facts


def _processors():
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def memory_limit():
    """Bytes that the control group allows, or None without a limit."""
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as file:
                text = file.read().strip()
        except OSError:
            continue
        return int(text) if text.isdigit() and int(text) < _UNLIMITED else None
    return None
