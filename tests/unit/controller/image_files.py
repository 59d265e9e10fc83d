"""A small catalog with files of its own, for tests of images."""

import pytest
import trainyard

from controller.catalog.runners import Locks, RunnerSpec, runners_folder
from controller.runtimes.service import stage

SOURCES = {
    "runners/__init__.py": "",
    "runners/core/__init__.py": "",
    "runners/core/used.py": "import os\n",
    "runners/core/server.py": "from runners.core import used\n",
    "runners/lab/__init__.py": "",
    "runners/lab/adapter.py": "from runners.core import server\n",
    "runners/lab/prepare.py": "import sys\n\n\ndef main():\n    from runners.lab import warm\n",
    "runners/lab/warm.py": "from trainyard.v1 import workload_pb2\nfrom runners.core.used import os\n",
    "trainyard/__init__.py": "",
    "trainyard/source.py": "",
    "trainyard/v1/__init__.py": "",
    "trainyard/v1/workload_pb2.py": "",
}


class House:
    """A repository in a temporary folder."""

    def __init__(self, folder):
        self.folder = folder
        for name, text in SOURCES.items():
            self.write(name, text)
        self.write("runners/lab/locks/1.txt", "numpy==1.0 --hash=sha256:aa\n")
        self.write("runners/lab/locks/1-gpu.txt", "numpy==1.0 --hash=sha256:bb\n")

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    @property
    def staged(self):
        return stage(
            self.folder / "cache", {"runners": self.folder / "runners", "trainyard": self.folder / "trainyard"}
        )

    def spec(self, **changed):
        given = {
            "name": "lab-1",
            "version": "1",
            "distribution": "lab",
            "python": "3.9",
            "locks": Locks(cpu="locks/1.txt", gpu="locks/1-gpu.txt"),
            "framework": "lab",
            "display_name": "Lab",
            "adapter": "runners.lab.adapter",
            "homepage": "https://example.org",
            "folder": self.folder / "runners" / "lab",
            "environment": {"LAB_HOME": "{environment}/lab", "WORDS": "two words"},
            "prepare": "runners.lab.prepare",
        }
        return RunnerSpec(**{**given, **changed})


@pytest.fixture
def house_of_images(tmp_path):
    assert runners_folder().is_dir() and trainyard.__file__
    return House(tmp_path / "house")
