"""A small campaign in a process of its own, which a test may kill: ``python -m ... FOLDER [CAMPAIGN]`` runs one of
made-up frameworks with its store in FOLDER, or continues one."""

import shutil
import sys
from pathlib import Path

import trainyard
from trainyard.source import source_digest

from controller import campaign, places, preparation
from controller.catalog import workloads
from controller.preparation import CompareRequest
from controller.runtimes.service import Staged
from controller.store import Store
from tests.unit.controller.test_campaign import ROOT, WORKLOAD, FakeRuntime, spec

RUNNERS = ("good", "child-free")
TRIALS = 3


def furnish(folder):
    """Puts the fakes in place of what this machine has, as ``test_campaign.house`` does."""
    service = folder / "service"
    if not service.exists():
        for source in (ROOT / "runners", Path(trainyard.__file__).parent, ROOT / "tests" / "fakes"):
            shutil.copytree(source, service / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "tiny.toml").write_text(WORKLOAD)
    digest = source_digest({name: str(service / name) for name in ("runners", "trainyard")})
    preparation.stage = lambda: Staged(service, digest)
    places.VenvRuntime = lambda gpu: FakeRuntime(folder)
    places.runner_catalog.select = lambda names: [spec(name) for name in names]


def main(folder, name):
    furnish(folder)
    store = Store(folder / "results.sqlite")
    resumed = store.find(name) if name else None
    request = CompareRequest(
        workloads=(workloads.find(str(folder / "tiny.toml")),), runners=RUNNERS, trials=TRIALS, order_seed=3,
        verify=False, resumed=resumed,
    )  # fmt: skip
    campaign.run(request, lambda event: None, store)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
