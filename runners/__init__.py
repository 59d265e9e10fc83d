"""One package per framework, and ``core``, which they share."""

import os

# An adapter that is a user's own stays outside the service, which is the same for all runners of a comparison.
if os.environ.get("TRAINYARD_ADAPTERS"):
    __path__.append(os.environ["TRAINYARD_ADAPTERS"])
