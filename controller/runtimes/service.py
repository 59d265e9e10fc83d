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
from controller.catalog.runners import RunnerSpec, runners_folder
from controller.runtimes.locks import FileLock
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
        with FileLock(folder.with_name(folder.name + ".lock"), lambda: None):
            # Another may have made it meanwhile, and a runner may already import from it.
            if _staged_digest(folder, packages) != digest:
                _replace(folder, packages)
    return Staged(folder, digest)


def stage_own(spec: RunnerSpec, cache: Path) -> Staged | None:
    """The copy of an adapter that is the user's own, in a folder that joins the package ``runners`` for this runner
    alone: the service of all others, and its digest, stay as they are. None for a runner without such code."""
    return stage(cache, {spec.framework: spec.own_code}) if spec.own_code else None


def _staged_digest(folder: Path, packages: dict[str, Path]) -> str | None:
    """None where a file went away while it was read: another controller is replacing a damaged copy."""
    try:
        return str(source_digest({name: folder / name for name in packages}))
    except FileNotFoundError:
        return None


def _replace(folder: Path, packages: dict[str, Path]) -> None:
    """Copies beside the target and renames, so that no other process ever sees half a copy."""
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        for name, source in packages.items():
            _copy(source, fresh / "packages" / name)
        if folder.exists():
            folder.rename(fresh / "damaged")
        (fresh / "packages").rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    """Copies what the digest covers, and nothing else."""
    for name in source_files(os.fspath(source)):
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, destination)
