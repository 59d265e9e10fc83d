"""Bundles: what is written is read again, and nothing that is damaged or made up gets further than one line."""

import hashlib
import io
import json
import struct
import zipfile
from dataclasses import replace

import pytest

from controller.bundles import format as bundles
from controller.bundles.records import BundleError, Saved
from controller.catalog import workloads
from controller.cli import main
from controller.errors import ControllerError, UsageError
from controller.results import FAILED, Failure
from controller.store import Store
from tests.unit.controller import made_up

WORKLOAD = workloads.summarise(workloads.load("resnet50-cifar10-b8").workload)


def saved(name="2026-12-02-abc", seconds=(37.0, 35.0), **changes):
    cell = made_up.cell("pytorch-1.11.0", WORKLOAD)
    whole = replace(made_up.campaign(cell, trials=len(seconds), workloads=(WORKLOAD,)), id=name, **changes)
    runs = [
        replace(trial, id=f"{name}-{trial.block}", campaign=name) for trial in made_up.trials(cell, *seconds, epochs=1)
    ]
    return normal(Saved(whole, tuple(runs)))


def normal(entry):
    """With steps that are float32, as all of the store are."""
    runs = [replace(t, measurement=replace(t.measurement, step_seconds=(0.5, 0.25))) for t in entry.trials]
    return Saved(entry.campaign, tuple(runs))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "win.trainyard"
    bundles.write(path, [saved()])
    return path


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(path, change, further=()):
    """The file with changed members, and digests that fit them."""
    found = members(path)
    manifest = json.loads(found.pop("manifest.json"))
    found = {name: change(name, content) for name, content in found.items()}
    for name, content in found.items():
        manifest["members"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    pack(path, [("manifest.json", json.dumps(manifest)), *found.items(), *further])


def pack(path, entries):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries:
            archive.writestr(name, content)


def test_what_is_written_is_read_again(tmp_path):
    failed = replace(saved().trials[0], id="f", block=7, state=FAILED, measurement=None, failure=Failure("DIED", "-"))
    whole = Saved(saved().campaign, (*saved().trials, failed))
    other = saved("2026-12-03-def")
    bundles.write(tmp_path / "a", [whole, other])
    assert bundles.read(tmp_path / "a").saved == (whole, other)
    bundles.write(tmp_path / "b", [whole, other])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_flipped_byte_changes_nothing_or_is_refused(file):
    content, known = file.read_bytes(), bundles.read(file).saved
    for place in range(0, len(content), 7):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
        try:
            assert bundles.read(file).saved == known
        except BundleError as error:
            assert "\n" not in error.line()


def test_a_file_that_was_cut_short_is_refused(file):
    content = file.read_bytes()
    for length in range(0, len(content), 101):
        file.write_bytes(content[:length])
        with pytest.raises(BundleError, match=r"damaged|not a bundle"):
            bundles.read(file)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"measured_seconds":37.0', b'"measured_seconds":NaN', "the number NaN is not finite"),
        (b'"measured_seconds":37.0', b'"measured_seconds":1e999', "the number 1e999 is not finite"),
        (b'"measured_seconds":37.0', b'"measured_seconds":-1.0', "cannot be"),
        (b'"measured_seconds":37.0', b'"measured_seconds":"37"', "measured_seconds"),
        (b'"bench"', b'"' + b"x" * 1_000_000 + b'"', "name has 1,000,000 characters"),
        (b'"bench"', b'"\xff"', "not UTF-8"),
        (b'"bench"', b'"\\u001b[2J"', "control characters"),
        (b'"bench"', b'"\\ud800"', "line 1 of campaigns.jsonl"),
        (b'{"id"', b'{"new":1,"id"', "the key 'new' is unknown"),
        (b'"campaign":"2026-12-02-abc"', b'"campaign":"2026-12-02-other"', "a campaign that is not in the file"),
        (b'"id":"2026-12-02-abc"', b'"id":"2/../../x"', "is none of a campaign"),
        (b'"order_seed":0', b'"order_seed":' + b"9" * 5000, "is too large"),
        (b'"notes":[]', b'"notes":' + b"[" * 50_000, "line 1 of campaigns.jsonl"),
        (b'"message":"0a', b'"message":"0b', "the digest of workload"),
    ],
    ids=range(14),
)
def test_contents_that_no_campaign_leaves_are_refused(file, old, new, message, capsys):
    assert any(old in content for content in members(file).values())
    rewritten(file, lambda _, content: content.replace(old, new))
    with pytest.raises(BundleError, match=message):
        bundles.read(file)
    assert main.run(["merge", str(file)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_newer_version_is_told(file):
    pack(file, [("manifest.json", '{"format": "trainyard-bundle", "version": 2, "more": 1}'), ("new.bin", "x")])
    with pytest.raises(BundleError, match=r"made by a newer Trainyard \(format 2\)"):
        bundles.read(file)


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "more.txt", "a" * 60_000])
def test_further_members_are_refused(file, name):
    rewritten(file, lambda _, content: content, [(name, "x")])
    with pytest.raises(BundleError, match=r"holds what format 1 has not|not a bundle"):
        bundles.read(file)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_is_there_twice_is_refused(file):
    rewritten(file, lambda _, content: content, [("trials.jsonl", "")])
    with pytest.raises(BundleError, match=r"trials.jsonl is in it twice"):
        bundles.read(file)


