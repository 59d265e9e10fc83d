"""A runner's server: ``python -m runners.core.server --adapter runners.pytorch.adapter``."""

import argparse
import os
import signal
import sys
import threading

from runners.core.child import Child


def main():
    options = _options()
    # Read when gRPC is imported. Its handlers of fork() are for processes that go on with gRPC in the child; training
    # processes are other programs, and where Python forks for them (before 3.10) those handlers now and then wait in
    # the child for ever, and the call with it (seen with gRPC 1.62).
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    stop = threading.Event()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        # What was started with nohup stays as it was asked for.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: stop.set())
    # The framework is imported by the training process while this one imports gRPC.
    child = Child(options.adapter, options.blobs)
    try:
        from runners.core import service
        # Not before: on Windows the import of NumPy waits for a thread that reads a pipe at standard input
        # (numpy issue 24290).
        if options.exit_with_stdin:
            threading.Thread(target=_watch_stdin, args=(stop,), daemon=True).start()
        return service.serve(options, child, stop)
    except BaseException:
        child.end(0.0)
        raise


def _watch_stdin(stop):
    while os.read(0, 1024):
        pass
    stop.set()


def _options():
    parser = argparse.ArgumentParser(prog="runners.core.server", description=__doc__.split("\n")[0])
    parser.add_argument("--adapter", required=True, help="module of the adapter, such as runners.pytorch.adapter")
    parser.add_argument("--listen", default="127.0.0.1:0", help="HOST:PORT or unix:///PATH (default: %(default)s)")
    parser.add_argument("--address-file", help="file into which the address is written")
    parser.add_argument("--blobs", required=True, help="folder of dataset arrays")
    parser.add_argument("--exit-with-stdin", action="store_true", help="end when standard input does")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
