"""A long cable to a network namespace: packets take their time on the way, and some are lost.

A process carries them, because few kernels have what ``tc qdisc ... netem`` needs. ``python -m tests.cable NAME`` makes
the devices NAME0 and NAME1, says "ready", and carries IP packets between them until its input ends.
"""

import collections
import contextlib
import os
import random
import select
import struct
import sys
import time

DELAY_SECONDS = 0.02
LOSS = 0.01
_DEVICE = "/dev/net/tun"
_SET_NAME, _TUN_WITHOUT_HEADER = 0x400454CA, 0x1001
_MOST_BYTES = 2**16


def _end(name: str) -> int:
    """A device of this name; what is written to the descriptor arrives there, what is sent there is read from it."""
    import fcntl  # which Windows lacks

    descriptor = os.open(_DEVICE, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, _SET_NAME, struct.pack("16sH22x", name.encode("ascii"), _TUN_WITHOUT_HEADER))
    return descriptor


def carry(first: int, second: int, dice: random.Random) -> None:
    """Until standard input ends. A device that is down takes nothing: what is sent to it is lost."""
    others = {first: second, second: first}
    under_way: collections.deque[tuple[float, int, bytes]] = collections.deque()
    while True:
        left = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        ready, _, _ = select.select([*others, sys.stdin], [], [], left)
        if sys.stdin in ready:
            return
        now = time.monotonic()
        for descriptor in ready:
            with contextlib.suppress(OSError):
                packet = os.read(descriptor, _MOST_BYTES)
                if dice.random() >= LOSS:
                    under_way.append((now + DELAY_SECONDS, others[descriptor], packet))
        while under_way and under_way[0][0] <= now:
            _, descriptor, packet = under_way.popleft()
            with contextlib.suppress(OSError):
                os.write(descriptor, packet)


def main() -> None:
    name = sys.argv[1]
    ends = _end(f"{name}0"), _end(f"{name}1")
    print("ready", flush=True)
    carry(*ends, random.Random(name))


if __name__ == "__main__":
    main()
