"""Joins standard input and output to the runner's Unix socket: ``python -m runners.core.relay PATH``.

Run inside a container by a controller on another machine. What the engine carries anyway is the whole network of such
a container: it needs no port, and has no way out.
"""

import os
import select
import socket
import sys
import time

_CHUNK = 1 << 18
_WAIT_SECONDS = 60.0


def main():
    connection = _connected(sys.argv[1])
    sources = [0, connection]
    while sources:
        for source in select.select(sources, [], [])[0]:
            data = os.read(0, _CHUNK) if source == 0 else connection.recv(_CHUNK)
            if source == 0 and data:
                connection.sendall(data)
            elif source == 0:
                connection.shutdown(socket.SHUT_WR)
                sources.remove(0)
            elif data:
                _write(data)
            else:
                return 0
    return 0


def _connected(path):
    """The runner may still be starting: its socket is waited for."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
            return connection
        except OSError:
            connection.close()
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _write(data):
    while data:
        data = data[os.write(1, data):]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        sys.exit("relay: {}".format(error))
