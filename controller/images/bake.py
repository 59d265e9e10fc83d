"""Writes docker/docker-bake.hcl and docker/compose.yaml from the runners that are declared: ``python -m
controller.images.bake``. They are the ecosystem's usual ways in, for those who build and start images without this
tool; a test holds them to runners/*/runner.toml.
"""

import json
from collections.abc import Iterator

from controller.catalog import runners as catalog
from controller.catalog.runners import FLAVOURS, RunnerSpec
from controller.errors import UsageError
from controller.images.recipes import (
    ENVIRONMENT,
    base_name,
    cuda_file,
    docker_folder,
    image_environment,
    pip_file,
    reference,
    repository_path,
    variables,
)

BAKE, COMPOSE = "docker-bake.hcl", "compose.yaml"
_PORT = 50051
_HEAD = "# Written by `python -m controller.images.bake` from runners/*/runner.toml: change those, not this.\n"
_BAKE_HEAD = """\
# All runners' images with BuildKit, from the repository's root:
#
#     docker buildx bake -f docker/docker-bake.hcl                    # the default runners, for CPUs
#     docker buildx bake -f docker/docker-bake.hcl pytorch-1_11_0-gpu
#
# `controller compare` makes its own images (`controller build`): it measures none whose labels do not say what the
# image was made from.

target "runner" {
  context    = "."
  dockerfile = "docker/Dockerfile"
}
"""
_COMPOSE_HEAD = """\
# The default runners as services that stand, each on a port of this machine alone, from the repository's root:
#
#     docker compose -f docker/compose.yaml up --build reference
#
# `controller compare` does not need this: it starts a fresh container for every trial, without any network.

x-runner: &runner
  init: true
  read_only: true
  user: "10001:10001"
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  pids_limit: 4096
  shm_size: 4gb
  tmpfs: ["/tmp:rw,exec,nosuid,nodev,mode=1777,size=4g"]

services:
"""


def bake() -> str:
    """The text of docker-bake.hcl."""
    blocks = []
    for spec in _specs():
        for flavour in _flavours(spec):
            arguments = json.dumps(_arguments(spec, flavour), indent=4).replace("\n}", "\n  }").replace('": "', '" = "')
            blocks.append(
                f'target "{_target(spec, flavour)}" {{\n  inherits = ["runner"]\n'
                f'  tags     = ["{reference(spec.name, flavour)}"]\n  args = {arguments}\n}}\n'
            )
    default = json.dumps([_target(spec, "cpu") for spec in _specs() if spec.default])
    return "\n".join([_HEAD + _BAKE_HEAD, f'group "default" {{\n  targets = {default}\n}}\n', *blocks])


def compose() -> str:
    """The text of compose.yaml."""
    services = []
    chosen = [spec for spec in _specs() if spec.default or spec.framework == "reference"]
    for number, spec in enumerate(chosen):
        arguments = "".join(f"        {name}: {json.dumps(value)}\n" for name, value in _arguments(spec, "cpu").items())
        writable = "".join(f"      - {name.replace('{environment}', ENVIRONMENT)}\n" for name in spec.writable)
        services.append(
            f"  {spec.name}:\n    <<: *runner\n    image: {reference(spec.name, 'cpu')}\n"
            f"    build:\n      context: ..\n      dockerfile: docker/Dockerfile\n      args:\n{arguments}"
            f'    ports: ["127.0.0.1:{_PORT + number}:{_PORT}"]\n'
            f"    volumes:\n      - blobs:/opt/trainyard/blobs\n{writable}"
        )
    return _HEAD + _COMPOSE_HEAD + "\n".join(services) + "\nvolumes:\n  blobs:\n"


def _specs() -> list[RunnerSpec]:
    """Those that exist for Linux, which is what images are."""
    found = catalog.load(catalog.runners_folder()).values()
    return [spec for spec in found if not spec.platforms or any(name.startswith("linux-") for name in spec.platforms)]


def _flavours(spec: RunnerSpec) -> Iterator[str]:
    for flavour in FLAVOURS:
        try:
            spec.lock(flavour)
        except UsageError:
            continue
        yield flavour


def _target(spec: RunnerSpec, flavour: str) -> str:
    """Bake's names have no dots."""
    return f"{spec.name}-{flavour}".replace(".", "_")


def _arguments(spec: RunnerSpec, flavour: str) -> dict[str, str]:
    """As ``ImagePlan.arguments``, with paths in the repository and without the digests, which differ from commit to
    commit. What a preparation imports cannot be told apart here: it gets the whole repository."""
    folder = docker_folder()
    found = {
        "BASE_IMAGE": base_name(spec.python),
        "DEBIAN_PACKAGES": " ".join(spec.debian_packages),
        "PIP_LOCK": repository_path(pip_file(spec.python, folder)),
        "LOCK": repository_path(spec.lock(flavour)),
        "CUDA_LOCK": repository_path(cuda_file(spec, flavour, folder)),
        "INDEXES": " ".join(spec.indexes),
        "VARIABLES": variables(image_environment(spec)),
        "PREPARE": spec.prepare or "",
        "PREPARE_SOURCE": "." if spec.prepare else "docker/pip",
        "ADAPTER": spec.adapter,
        "RUNNER": spec.name,
        "FLAVOUR": flavour,
    }
    return {name: value for name, value in found.items() if value}


def main() -> None:
    for name, text in ((BAKE, bake()), (COMPOSE, compose())):
        (docker_folder() / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
