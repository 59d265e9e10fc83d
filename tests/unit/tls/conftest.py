"""What the tests of TLS share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.tls.world import HOST, World, echo_server


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with echo_server(f"{HOST}:0") as address:
        yield address


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def foreign(tmp_path: Path) -> World:
    (tmp_path / "foreign").mkdir()
    return World(tmp_path / "foreign")
