"""Runner files: found, checked, and refused with one line that names the file and the field."""

import pytest

from controller.catalog import runners
from controller.errors import UnknownNameError, UsageError
from tests.unit.controller.fake_runners import House, write


@pytest.fixture
def house(tmp_path):
    return House(tmp_path)


def test_the_runners_of_this_repository_are_sound():
    specs = runners.load()
    assert "reference" in specs
    assert all(spec.lock("cpu").is_file() for spec in specs.values())


def test_an_empty_python_means_the_controllers_own(house):
    assert house.add("tiny-1").python == runners.own_python()


def test_default_runners_are_selected_when_none_is_named(house):
    house.add("first")
    house.add("second", default=False)
    assert [spec.name for spec in runners.select([], house.specs())] == ["first"]


def test_named_runners_are_selected_once_in_the_order_asked(house):
    house.add("first")
    house.add("second", default=False)
    chosen = runners.select(["second", "first", "second"], house.specs())
    assert [spec.name for spec in chosen] == ["second", "first"]


def test_an_unknown_runner_names_the_close_one(house):
    house.add("tiny-1.0")
    with pytest.raises(UnknownNameError, match="unknown runner") as raised:
        runners.select(["tiny-1.1"], house.specs())
    assert "did you mean 'tiny-1.0'?" in raised.value.line()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("colour = 1", "runner.0.colour: Extra inputs are not permitted"),
        ('platforms = "linux"', "runner.0.platforms"),
        ('prepare = "os.system"', "runner.0.prepare"),
        ('gpu_architectures = ["volta"]', "runner.0.gpu_architectures.0"),
        ('indexes = ["/etc"]', "runner.0.indexes.0"),
        ('prepare = "runners.tiny.absent"', "module runners.tiny.absent does not exist"),
        ("= 3", "cannot be read"),
    ],
)
def test_a_bad_block_is_one_line_with_file_and_field(house, line, told):
    with pytest.raises(UsageError) as raised:
        house.add("tiny-1", more=line)
    assert str(house.runners / "tiny" / "runner.toml") in raised.value.line()
    assert told in raised.value.line()
    assert "\n" not in raised.value.line()


def test_a_missing_lock_is_named(house):
    house.add("tiny-1")
    (house.runners / "tiny" / "locks" / "tiny-1.txt").unlink()
    with pytest.raises(UsageError, match=r"tiny-1: lock file locks/tiny-1\.txt does not exist"):
        house.specs()


def test_a_lock_outside_of_the_framework_is_refused(house):
    house.add("tiny-1")
    path = house.runners / "tiny" / "runner.toml"
    path.write_text(path.read_text().replace("locks/tiny-1.txt", "../../secret.txt"))
    with pytest.raises(UsageError, match=r"locks\.cpu"):
        house.specs()


def test_two_runners_of_one_name_are_refused(house):
    house.add("tiny-1")
    with pytest.raises(UsageError, match="is taken"):
        house.add("tiny-1")


def test_the_framework_is_the_folder(house):
    house.add("tiny-1")
    text = (house.runners / "tiny" / "runner.toml").read_text()
    write(house.runners / "other" / "runner.toml", text)
    with pytest.raises(UsageError, match="must be the folder's name, 'other'"):
        house.specs()


def test_a_runner_without_gpu_build_says_so(house):
    with pytest.raises(UsageError, match="has no build for GPUs"):
        house.add("tiny-1").lock("gpu")


def test_a_cuda_build_serves_both_devices_with_one_lock(house):
    spec = house.add("tiny-1", more='cuda = "10.2"')
    assert spec.lock("gpu") == spec.lock("cpu")
