"""What an image is made from, as data: its name, the arguments of its build, and the digests that tell a stale one."""

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import controller
from controller.catalog import module_files
from controller.catalog.runners import RunnerSpec, runners_folder
from controller.errors import UsageError
from controller.runtimes.service import Staged

REPOSITORY = "trainyard"
ENVIRONMENT = "/opt/environment"  # The runner's virtual environment inside every image.
DISTRIBUTION = "bookworm"
USER = "10001:10001"
_FORMAT = 1  # Raised when images made by older code must not be used.

LABEL = "org.trainyard."
RUNNER_LABEL = LABEL + "runner"
FLAVOUR_LABEL = LABEL + "flavour"
LOCK_LABEL = LABEL + "lock"
RECIPE_LABEL = LABEL + "recipe"
SERVICE_LABEL = LABEL + "service"

PREPARE = "prepare"
RUNNER_LOCK = "locks/runner.txt"
CUDA_LOCK = "locks/cuda.txt"


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """An image of one runner and flavour. ``recipe`` is the SHA-256 of all that is in it but the service's code and
    the base's content; ``service`` is the digest of that code. ``prepare`` lists the source files, relative to the
    staged service, that the runner's preparation imports."""

    spec: RunnerSpec
    flavour: str
    lock: Path
    cuda_lock: Path
    pip_lock: Path
    staged: Staged
    lock_digest: str
    recipe: str
    prepare: tuple[str, ...] = field(default=())

    @property
    def reference(self) -> str:
        return reference(self.spec.name, self.flavour)

    @property
    def base(self) -> str:
        """Name of the base image."""
        return base_name(self.spec.python)

    @property
    def service(self) -> str:
        return self.staged.digest

    def arguments(self, base_id: str) -> dict[str, str]:
        """Arguments of the build; ``base_id`` is the base image's id, for the record."""
        return {
            "BASE_IMAGE": self.base,
            "BASE_ID": base_id,
            "DEBIAN_PACKAGES": " ".join(self.spec.debian_packages),
            "PIP_LOCK": f"docker/pip/{self.pip_lock.name}",
            "LOCK": RUNNER_LOCK,
            "CUDA_LOCK": CUDA_LOCK,
            "INDEXES": " ".join(self.spec.indexes),
            "VARIABLES": variables(image_environment(self.spec)),
            "PREPARE": self.spec.prepare or "",
            "PREPARE_SOURCE": PREPARE,
            "ADAPTER": self.spec.adapter,
            "RUNNER": self.spec.name,
            "FLAVOUR": self.flavour,
            "VERSION": controller.__version__,
            "LOCK_DIGEST": self.lock_digest,
            "RECIPE_DIGEST": self.recipe,
            "SERVICE_DIGEST": self.service,
        }


def reference(runner: str, flavour: str) -> str:
    """Name of a runner's image, such as "trainyard/pytorch-1.9.1:cpu"."""
    return f"{REPOSITORY}/{runner}:{flavour}"


def base_name(python: str) -> str:
    """The public image of that Python; the offline one carries the same name."""
    return f"python:{python}-slim-{DISTRIBUTION}"


def docker_folder() -> Path:
    """The repository's ``docker`` folder; in an installed package it lies in this one."""
    beside = Path(controller.__file__).parents[1] / "docker"
    return beside if (beside / "Dockerfile").is_file() else Path(__file__).parent / "docker"


def plan(spec: RunnerSpec, flavour: str, staged: Staged) -> ImagePlan:
    """The image that ``spec`` needs for "cpu" or "gpu". Raises UsageError when it has no such build."""
    lock = spec.lock(flavour)
    refuse_own_code(spec)
    folder = docker_folder()
    cuda_lock = cuda_file(spec, flavour, folder)
    pip_lock = pip_file(spec.python, folder)
    prepare = module_files.closure(staged.folder, spec.prepare) if spec.prepare else ()
    parts = {
        "format": _FORMAT,
        "runner": spec.name,
        "flavour": flavour,
        "base": base_name(spec.python),
        "adapter": spec.adapter,
        "debian": spec.debian_packages,
        "indexes": spec.indexes,
        "environment": image_environment(spec),
        "files": {name: _digest(folder / name) for name in ("Dockerfile", "entrypoint.sh", "variables.sh")},
        "locks": [_digest(path) for path in (lock, cuda_lock, pip_lock)],
        "prepare": {name: _digest(staged.folder / name) for name in prepare},
    }
    recipe = hashlib.sha256(json.dumps(parts, sort_keys=True).encode("utf-8")).hexdigest()
    return ImagePlan(spec, flavour, lock, cuda_lock, pip_lock, staged, _digest(lock), recipe, prepare)


def refuse_own_code(spec: RunnerSpec) -> None:
    """An image holds the service's code, whose digest all runners of a comparison share. Raises UsageError."""
    if spec.own_code:
        message = f"{spec.name} has an adapter of your own, which images do not hold"
        raise UsageError(message, "add --runtime venv")


def cuda_file(spec: RunnerSpec, flavour: str, folder: Path) -> Path:
    """CUDA's libraries as hashed packages, for a framework whose own packages do not bring them; else an empty file."""
    path = folder / "cuda" / f"{spec.framework}-{spec.cuda}.txt"
    return path if flavour == "gpu" and spec.cuda and path.is_file() else folder / "cuda" / "none.txt"


def pip_file(python: str, folder: Path) -> Path:
    """The pinned installer; Python 3.6 has an older one."""
    special = folder / "pip" / f"pip-py{python.replace('.', '')}.txt"
    return special if special.is_file() else folder / "pip" / "pip.txt"


def image_environment(spec: RunnerSpec) -> dict[str, str]:
    """The runner's variables inside an image."""
    return {**spec.environment, **spec.image_environment}


def variables(environment: Mapping[str, str]) -> str:
    """A runner's variables as assignments of the shell, one a line."""
    return "\n".join(
        f"{name}={shlex.quote(value.replace('{environment}', ENVIRONMENT))}" for name, value in environment.items()
    )


def repository_path(path: Path) -> str:
    """A file of the repository relative to its root, for those who build from there."""
    for root in (runners_folder().parent, docker_folder().parent):
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.as_posix()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
