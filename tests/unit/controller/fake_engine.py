"""An engine for tests that start no container: its client answers from dictionaries."""

from controller.runtimes.engine import Engine
from controller.runtimes.engine_address import EngineAddress

INFO = {
    "ID": "FAKE",
    "Name": "another-machine",
    "ServerVersion": "26.1.5",
    "OSType": "linux",
    "OperatingSystem": "Debian GNU/Linux 12 (bookworm)",
    "Architecture": "x86_64",
    "NCPU": 8,
    "MemTotal": 64 * 10**9,
    "MemoryLimit": True,
    "CpuCfsQuota": True,
    "CPUSet": True,
    "PidsLimit": True,
    "Runtimes": {"runc": {"path": "runc"}},
    "SecurityOptions": ["name=seccomp,profile=builtin"],
    "DockerRootDir": "/var/lib/docker",
}


class Api:
    """The part of docker.APIClient that is called. ``images``: what inspecting a name or id answers."""

    def __init__(self, images=None, containers=None):
        self.known = dict(images or {})
        self.running = list(containers or [])
        self.removed = []

    def inspect_image(self, name):
        from docker.errors import ImageNotFound

        if name not in self.known:
            raise ImageNotFound(f"No such image: {name}")
        return self.known[name]

    def containers(self, **_):
        return self.running

    def remove_container(self, identifier, **_):
        from docker.errors import NotFound

        if identifier in self.removed:
            raise NotFound("gone")
        self.removed.append(identifier)

    def inspect_container(self, identifier):
        from docker.errors import NotFound

        raise NotFound(f"No such container: {identifier}")


class Client:
    def __init__(self, api):
        self.api = api


def engine(images=None, containers=None, url="unix:///run/fake.sock", **info):
    """An engine of another machine, unless ``Name`` says otherwise."""
    return Engine(EngineAddress(url), Client(Api(images, containers)), {**INFO, **info})
