"""Makes a new environment ready for Theano: NumPy's OpenBLAS under a name to link with, and compiled operations.

Run once as ``python -m runners.keras.prepare_theano`` with the runner's environment variables. Theano compiles C++
when an operation is first used. Here that happens while the environment is built and not in somebody's first trial.
Ends with status 0, or prints one line and ends with 1.

An image that must run on other CPUs adds ``gcc.cxxflags=-march=...`` to THEANO_FLAGS, the same while it is built and
when it runs; otherwise code is compiled for this CPU, and code for another one is never taken.
"""

import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig

from runners.keras import warm


class Problem(Exception):
    """Something that the user must mend; one line."""


def main():
    _check_compiler()
    _link_blas()
    if subprocess.call([sys.executable, "-m", warm.__name__]):
        raise Problem("Theano could not compile: see the lines above")


def _check_compiler():
    if shutil.which("g++") is None:
        raise Problem("Theano compiles, and g++ is not on PATH: install g++ (Debian: apt-get install g++)")
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not os.path.isfile(header):
        raise Problem("Theano compiles, and {} is missing: install the headers of Python {}.{}".format(
            header, *sys.version_info[:2]))


def _link_blas():
    """NumPy's wheel brings an OpenBLAS whose file name has a hash in it: LIBRARY_PATH gets a plain one.

    The library knows its own name, so that the process has one OpenBLAS, which NumPy has loaded."""
    folder = os.environ.get("LIBRARY_PATH")
    if not folder:
        raise Problem("LIBRARY_PATH is not set: run this with the variables of runners/keras/runner.toml")
    numpy = list(importlib.util.find_spec("numpy").submodule_search_locations)[0]
    found = glob.glob(os.path.join(glob.escape(numpy + ".libs"), "libopenblas*.so*"))
    if len(found) != 1:
        raise Problem("{}.libs has no OpenBLAS: install the lock of runners/keras".format(numpy))
    os.makedirs(folder, exist_ok=True)
    link = os.path.join(folder, "libopenblas.so")
    if os.path.lexists(link):
        os.remove(link)
    os.symlink(os.path.relpath(found[0], os.path.realpath(folder)), link)


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        sys.exit("runners.keras.prepare_theano: {}".format(problem))
