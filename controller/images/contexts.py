"""The build's context: the few files of the repository that one image is made from, as a tar that is always the same
for the same files, so that the engine finds its earlier steps again."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from trainyard.source import source_files

from controller.images.recipes import CUDA_LOCK, PREPARE, RUNNER_LOCK, ImagePlan, docker_folder

DOCKERFILE = "docker/Dockerfile"


def pack(plan: ImagePlan) -> io.BytesIO:
    """The context as a tar. A few hundred kilobytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(_files(plan)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                archive.addfile(entry, file)
    buffer.seek(0)
    return buffer


def _files(plan: ImagePlan) -> Iterator[tuple[str, Path]]:
    docker, staged = docker_folder(), plan.staged.folder
    for name in ("Dockerfile", "entrypoint.sh", "variables.sh", f"pip/{plan.pip_lock.name}"):
        yield f"docker/{name}", docker / name
    yield RUNNER_LOCK, plan.lock
    yield CUDA_LOCK, plan.cuda_lock
    for package, place in (("runners", "runners"), ("trainyard", "proto/trainyard")):
        for name in source_files(str(staged / package)):
            yield f"{place}/{name}", staged / package / name
    yield from _prepare(plan, docker)


def _prepare(plan: ImagePlan, docker: Path) -> Iterator[tuple[str, Path]]:
    """A folder is never empty in a tar of files: without anything to prepare it has one that nobody reads."""
    yield f"{PREPARE}/pip.txt", docker / "pip" / "pip.txt"
    for name in plan.prepare:
        place = f"proto/{name}" if name.startswith("trainyard/") else name
        yield f"{PREPARE}/{place}", plan.staged.folder / name
