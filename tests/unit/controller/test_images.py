"""What an image is made from, when one is stale, and images as a file."""

import io
import json
import os
import shutil
import subprocess
import tarfile

import pytest

from controller.catalog import module_files
from controller.catalog.runners import Locks, own_python
from controller.errors import HostError, UsageError
from controller.images import archives, bake, building, contexts, recipes, states
from controller.images.bases import _pip_configuration
from tests.unit.controller.fake_engine import engine
from tests.unit.controller.image_files import house_of_images  # noqa: F401


def plan(house, **changed):
    return recipes.plan(house.spec(**changed), "cpu", house.staged)


def labels(item, base="sha256:base"):
    """Of an image that was built from it, as the Dockerfile writes them."""
    arguments = item.arguments(base)
    names = {"runner": "RUNNER", "lock": "LOCK_DIGEST", "recipe": "RECIPE_DIGEST", "service": "SERVICE_DIGEST"}
    return {f"org.trainyard.{name}": arguments[argument] for name, argument in names.items()}


def test_an_image_is_stale_by_exactly_what_has_changed(house_of_images):  # noqa: F811
    house = house_of_images
    built = labels(plan(house))
    assert states.staleness(plan(house), built) == ""
    assert states.staleness(plan(house), {}) == "it was not built by this tool"
    assert "runner.toml" in states.staleness(plan(house, debian_packages=("g++",)), built)
    assert "runner.toml" in states.staleness(plan(house, environment={"A": "1"}), built)
    house.write("runners/core/server.py", "changed = True\n")
    assert states.staleness(plan(house), built) == "the service's code has changed"
    assert plan(house).recipe == built["org.trainyard.recipe"]  # so that nothing but the last layer is built again
    house.write("runners/lab/warm.py", "changed = True\n")
    assert "Dockerfile or its part" in states.staleness(plan(house), built)
    house.write("runners/lab/locks/1.txt", "numpy==2.0 --hash=sha256:cc\n")
    assert states.staleness(plan(house), built) == "its lock 1.txt has changed"


def test_the_preparation_depends_on_what_it_imports_and_nothing_else(house_of_images):  # noqa: F811
    found = module_files.closure(house_of_images.staged.folder, "runners.lab.prepare")
    assert found == (
        "runners/__init__.py",
        "runners/core/__init__.py",
        "runners/core/used.py",
        "runners/lab/__init__.py",
        "runners/lab/prepare.py",
        "runners/lab/warm.py",
        "trainyard/__init__.py",
        "trainyard/v1/__init__.py",
        "trainyard/v1/workload_pb2.py",
    )


def test_the_context_is_the_same_for_the_same_files_and_holds_what_is_named(house_of_images):  # noqa: F811
    house = house_of_images
    first = contexts.pack(plan(house)).getvalue()
    os.utime(house.folder / "runners" / "lab" / "locks" / "1.txt", (1, 1))
    assert contexts.pack(plan(house)).getvalue() == first
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        names = set(archive.getnames())
    arguments = plan(house).arguments("")
    for needed in ("docker/Dockerfile", "docker/entrypoint.sh", "docker/variables.sh", "runners/core/server.py"):
        assert needed in names
    assert {arguments["LOCK"], arguments["CUDA_LOCK"], arguments["PIP_LOCK"]} <= names
    assert {"prepare/runners/lab/prepare.py", "prepare/proto/trainyard/v1/workload_pb2.py"} <= names
    assert "prepare/runners/core/server.py" not in names


def test_the_dockerfile_takes_every_argument_and_no_builder_of_its_own():
    text = (recipes.docker_folder() / "Dockerfile").read_text()
    declared = {line.split()[1].partition("=")[0] for line in text.splitlines() if line.startswith("ARG ")}
    from controller.catalog import runners
    from controller.runtimes.service import Staged

    spec = next(iter(runners.load().values())).model_copy(update={"prepare": None})
    given = recipes.plan(spec, "cpu", Staged(recipes.docker_folder(), "0")).arguments("")
    assert set(given) == declared
    assert "--mount" not in "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert "<<" not in text


