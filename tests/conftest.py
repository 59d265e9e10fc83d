"""What holds for every test."""

import signal


def pytest_configure(config):
    # A shell that starts the suite in the background has Ctrl-C ignored, and every child would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
