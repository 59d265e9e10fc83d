"""Makes a new environment ready for CNTK: the two MPI libraries that it is linked with, as empty shells.

Run once as ``python -m runners.keras.prepare_cntk`` with the runner's environment variables. CNTK 2.7 wants the
libraries of OpenMPI 1.10, which today's systems no longer have, and calls them only when several processes train
together: here one does. A shell has every name of them that CNTK mentions, and ends the process when one is called.
Ends with status 0, or prints one line and ends with 1.
"""

import glob
import importlib.util
import os
import re
import shutil
import subprocess
import sys

# By these names CNTK asks for them; it looks into its own folder first.
LIBRARY, SECOND = "libmpi.so.12", "libmpi_cxx.so.1"
# Names of C functions and data, and of the methods of C++ classes in the namespace MPI, as they stand in a library.
_NAME = re.compile(rb"\0((?:MPI_|ompi_|_ZN3MPI)\w+)(?=\0)")
_SOURCE = """#include <stdlib.h>
#include <unistd.h>
void trainyard_no_mpi(void) {
    static const char text[] = "CNTK called MPI, which this environment does not have\\n";
    if (write(2, text, sizeof text - 1)) {}
    abort();
}
"""
_SHELL = 'void {}(void) __attribute__((alias("trainyard_no_mpi")));\n'


class Problem(Exception):
    """Something that the user must mend; one line."""


def main():
    folder = _libraries()
    _compile(_SOURCE + "".join(map(_SHELL.format, _names(folder))), os.path.join(folder, LIBRARY))
    second = os.path.join(folder, SECOND)
    if os.path.lexists(second):
        os.remove(second)
    os.symlink(LIBRARY, second)
    if subprocess.call([sys.executable, "-W", "ignore", "-c", "import cntk"]):
        raise Problem("CNTK cannot be imported: see the lines above")


def _libraries():
    """The folder of CNTK's own libraries."""
    spec = importlib.util.find_spec("cntk")
    if spec is None:
        raise Problem("CNTK is not installed: install the lock of runners/keras")
    return os.path.join(list(spec.submodule_search_locations)[0], "libs")


def _names(folder):
    """Sorted names of MPI that CNTK's libraries mention."""
    found = set()
    for path in glob.glob(os.path.join(glob.escape(folder), "*Cntk*.so")):
        with open(path, "rb") as file:
            found.update(name.decode("ascii") for name in _NAME.findall(file.read()))
    if not found:
        raise Problem("{} has no libraries of CNTK that use MPI".format(folder))
    return sorted(found)


def _compile(source, target):
    if shutil.which("g++") is None:
        raise Problem("g++ is not on PATH: install g++ (Debian: apt-get install g++)")
    command = ["g++", "-x", "c", "-", "-shared", "-fPIC", "-Wl,-soname," + os.path.basename(target), "-o", target]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    process.communicate(source.encode("ascii"))
    if process.returncode:
        raise Problem("g++ cannot compile C: see the lines above")


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        sys.exit("runners.keras.prepare_cntk: {}".format(problem))
