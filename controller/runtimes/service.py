"""Stages the service's own source (packages ``runners`` and ``trainyard``) where every environment can import it.

A runner never sees the controller's site-packages, which hold libraries for another Python: it gets a folder with
these two packages alone, named by the digest that it will report in ``Describe``.
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import trainyard
from trainyard.source import source_digest, source_files

from controller import paths
from controller.catalog.runners import runners_folder
from controller.runtimes.packages import clean_environment


@dataclass(frozen=True, slots=True)
class Staged:
    """A true copy of the service's source: ``folder`` is for PYTHONPATH, ``digest`` is what its servers report."""

    folder: Path
    digest: str

    def compile(self, python: Path, minor: str) -> None:
        """Writes bytecode for this Python, once: servers do not write it, so that every trial starts alike."""
        marker = self.folder / f".compiled-{minor}"
        if marker.exists():
            return
        done = subprocess.run(
            [str(python), "-m", "compileall", "-q", str(self.folder)],
            env=clean_environment(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            marker.touch()


def stage(cache: Path | None = None, sources: dict[str, Path] | None = None) -> Staged:
    """The copy below ``cache`` (default: the cache folder); made when it is not there or damaged."""
    packages = sources or {"runners": runners_folder(), "trainyard": Path(str(trainyard.__file__)).parent}
    digest = str(source_digest(packages))
    folder = (cache or paths.cache_folder()) / "service" / digest[:16]
    if _staged_digest(folder, packages) != digest:
        _replace(folder, packages, digest)
    return Staged(folder, digest)


def _staged_digest(folder: Path, packages: dict[str, Path]) -> str:
    return str(source_digest({name: folder / name for name in packages}))


def _replace(folder: Path, packages: dict[str, Path], digest: str) -> None:
    """Copies beside the target and renames, so that no other process ever sees half a copy."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        for name, source in packages.items():
            _copy(source, fresh / "packages" / name)
        if folder.exists():
            folder.rename(fresh / "damaged")
        _publish(fresh / "packages", folder, packages, digest)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _publish(fresh: Path, folder: Path, packages: dict[str, Path], digest: str) -> None:
    try:
        fresh.rename(folder)
    except OSError:
        # Another controller was faster: the same digest is the same content.
        if _staged_digest(folder, packages) != digest:
            raise


def _copy(source: Path, target: Path) -> None:
    """Copies what the digest covers, and nothing else."""
    for name in source_files(os.fspath(source)):
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, destination)