def test_a_header_of_a_bomb_is_refused_before_anything_is_unpacked(file):
    content = bytearray(file.read_bytes())
    place = content.index(b"PK\x01\x02", content.index(b"PK\x01\x02") + 4)
    content[place + 24 : place + 28] = struct.pack("<I", 3 * 2**30)
    file.write_bytes(content)
    with pytest.raises(BundleError, match="would have 3,221,225,472 bytes"):
        bundles.read(file)


def test_another_digest_is_named(file):
    found = members(file)
    found["trials.jsonl"] = b""
    pack(file, found.items())
    with pytest.raises(BundleError, match=r"trials.jsonl is not what manifest.json says"):
        bundles.read(file)


def test_what_is_no_zip_or_not_there(tmp_path):
    (tmp_path / "x").write_text("hello")
    with pytest.raises(BundleError, match="no zip"):
        bundles.read(tmp_path / "x")
    with pytest.raises(UsageError, match="cannot be read"):
        bundles.read(tmp_path / "absent")
    with pytest.raises(UsageError, match="no folder"):
        bundles.write(tmp_path / "no" / "x", [saved()])


def test_random_bytes_within_a_zip_are_one_line(file):
    buffer = io.BytesIO(file.read_bytes())
    file.write_bytes(buffer.getvalue()[:4] + b"\0" * 400 + buffer.getvalue()[-22:])
    with pytest.raises(ControllerError):
        bundles.read(file)


def test_merge_stores_once_and_never_changes(tmp_path, monkeypatch, capsys, file):
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path / "data"))
    assert main.run(["merge", str(file), "--tag", "win"]) == 0
    assert capsys.readouterr().out == "stored: campaign 2026-12-02-abc\n"
    store = Store(tmp_path / "data" / "results.sqlite")
    assert (store.find("win"), tuple(store.trials("2026-12-02-abc"))) == (saved().campaign, saved().trials)
    assert main.run(["merge", str(file)]) == 0
    assert capsys.readouterr().out == "was there: campaign 2026-12-02-abc\n"
    assert main.run(["save", "win", "-o", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again").read_bytes() == file.read_bytes()
    bundles.write(file, [saved(seconds=(1.0, 2.0)), saved("2026-12-03-new")])
    assert main.run(["merge", str(file)]) == 2
    assert "is in the store, and not the same" in capsys.readouterr().err
    assert [campaign.id for campaign in store.campaigns()] == ["2026-12-02-abc"]
