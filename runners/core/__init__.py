"""What every runner shares. Needs the standard library, NumPy, grpcio and protobuf."""

import os
import sys

# Packages that a user's own interpreter lacks are appended, so that they never stand before what it has.
if os.environ.get("TRAINYARD_OVERLAY"):
    sys.path.append(os.environ["TRAINYARD_OVERLAY"])
