"""Makes a new environment ready for Jittor: headers, oneDNN, the compiled core, and kernels for common layers.

Run once as ``python -m runners.jittor.prepare`` with the runner's environment variables. Jittor compiles its own
C++ core at its first import and a kernel for each group of operations when it first runs. Here both happen while
the environment is built and not in somebody's first trial. Everything lies below JITTOR_HOME.
Ends with status 0, or prints one line and ends with 1.

An image that must run on other CPUs sets JITTOR_CPU_KEY (any word) and adds ``-march=...`` to ``cc_flags``, the
same while it is built and when it runs; otherwise code is compiled for this CPU, and kept apart by CPU model.
"""

import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile

from runners.jittor import warm

ONEDNN = "dnnl_lnx_2.2.0_cpu_gomp"

# Nearly half the time of compiling a file of Jittor is spent on these headers: they are compiled once, and the
# flag -include in cc_flags makes every file use the result. They are the standard's own, included by Jittor anyway,
# so the code that comes out is the same.
HEADERS = ("algorithm", "chrono", "cmath", "cstring", "fstream", "functional", "iomanip", "iostream", "limits",
           "list", "map", "memory", "mutex", "set", "sstream", "string", "thread", "tuple", "unordered_map",
           "unordered_set", "vector")

# The flags that Jittor compiles with; a precompiled header is passed over where they differ.
FLAGS = ["-std=c++14", "-fPIC", "-march=native"]
CORE_FLAGS = ["-O2"]
KERNEL_FLAGS = ["-fopenmp", "-Ofast", "-g"]

# Object files and kernels that are compiled, about: for the progress bar alone.
FILES = 231

# What changes in the installed jittor_utils: where its cache lies, nothing that is compiled or run. The cache must
# outlive a change of the host's name or kernel (an image has neither), and must not become the user's default.
PATCHES = (
    ("osv = platform.platform() + platform.node()", 'osv = "runner"'),
    ("cpuv = get_cpu_version()", 'cpuv = os.environ.get("JITTOR_CPU_KEY") or get_cpu_version()'),
    ("if default_path != _home_path:", 'if default_path != _home_path and "JITTOR_HOME" not in os.environ:'),
)


class Problem(Exception):
    """Something that the user must mend; one line."""


def main():
    """Does all steps in order; each leaves alone what is done already."""
    home = _home()
    compiler = _compiler()
    _check_headers()
    _place_config()
    _patch()
    _unpack_onednn(home)
    _progress(0.0)
    _precompile(home, compiler)
    _compile(home)
    _clean(home)


def _home():
    home = os.environ.get("JITTOR_HOME")
    if not home:
        raise Problem("JITTOR_HOME is not set: run this with the variables of runners/jittor/runner.toml")
    os.makedirs(home, exist_ok=True)
    return home


def _compiler():
    name = os.environ.get("cc_path") or "g++"
    path = shutil.which(name)
    if path is None:
        raise Problem("Jittor compiles itself, and {} is not on PATH: install g++ (Debian: apt-get install g++)".format(
            name))
    return path


def _check_headers():
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not os.path.isfile(header):
        raise Problem("Jittor compiles itself, and {} is missing: install the headers of Python {}.{} "
                      "(Debian: apt-get install python{}.{}-dev)".format(header, *(sys.version_info[:2] * 2)))


def _place_config():
    """Jittor asks ``pythonX.Y-config`` beside the interpreter for two facts; a virtual environment has none."""
    path = "{}/python{}.{}-config".format(os.path.dirname(sys.executable), *sys.version_info[:2])
    if os.path.exists(path):
        return
    with open(path, "w") as file:
        file.write('#!/bin/sh\ncase "$1" in\n'
                   "--includes) echo '-I\"{}\"' ;;\n"
                   "--extension-suffix) echo '{}' ;;\n"
                   "*) exit 1 ;;\nesac\n".format(sysconfig.get_path("include"), sysconfig.get_config_var("EXT_SUFFIX")))
    os.chmod(path, 0o755)


def _folder(package):
    """Where a package is installed, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise Problem("{} is not installed: install the lock of runners/jittor".format(package))
    return list(spec.submodule_search_locations)[0]


def _patch():
    path = os.path.join(_folder("jittor_utils"), "__init__.py")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for old, new in PATCHES:
        if new in text:
            continue
        if old not in text:
            raise Problem("{} is not the one that this runner knows: {!r} is not in it".format(path, old))
        text = text.replace(old, new)
    # A new file: the installed one may be a hard link into the installer's cache.
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def _unpack_onednn(home):
    """Puts oneDNN where Jittor looks before it tries to download it."""
    folder = os.path.join(home, ".cache", "jittor", "mkl")
    if os.path.isfile(os.path.join(folder, ONEDNN, "lib", "libmkldnn.so")):
        return
    os.makedirs(folder, exist_ok=True)
    with tarfile.open(os.path.join(_folder("jittor_offline"), ONEDNN + ".tgz")) as archive:
        archive.extractall(folder, [m for m in archive.getmembers() if "/examples" not in m.name])


def _precompile(home, compiler):
    """Writes std.h and, for each of Jittor's two sets of flags, its precompiled form."""
    header = os.path.join(home, "std.h")
    with open(header, "w") as file:
        file.writelines("#include <{}>\n".format(name) for name in HEADERS)
    os.makedirs(header + ".gch", exist_ok=True)
    march = [flag for flag in os.environ.get("cc_flags", "").split() if flag.startswith("-march=")]
    running = [subprocess.Popen([compiler] + FLAGS + march + flags + ["-x", "c++-header", header, "-o", os.path.join(
        header + ".gch", name)]) for name, flags in (("core", CORE_FLAGS), ("kernels", KERNEL_FLAGS))]
    if any([process.wait() for process in running]):
        raise Problem("{} cannot compile C++: see the lines above".format(compiler))


def _compile(home):
    """Compiles core and kernels in a process of its own, for Jittor may end the one that imports it."""
    process = subprocess.Popen([sys.executable, "-m", warm.__name__])
    while True:
        try:
            code = process.wait(1)
            break
        except subprocess.TimeoutExpired:
            done = len(_files(home, "obj_files", "*.o")) + len(_files(home, "jit", "*.so"))
            _progress(min(done / FILES, 1.0))
    if code != 0 or not _files(home, "jit", "*.so"):
        raise Problem("Jittor could not be compiled (status {}): see the lines above".format(code))


def _progress(fraction):
    sys.stdout.write("progress {:.3f} compiling Jittor\n".format(fraction))
    sys.stdout.flush()


def _files(home, folder, pattern):
    """Paths in a folder of Jittor's cache."""
    return glob.glob(os.path.join(glob.escape(home), ".cache", "jittor", "jt*", "**", folder, pattern), recursive=True)


def _clean(home):
    """Jittor keeps the assembly of each kernel: several times the size of the rest, and never read again. Nor is
    the header for the core."""
    for path in _files(home, "jit", "*.s") + [os.path.join(home, "std.h.gch", "core")]:
        os.remove(path)


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        sys.exit("runners.jittor.prepare: {}".format(problem))
