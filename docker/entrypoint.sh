#!/bin/sh
# Sets the runner's variables, then serves with the options given; "run PROGRAM ..." runs another program instead.
set -eu
set -a
. /opt/trainyard/environment
set +a
if [ "${1:-}" = run ]; then
    shift
    exec "$@"
fi
# The controller is another user than the one in here, and must be able to connect to the socket.
umask 0
exec python -m runners.core.server --adapter "${TRAINYARD_ADAPTER}" "$@"