def test_variables_reach_the_shell_as_they_are(house_of_images, tmp_path):  # noqa: F811
    text = recipes.variables({"A": 'quote " and $HOME', "B": "{environment}/x", "C": ""})
    file = tmp_path / "environment"
    file.write_text(text)
    shell = shutil.which("sh") or pytest.skip("no shell")
    code = f'set -a; . {file}; set +a; printf "%s|%s|%s" "$A" "$B" "$C"'
    done = subprocess.run([shell, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == 'quote " and $HOME|/opt/environment/x|'


def test_cuda_comes_with_the_framework_that_has_none(house_of_images):  # noqa: F811
    spec = house_of_images.spec(framework="tensorflow", cuda="11.2", prepare=None)
    folder = recipes.docker_folder()
    assert recipes.cuda_file(spec, "gpu", folder).name == "tensorflow-11.2.txt"
    assert recipes.cuda_file(spec, "cpu", folder).read_text() == ""
    torch = house_of_images.spec(framework="pytorch", cuda="10.2", prepare=None)
    assert recipes.cuda_file(torch, "gpu", folder).read_text() == ""


def test_an_old_python_gets_an_installer_that_it_can_run():
    assert recipes.pip_file("3.6", recipes.docker_folder()).name == "pip-py36.txt"
    assert recipes.pip_file("3.12", recipes.docker_folder()).name == "pip.txt"


def test_a_runner_without_a_build_for_gpus_has_no_such_image(house_of_images):  # noqa: F811
    spec = house_of_images.spec(locks=Locks(cpu="locks/1.txt"))
    with pytest.raises(UsageError, match="no build for GPUs"):
        recipes.plan(spec, "gpu", house_of_images.staged)


def test_the_state_of_an_image_comes_from_the_engine(house_of_images):  # noqa: F811
    item = plan(house_of_images)
    image = {"Id": "sha256:1", "Size": 5, "Created": "2024-05-01T10:00:00.123Z", "Config": {"Labels": labels(item)}}
    assert states.look(engine(), item).kind == states.ABSENT
    ready = states.look(engine({item.reference: image}), item)
    assert (ready.kind, ready.identifier, ready.size_bytes) == (states.READY, "sha256:1", 5)
    old = states.look(engine({item.reference: {**image, "Config": {"Labels": None}}}), item)
    assert old.kind == states.STALE


@pytest.mark.skipif(own_python() != "3.11", reason="the reference runner has the Python of whoever writes the files")
@pytest.mark.parametrize(("name", "write"), [(bake.BAKE, bake.bake), (bake.COMPOSE, bake.compose)])
def test_the_files_for_bake_and_compose_are_current(name, write):
    message = f"docker/{name} is not what the runners declare: run python -m controller.images.bake"
    assert (recipes.docker_folder() / name).read_text() == write(), message


def test_proxies_of_this_machine_alone_are_of_no_use_inside():
    found = building.proxies(
        {"HTTP_PROXY": "http://127.0.0.1:3128", "https_proxy": "proxy.lab:8080", "NO_PROXY": "localhost", "PATH": "x"}
    )
    assert found == {"https_proxy": "proxy.lab:8080", "NO_PROXY": "localhost"}


def test_pip_in_a_base_image_learns_no_password_and_no_folder():
    text = _pip_configuration(
        {
            "index-url": "https://user:secret@index.lab/simple",
            "extra-index-url": "file:///opt/x https://more.lab/simple",
        }
    )
    assert "secret" not in text
    assert "extra-index-url = https://more.lab/simple" in text
    assert "file:" not in text


# --- images as a file ------------------------------------------------------------------------------------------


class Saving:
    """The part of the engine that saves and loads: an image is its own bytes here."""

    def __init__(self, content=b"image bytes " * 1000):
        self.content = content
        self.loaded = b""

    def put_into(self, found):
        api = found.client.api
        api._url = lambda path: path
        api._get = lambda *_, **__: self
        api._raise_for_status = lambda _: None
        api.load_image = self._load
        return found

    def iter_content(self, size):
        for start in range(0, len(self.content), 1000):
            yield self.content[start : start + 1000]

    def _load(self, chunks):
        self.loaded = b"".join(chunks)
        return []


IMAGE = {"Id": "sha256:1", "Config": {"Labels": {"org.trainyard.runner": "lab-1", "org.trainyard.lock": "aa"}}}


def _saved(tmp_path):
    saving = Saving()
    found = saving.put_into(engine({"trainyard/lab-1:cpu": IMAGE}))
    file = tmp_path / "images.tar"
    archives.save(found, ["trainyard/lab-1:cpu"], file, lambda size: None)
    return found, saving, file


def test_a_saved_file_is_a_plain_tar_with_digests_and_loads_again(tmp_path):
    found, saving, file = _saved(tmp_path)
    with tarfile.open(file) as archive:
        assert archive.getnames() == ["images.tar", "trainyard-images.json"]
        document = json.load(archive.extractfile("trainyard-images.json"))
        assert archive.extractfile("images.tar").read() == saving.content
    assert document["images"][0]["identifier"] == "sha256:1"
    assert document["images"][0]["lock"] == "aa"
    assert [entry.runner for entry in archives.load(found, file, lambda size: None)] == ["lab-1"]
    assert saving.loaded == saving.content


def test_a_damaged_file_loads_nothing(tmp_path):
    found, saving, file = _saved(tmp_path)
    content = bytearray(file.read_bytes())
    content[2000] ^= 1
    file.write_bytes(content)
    with pytest.raises(UsageError, match="is damaged"):
        archives.load(found, file, lambda size: None)
    assert saving.loaded == b""


def test_an_image_that_came_out_otherwise_is_not_accepted(tmp_path):
    found, _, file = _saved(tmp_path)
    found.client.api.known["trainyard/lab-1:cpu"] = {**IMAGE, "Id": "sha256:2"}
    with pytest.raises(HostError, match="has become sha256:2, not sha256:1"):
        archives.load(found, file, lambda size: None)


def test_other_files_are_refused(tmp_path):
    file = tmp_path / "x.tar"
    file.write_bytes(b"nothing")
    with pytest.raises(UsageError, match="no archive of images"):
        archives.read(file)
    with pytest.raises(HostError, match="there is no image"):
        archives.save(engine(), ["trainyard/none:cpu"], file, lambda size: None)
