"""Downloads from a loopback server: whole, cut, resumed, corrupt, absent."""

import hashlib
import socket

import pytest

from controller.datasets import download as module
from controller.datasets.download import UnreachableError, download
from controller.datasets.sources import Source
from controller.errors import DatasetError
from tests.unit.controller.dataset_files import serving

CONTENT = bytes(range(256)) * 4096  # 1 MiB


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def source(url: str, content: bytes = CONTENT) -> Source:
    return Source("data.bin", hashlib.sha256(content).hexdigest(), url)


def fetch(server, folder, content: bytes = CONTENT) -> tuple[bytes, list[float | None]]:
    reports: list[float | None] = []
    path = download(source(server.url, content), folder, reports.append)
    assert path == folder / "data.bin"
    assert [entry.name for entry in folder.iterdir()] == ["data.bin"], "no partial file is left"
    return path.read_bytes(), reports


def test_a_whole_download_reports_its_progress_to_the_end(tmp_path):
    with serving(CONTENT) as server:
        content, reports = fetch(server, tmp_path)
    assert content == CONTENT
    assert reports == sorted(reports)
    assert reports[-1] == 1.0
    assert server.requests == [""]


def test_a_cut_connection_is_gone_on_with_where_it_ended(tmp_path):
    with serving(CONTENT) as server:
        server.cut = 400_000
        content, _ = fetch(server, tmp_path)
    assert content == CONTENT
    assert server.requests == ["", "bytes=400000-", "bytes=800000-"]


def test_a_connection_that_is_always_cut_gives_up_and_the_next_run_goes_on(tmp_path):
    with serving(CONTENT) as server:
        server.cut = 1000
        with pytest.raises(UnreachableError, match="ended after 4000 of 1048576 bytes"):
            download(source(server.url), tmp_path, lambda fraction: None)
        server.cut = None
        fetch(server, tmp_path)
    assert server.requests[-1] == "bytes=4000-"


def test_a_server_that_cannot_resume_sends_all_again(tmp_path):
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:5000])
    with serving(CONTENT) as server:
        server.ranges = False
        content, _ = fetch(server, tmp_path)
    assert content == CONTENT
    assert server.requests == ["bytes=5000-"]


def test_a_partial_file_that_is_whole_already_is_taken(tmp_path):
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    with serving(CONTENT) as server:
        content, _ = fetch(server, tmp_path)
    assert content == CONTENT
    assert server.requests == [f"bytes={len(CONTENT)}-"]


def test_a_partial_file_of_something_else_is_thrown_away_and_all_is_fetched_again(tmp_path):
    (tmp_path / "data.bin.part").write_bytes(b"x" * 5000)
    with serving(CONTENT) as server:
        content, _ = fetch(server, tmp_path)
    assert content == CONTENT
    assert server.requests == ["bytes=5000-", ""]


def test_other_contents_are_an_error_with_both_digests_and_nothing_is_kept(tmp_path):
    other = b"<html>please log in</html>"
    with serving(other) as server, pytest.raises(DatasetError) as caught:
        download(source(server.url), tmp_path, lambda fraction: None)
    assert hashlib.sha256(other).hexdigest() in caught.value.line()
    assert hashlib.sha256(CONTENT).hexdigest() in caught.value.line()
    assert not list(tmp_path.iterdir())


def test_an_http_error_says_its_number_at_once(tmp_path):
    with serving(CONTENT) as server:
        server.status = 404
        with pytest.raises(UnreachableError, match="HTTP 404"):
            download(source(server.url), tmp_path, lambda fraction: None)
    assert len(server.requests) == 1


def test_a_refused_connection_is_unreachable(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/file"
        with pytest.raises(UnreachableError, match="refused"):
            download(source(url), tmp_path, lambda fraction: None)


def test_a_server_that_never_answers_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "OPEN_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file"
        with pytest.raises(UnreachableError, match=r"no answer within 0\.2 s"):
            download(source(url), tmp_path, lambda fraction: None)
