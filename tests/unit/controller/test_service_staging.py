"""The staged copy of the service: true, whole, and the same for everyone."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trainyard
from trainyard.source import source_digest

from controller.catalog.runners import runners_folder
from controller.runtimes import service
from controller.runtimes.service import stage
from tests.unit.controller.fake_runners import OWN_PYTHON, write


@pytest.fixture
def sources(tmp_path):
    write(tmp_path / "runners" / "__init__.py", "")
    write(tmp_path / "runners" / "core" / "server.py", "answer = 42\n")
    write(tmp_path / "runners" / "core" / "__pycache__" / "server.cpython-30.pyc", "stale")
    write(tmp_path / "runners" / "core" / "notes.txt", "not source")
    write(tmp_path / "trainyard" / "v1" / "a.proto", "syntax = 'proto3';\n")
    return {"runners": tmp_path / "runners", "trainyard": tmp_path / "trainyard"}


def test_the_copy_holds_the_source_and_nothing_else(tmp_path, sources):
    staged = stage(tmp_path / "cache", sources)
    files = {path.relative_to(staged.folder).as_posix() for path in staged.folder.rglob("*") if path.is_file()}
    assert files == {"runners/__init__.py", "runners/core/server.py", "trainyard/v1/a.proto"}


def test_the_real_service_is_staged_with_the_digest_that_it_will_report(tmp_path):
    staged = stage(tmp_path)
    copied = {name: str(staged.folder / name) for name in ("runners", "trainyard")}
    original = {"runners": str(runners_folder()), "trainyard": str(Path(trainyard.__file__).parent)}
    assert staged.digest == source_digest(copied) == source_digest(original)


def test_an_unchanged_source_is_staged_once(tmp_path, sources):
    first = stage(tmp_path / "cache", sources)
    before = (first.folder / "runners/core/server.py").stat().st_mtime_ns
    assert stage(tmp_path / "cache", sources) == first
    assert (first.folder / "runners/core/server.py").stat().st_mtime_ns == before


def test_a_changed_source_is_another_folder(tmp_path, sources):
    first = stage(tmp_path / "cache", sources)
    write(sources["runners"] / "core" / "server.py", "answer = 43\n")
    assert stage(tmp_path / "cache", sources).folder != first.folder
    assert "42" in (first.folder / "runners/core/server.py").read_text()


def test_a_damaged_copy_is_replaced(tmp_path, sources):
    staged = stage(tmp_path / "cache", sources)
    write(staged.folder / "runners" / "core" / "server.py", "answer = 666\n")
    assert stage(tmp_path / "cache", sources).folder == staged.folder
    assert "42" in (staged.folder / "runners/core/server.py").read_text()
    assert _copies(staged.folder.parent) == [staged.folder.name]


def test_many_at_once_get_one_whole_copy(tmp_path, sources):
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: stage(tmp_path / "cache", sources), range(16)))
    assert len(set(results)) == 1
    assert _copies(tmp_path / "cache" / "service") == [results[0].folder.name]


def test_a_copy_that_another_just_made_is_never_moved_away(tmp_path, sources, monkeypatch):
    """A runner may already import from it."""
    made = stage(tmp_path / "cache", sources)
    identity = made.folder.stat().st_ino
    looks = iter([None])  # it was not there when this controller looked first
    monkeypatch.setattr(service, "_staged_digest", lambda *given: next(looks, made.digest))
    assert stage(tmp_path / "cache", sources) == made
    assert made.folder.stat().st_ino == identity


def _copies(folder):
    return [path.name for path in folder.iterdir() if path.is_dir()]


def test_bytecode_does_not_change_the_digest(tmp_path, sources):
    staged = stage(tmp_path / "cache", sources)
    staged.compile(OWN_PYTHON, "3.0")
    assert list(staged.folder.rglob("*.pyc"))
    assert stage(tmp_path / "cache", sources) == staged
