"""The ``controller`` command, also as ``python -m controller``: takes Ctrl-C over before anything slow is imported."""

import os
import sys
from typing import NoReturn

from controller import interrupts


def main() -> NoReturn:
    """Entry point of the console script."""
    interrupts.install()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what fails is said once, in one line
    try:
        from controller.cli.main import main as command
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
