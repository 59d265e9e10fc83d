"""``python -m controller`` is the ``controller`` command."""

import sys

from controller.cli.main import main

sys.exit(main())
