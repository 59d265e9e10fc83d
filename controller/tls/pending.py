"""Connections that have not shown who they are: only so many at once, so that no flood of them fills the memory.

A new one always gets a place: when all are taken the oldest one goes, of the address that has the most. So a single
machine that floods the front drives out itself, and a good client elsewhere has the time that it needs.
"""

import ipaddress
from collections import Counter
from collections.abc import Callable

MOST = 128


class Pending:
    """Places for handshakes. Each holder gives ``evict``, which is called when its place is taken away."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._holders: dict[object, tuple[str, Callable[[], None]]] = {}  # in the order in which they came

    def __len__(self) -> int:
        return len(self._holders)

    def enter(self, holder: object, address: str, evict: Callable[[], None]) -> None:
        """Takes a place, if need be another's."""
        if len(self._holders) >= self._most:
            self._evict_one()
        self._holders[holder] = (origin(address), evict)

    def leave(self, holder: object) -> None:
        """Gives the place back; nothing happens if it was taken away."""
        self._holders.pop(holder, None)

    def _evict_one(self) -> None:
        counts = Counter(place for place, _ in self._holders.values())
        busiest = max(counts.values())
        holder = next(holder for holder, (place, _) in self._holders.items() if counts[place] == busiest)
        _, evict = self._holders.pop(holder)
        evict()


def origin(address: str) -> str:
    """What is counted as one machine: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            return str(found.ipv4_mapped)
        return str(ipaddress.IPv6Network((found, 64), strict=False))
    return str(found)
