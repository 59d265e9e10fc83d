"""How fast the host itself is, so that its part in a difference can be told from a framework's.

Nothing of a framework is in it: a loop of this Python, a product of matrices and a copy by its NumPy, and calls of a
runner that compute nothing. Each is repeated, and the middle one counts.
"""

import time
from collections.abc import Callable
from statistics import median

from controller.client import RunnerClient
from controller.results import Calibration

REPEATS = 5
LOOP_TURNS = 500_000
MATRIX_SIZE = 768
COPY_BYTES = 64 * 2**20
CALLS = 100
_NO_DEVICE_CALL = "needs a framework, and the service has no call for it"


def of_host(host: str, runtime: str) -> Calibration:
    """Of this machine; for a ``host`` that is another, only reasons."""
    absent = dict.fromkeys(("host_to_device_bytes_per_s", "empty_launch_s"), _NO_DEVICE_CALL)
    if host != "local":
        names = ("python_loop_s", "matrix_product_flops", "memory_copy_bytes_per_s")
        return Calibration(host, runtime, {}, {**absent, **dict.fromkeys(names, f"{host} is another machine")})
    values = {
        "python_loop_s": _seconds(_loop),
        "matrix_product_flops": 2 * MATRIX_SIZE**3 / _seconds(_product()),
        "memory_copy_bytes_per_s": COPY_BYTES / _seconds(_copy()),
    }
    return Calibration(host, runtime, values, absent)


def round_trip(client: RunnerClient) -> float:
    """Seconds of one call to a runner and back."""
    client.describe()  # connects
    return _seconds(client.describe, CALLS)


def _seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    taken = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return median(taken)


def _loop() -> int:
    total = 0
    for turn in range(LOOP_TURNS):
        total += turn & 3
    return total


def _product() -> Callable[[], object]:
    import numpy as np

    square = np.ones((MATRIX_SIZE, MATRIX_SIZE), np.float32)
    result = square @ square
    return lambda: np.matmul(square, square, out=result)


def _copy() -> Callable[[], object]:
    import numpy as np

    source = np.ones(COPY_BYTES, np.uint8)
    target = source.copy()
    return lambda: np.copyto(target, source)
