"""docs/add-a-framework.md followed to the letter: a version that Trainyard does not have, added without any Python."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests import environments
from tests.environments import DATA, ROOT

pytestmark = [pytest.mark.framework, pytest.mark.timeout(3600)]

PAGE = ROOT / "docs" / "add-a-framework.md"


def commands(name):
    """The command lines of the page's block of that name."""
    block = re.search(rf"<!-- tutorial: {name} -->\n```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [shlex.split(line, comments=True) for line in block[1].splitlines() if line.strip()]


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """Variables of somebody who has nothing yet. Settings shorten the comparison; the cache is that of all tests."""
    home = tmp_path_factory.mktemp("user")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
    if "TRAINYARD_CACHE" in os.environ:
        variables["TRAINYARD_CACHE"] = os.environ["TRAINYARD_CACHE"]
    if (DATA / "mnist.npz").is_file():
        variables["TRAINYARD_DATA_DIR"] = str(DATA)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "proto")])
    return variables | {"TRAINYARD_DATA": str(home), "TRAINYARD_TRIALS": "1", "PYTHONPATH": paths}


def controller(user, *words):
    # In a folder of the user's own: in the checkout runners would be written into the checkout.
    command = [sys.executable, "-m", "controller", *words]
    folder = user["TRAINYARD_DATA"]
    return subprocess.run(command, env=user, cwd=folder, capture_output=True, text=True, check=False)


def test_a_new_version_is_added_and_compared_by_the_commands_of_the_page(user):
    lines = commands("version")
    assert [words[0] for words in lines] == ["controller"] * len(lines)
    for words in lines:
        done = controller(user, *words[1:])
        if done.returncode and words[1] == "lock" and not environments.REQUIRED:
            pytest.skip(f"no package index: {done.stderr}")
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stdout}{done.stderr}"
    assert not list(Path(user["TRAINYARD_DATA"], "runners").rglob("*.py"))
    document = json.loads(controller(user, "show", "--json").stdout)
    rows = {row["runner"]: row for row in document["rows"]}
    assert set(rows) == {"pytorch-1.10.2", "reference"}
    assert all(row["trials"]["succeeded"] == 1 for row in rows.values())
    trials = [trial for trial in document["trials"] if trial["cell"]["runner"] == "pytorch-1.10.2"]
    assert trials[0]["identity"]["versions"]["torch"] == "1.10.2"
    digests = {trial["identity"]["service_digest"] for trial in document["trials"]}
    assert len(digests) == 1


def test_a_new_framework_is_refused_layer_by_layer_until_it_is_written(user):
    """The skeleton in an environment of its own; then an adapter that does the work, here the reference's."""
    folder = Path(user["TRAINYARD_DATA"], "runners", "numpything")
    added = controller(user, "new", "runner", "numpything-1.26.4", "--distribution", "numpy", "--python", "3.11")
    assert added.returncode == 0, added.stderr
    locked = controller(user, "lock", "numpything-1.26.4")
    if locked.returncode and not environments.REQUIRED:
        pytest.skip(f"no package index: {locked.stderr}")
    assert locked.returncode == 0, locked.stderr
    model = str(ROOT / "tests/integration/models/mlp.toml")
    asked = ["--runner", "numpything-1.26.4", "--workload", model, "--runtime", "venv"]
    refused = controller(user, "verify", *asked)
    assert "not supported: Numpything has no layer flatten" in refused.stdout, refused.stdout + refused.stderr
    adapter = folder / "adapter.py"
    adapter.write_text(
        "import numpy\nfrom runners.core.adapter import Description\n"
        "from runners.reference import adapter as reference\n\n\n"
        "class Other(reference.ReferenceAdapter):\n    def describe(self):\n"
        "        known = super().describe()\n"
        "        return Description('Numpything', {'numpy': numpy.__version__}, known.layers, known.losses,\n"
        "                           known.optimizers, known.variants)\n\n\nADAPTER = Other\n"
    )
    compared = controller(user, "compare", *asked, "--runner", "reference", "--steps", "20", "--output", "json")
    assert compared.returncode == 0, compared.stderr
    document = json.loads(compared.stdout)
    assert {row["runner"]: row["trials"]["succeeded"] for row in document["rows"]} == {
        "numpything-1.26.4": 1,
        "reference": 1,
    }
    assert len({trial["identity"]["service_digest"] for trial in document["trials"]}) == 1
