"""Where the engine is looked for, what its errors mean, and what it can be relied on for."""

import hashlib
import json
import os
import platform
import socket
import time

import psutil
import pytest

from controller.errors import HostError, UnknownNameError
from controller.runtimes import engine as engines
from controller.runtimes import engine_address, reaping, ssh_tunnel, temporary
from controller.runtimes.engine_errors import is_network, translated
from tests.unit.controller import engine_texts
from tests.unit.controller.fake_engine import engine


def context(folder, name, url, current=False, tls=False):
    identifier = hashlib.sha256(name.encode()).hexdigest()
    meta = folder / "contexts" / "meta" / identifier
    meta.mkdir(parents=True)
    endpoint = {"Host": url, "SkipTLSVerify": False}
    (meta / "meta.json").write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": {"docker": endpoint}}))
    if tls:
        (folder / "contexts" / "tls" / identifier / "docker").mkdir(parents=True)
    if current:
        (folder / "config.json").write_text(json.dumps({"currentContext": name}))


def test_the_address_is_found_as_the_command_line_finds_it(tmp_path):
    context(tmp_path, "lab", "ssh://ada@lab", current=True)
    context(tmp_path, "cluster", "tcp://10.0.0.5:2376", tls=True)
    variables = {"DOCKER_CONFIG": str(tmp_path)}
    assert engine_address.find("", variables).url == "ssh://ada@lab"
    assert engine_address.find("", variables | {"DOCKER_CONTEXT": "cluster"}).url == "tcp://10.0.0.5:2376"
    assert engine_address.find("", variables | {"DOCKER_HOST": "tcp://[::1]:1"}).url == "tcp://[::1]:1"
    named = engine_address.find("cluster", variables | {"DOCKER_HOST": "tcp://[::1]:1"})
    assert (named.url, named.context, named.verified) == ("tcp://10.0.0.5:2376", "cluster", True)
    assert named.certificates is not None
    assert engine_address.find("default", variables).scheme in {"unix", "npipe"}


def test_an_unknown_context_is_named_with_those_that_exist(tmp_path):
    context(tmp_path, "lab", "ssh://ada@lab")
    with pytest.raises(UnknownNameError, match=r"unknown Docker context 'labs'") as caught:
        engine_address.find("labs", {"DOCKER_CONFIG": str(tmp_path)})
    assert "did you mean 'lab'" in caught.value.line()


def test_without_a_socket_nothing_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    assert engines.find() is None
    with pytest.raises(HostError, match=r"no Docker engine: .*docker\.sock does not exist"):
        engines.connect()


def test_a_socket_that_nobody_listens_on_is_one_line(tmp_path, monkeypatch):
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    assert engines.find() is None
    with pytest.raises(HostError, match="the Docker engine does not answer; start it, or use --runtime venv"):
        raise HostError(_failure().line())


def _failure():
    with pytest.raises(HostError) as caught:
        engines.connect()
    return caught.value


@pytest.mark.parametrize(("text", "meaning"), engine_texts.RECORDED)
def test_recorded_errors_become_one_line_with_a_remedy(text, meaning):
    error = translated(text, "starting pytorch-1.9.1")
    assert error.message.startswith("starting pytorch-1.9.1: ")
    assert meaning in error.message
    assert error.hint
    assert "\n" not in error.line()


def test_an_error_that_is_not_known_is_passed_on():
    assert "the Docker engine said: something new" in translated("something\n new", "x").line()


def test_a_registry_out_of_reach_is_told_from_a_missing_image():
    assert all(is_network(text) for text in engine_texts.NETWORK)
    assert not any(is_network(text) for text in engine_texts.NOT_NETWORK)


def test_an_engine_is_local_only_when_it_shares_our_files():
    assert engine(Name=platform.node()).is_local
    assert not engine(Name="another-machine").is_local
    assert not engine(Name=platform.node(), OperatingSystem="Docker Desktop").is_local
    assert not engine(url="ssh://lab", Name=platform.node()).is_local


def test_the_nvidia_runtime_is_seen_where_the_engine_tells():
    assert engine(Runtimes={"runc": {}, "nvidia": {}}).has_nvidia_runtime() is True
    assert engine(DiscoveredDevices=[{"Source": "cdi", "ID": "nvidia.com/gpu=all"}]).has_nvidia_runtime() is True
    assert engine().has_nvidia_runtime() is None


def test_a_hook_on_the_path_counts_on_this_machine(tmp_path, monkeypatch):
    own = engine(Name=platform.node())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(engines, "_SYSTEM_PATH", str(tmp_path))
    assert own.has_nvidia_runtime() is False
    (tmp_path / "nvidia-container-runtime-hook").touch(0o755)
    assert own.has_nvidia_runtime() is True


# --- whose containers they are ---------------------------------------------------------------------------------


def _container(owner, identifier="c1"):
    labels = {"org.trainyard.role": "trial", "org.trainyard.runner": "reference", "org.trainyard.owner": owner}
    return {"Id": identifier, "Labels": labels}


def test_only_containers_of_dead_controllers_are_reaped():
    host, number, created = reaping.owner().rsplit("/", 2)
    dead = f"{host}/{number}/{float(created) - 100}"
    elsewhere = f"somewhere-else/1/{time.time()}"
    found = engine(
        containers=[
            _container(reaping.owner(), "mine"),
            _container(dead, "same number, other process"),
            _container(f"{host}/{_free_number()}/1.0", "no such process"),
            _container(elsewhere, "elsewhere"),
            _container("nonsense", "unreadable"),
        ]
    )
    reaping.reap(found)
    assert found.client.api.removed == ["same number, other process", "no such process", "unreadable"]
    reaping.reap(found, everything=True)
    assert {"mine", "elsewhere"} <= set(found.client.api.removed)


def _free_number():
    return next(number for number in range(60000, 1000, -1) if not psutil.pid_exists(number))


def test_a_label_removes_no_folder_but_our_own(tmp_path):
    own, other = reaping.new_folder(), tmp_path / "precious"
    deeper = other / f"{reaping.FOLDER_PREFIX}y"
    own.rmdir()
    for folder in (own, other, deeper):
        folder.mkdir()
        found = engine(containers=[_container("nonsense", folder.name)])
        found.client.api.running[0]["Labels"]["org.trainyard.folder"] = str(folder)
        reaping.reap(found)
    assert (own.exists(), other.exists(), deeper.exists()) == (False, True, True)


def test_the_socket_has_a_path_that_fits(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr(temporary.tempfile, "gettempdir", lambda: str(long))
    folder = reaping.new_folder()
    try:
        assert len(os.fsencode(folder / "run" / "runner.sock")) < 108
        assert folder.stat().st_mode & 0o077 == 0
    finally:
        folder.rmdir()


def test_an_engine_over_ssh_is_dialled_as_dockers_own_command_does():
    words = ssh_tunnel.command("ssh://ada@lab:2222")
    assert words[-3:] == ["--", "lab", "docker system dial-stdio"]
    assert words[words.index("-l") + 1] == "ada"
    assert words[words.index("-p") + 1] == "2222"


def test_what_ssh_complains_about_is_told(tmp_path, monkeypatch):
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\necho 'ada@lab: Permission denied (publickey).' >&2\nexit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    context(tmp_path, "lab", "ssh://ada@lab")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with pytest.raises(HostError, match=r"no Docker engine answers over ssh: ada@lab: Permission denied \(publickey\)"):
        engines.connect("lab")
