"""The digest of a service's own source, so that a stale copy is noticed. Python 3.6 syntax."""

import hashlib
import os

PACKAGES = ("runners", "trainyard")
SUFFIXES = (".py", ".proto")


def source_files(folder):
    """Sorted relative paths ('/' between parts) of the source files of one package folder."""
    found = []
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        found.extend(os.path.relpath(os.path.join(base, name), folder).replace(os.sep, "/")
                     for name in files if name.endswith(SUFFIXES))
    return sorted(found)


def source_digest(folders):
    """SHA-256 over names and bytes of the source files of ``folders`` ({package: folder})."""
    total = hashlib.sha256()
    for package in sorted(folders):
        for name in source_files(folders[package]):
            with open(os.path.join(folders[package], *name.split("/")), "rb") as file:
                content = hashlib.sha256(file.read()).hexdigest()
            total.update("{}/{} {}\n".format(package, name, content).encode("utf-8"))
    return total.hexdigest()
