"""Identities and authorities that are no good, and mistakes of ``controller certs``: each is one line, and nothing of
what is there is changed."""

import os
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from controller.cli import main
from controller.errors import HostError, UsageError
from controller.tls import authority as authorities
from controller.tls import building
from controller.tls.identity import Identity
from controller.tls.reading import CLIENT, SERVER
from tests.unit.tls.world import World

KEY = building.new_key()
SEALED = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
GARBLED = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
GARBLED_CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
unlike_root = pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may read and write all")


def load(tmp_path: Path, *parts: bytes, kind: str = SERVER) -> str:
    """What is said of a file of these parts."""
    path = tmp_path / "x.pem"
    path.write_bytes(b"".join(parts))
    path.chmod(0o600)
    with pytest.raises(UsageError) as raised:
        Identity.load(path, kind)
    line = raised.value.line()
    assert line.startswith(str(path)) and "\n" not in line and raised.value.exit_code == 2
    return line.removeprefix(str(path)).removeprefix(":").strip()


def test_a_whole_identity_is_loaded(world: World) -> None:
    made = world.server()
    found = Identity.load(made.path, SERVER)
    assert (found.name, found.serial, found.addresses) == (made.name, made.serial, made.addresses)
    assert found.key.decode() not in repr(found)


# --- identities --------------------------------------------------------------------------------------------


def test_parts_that_are_not_there_or_no_good(world: World, tmp_path: Path) -> None:
    good = world.server()
    key, own, issuer = good.key, good.certificate, good.authority
    hint = "make one with: controller certs issue NAME --address ADDRESS -o FILE"
    assert load(tmp_path, b"") == f"has no private key; {hint}"
    assert load(tmp_path, b"\0" * 100, own, issuer) == f"has no private key; {hint}"
    assert load(tmp_path, key, own) == f"must hold one key and two certificates, but holds 1 and 1; {hint}"
    assert load(tmp_path, key, key, own, issuer).startswith("must hold one key and two certificates, but holds 2 and 2")
    assert load(tmp_path, GARBLED, own, issuer) == "the private key is damaged or of an unknown kind"
    assert load(tmp_path, key[:-40], own, issuer).startswith("has no private key")
    assert load(tmp_path, SEALED, own, issuer).startswith("the private key has a passphrase; take the file as")
    assert load(tmp_path, key, GARBLED_CERTIFICATE, issuer) == f"a certificate in it is damaged; {hint}"


def test_parts_that_do_not_belong_together(world: World, tmp_path: Path) -> None:
    good, other = world.server(), world.server()
    (tmp_path / "foreign").mkdir()
    stranger = World(tmp_path / "foreign").server()
    wrong = "the private key is not that of the certificate"
    assert load(tmp_path, other.key, good.certificate, good.authority).startswith(wrong)
    assert load(tmp_path, good.key, good.authority, good.certificate).startswith(wrong)
    odd = "the second certificate is not the authority of the first"
    assert load(tmp_path, good.key, good.certificate, stranger.authority) == odd
    assert load(tmp_path, good.key, good.certificate, other.certificate) == odd


def test_identities_for_other_uses_or_times(world: World, tmp_path: Path) -> None:
    host, laptop = world.server(), world.client()
    late, early = world.identity(SERVER, days=(-9, -2)), world.identity(CLIENT, days=(1, 2))

    def parts(found: Identity) -> tuple[bytes, bytes, bytes]:
        return found.key, found.certificate, found.authority

    assert load(tmp_path, *parts(laptop)).startswith("is a controller's certificate, not a host's; ")
    assert load(tmp_path, *parts(host), kind=CLIENT).endswith("issue NAME --client -o FILE")
    assert load(tmp_path, *parts(late)).startswith(f"the certificate expired on {late.expires:%Y-%m-%d %H:%M} UTC; ")
    text = load(tmp_path, *parts(early), kind=CLIENT)
    assert text.startswith("the certificate is valid only from ") and text.endswith("set this machine's clock")
    nowhere = load(tmp_path, *parts(world.identity(SERVER, addresses=())))
    assert nowhere.startswith("the certificate is for no address; ")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "gone.pem", "No such file"), (tmp_path, "Is a directory")):
        if sys.platform == "win32" and path == tmp_path:
            continue  # which says that it is denied
        with pytest.raises(UsageError, match=f"cannot read .*: {why}"):
            Identity.load(path, SERVER)
    large = tmp_path / "large.pem"
    large.write_bytes(b"A" * (4 * 2**20 + 1))
    with pytest.raises(UsageError, match="too large to hold certificates"):
        Identity.load(large, SERVER)


@unlike_root
def test_a_file_of_somebody_else(world: World) -> None:
    path = world.server().path
    path.chmod(0)
    with pytest.raises(UsageError, match=r"cannot read .*: Permission denied"):
        Identity.load(path, SERVER)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such bits")
def test_a_key_that_others_can_read_and_an_end_that_is_near_are_warned_of(world: World) -> None:
    made = world.identity(CLIENT, days=(-1, 1))
    made.path.chmod(0o644)
    opened, ends = Identity.load(made.path, CLIENT).warnings
    assert opened.endswith(f"run: chmod 600 {made.path}") and "the certificate ends soon, on " in ends


# --- authorities -------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


@pytest.mark.parametrize("left", ["authority.pem", "authority-key.pem", "both"])
def test_init_overwrites_nothing(world: World, capsys: pytest.CaptureFixture[str], left: str) -> None:
    folder = world.authority.folder
    for name in {"authority.pem", "authority-key.pem"} - {left} if left != "both" else ():
        (folder / name).unlink()
    before = contents(folder)
    assert main.run(["certs", "init", "--folder", str(folder)]) == 2
    assert f"there is an authority in {folder} already; it is not overwritten" in capsys.readouterr().err
    assert contents(folder) == before


def test_an_authority_that_is_no_good(world: World, tmp_path: Path) -> None:
    folder = world.authority.folder
    good = contents(folder)

    def said(name: str, data: bytes | None) -> str:
        (folder / name).unlink() if data is None else (folder / name).write_bytes(data)
        with pytest.raises(UsageError) as raised:
            authorities.load(folder).issued()
        (folder / name).write_bytes(good[name])
        return raised.value.line()

    assert said("authority.pem", None) == f"there is no authority in {folder}; controller certs init makes one"
    assert said("authority-key.pem", None).startswith("cannot read ")
    for name, garbage in (
        ("authority.pem", b"no certificate"),
        ("authority-key.pem", GARBLED),
        ("authority-key.pem", SEALED),
    ):
        assert said(name, garbage) == f"the authority in {folder} is damaged; restore its files from a copy"
    foreign = building.pem_of_key(KEY)
    assert said("authority-key.pem", foreign).startswith(
        f"{folder / 'authority-key.pem'} is not the key of authority.pem"
    )
    assert said("revoked.pem", None).startswith("cannot read ")  # a lost list is none of an empty one
    assert said("revoked.pem", b"no list").startswith(f"{folder / 'revoked.pem'}: damaged")
    record = world.server().serial
    (folder / "issued" / f"{record}.pem").write_bytes(b"no certificate")
    with pytest.raises(UsageError, match=r"the record .* is damaged"):
        authorities.load(folder).issued()


def test_an_authority_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="cannot write"):
        authorities.create(tmp_path / "file" / "authority")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["../x", "--client"], "'../x' is no name for a certificate"),
        (["-x", "--client"], "no such option"),
        (["", "--client"], "'' is no name for a certificate"),
        (["x" * 64, "--client"], "is no name for a certificate; take letters, digits"),
        (["a b\n", "--client"], "'a b?' is no name for a certificate"),
        (["win"], "a host's certificate is for addresses; add --address"),
        (["win", "--client", "--address", "10.0.0.5"], "a controller's certificate has no address"),
        (["win", "--address", "grpcs://10.0.0.5:50051"], "is neither an IP address nor a DNS name; write 10.0.0.5"),
        (["win", "--address", "*.example"], "is neither an IP address nor a DNS name"),
        (["win", "--address", "0.0.0.0"], "0.0.0.0 is not the address of one host"),
        (["win", "--client", "--days", "0"], "0 days are out of range; take 1 to 397"),
        (["win", "--client", "--days", "398"], "398 days are out of range"),
    ],
)
def test_issue_refuses_and_leaves_nothing(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], reason: str
) -> None:
    file, folder = tmp_path / "new.pem", world.authority.folder
    before = contents(folder)
    assert main.run(["certs", "issue", *words, "-o", str(file), "--folder", str(folder)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line
    assert contents(folder) == before and not file.exists()


def test_issue_overwrites_no_file_and_writes_to_no_folder(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.pem"
    kept.write_text("mine")
    places = {
        kept: "exists already; choose another -o FILE",
        tmp_path: "a folder",
        tmp_path / "no" / "x": "no such folder",
    }
    before = contents(world.authority.folder)
    for place, reason in places.items():
        words = ["issue", "win", "--client", "-o", str(place), "--folder", str(world.authority.folder)]
        assert main.run(["certs", *words]) == 2
        assert reason in capsys.readouterr().err
    assert kept.read_text() == "mine" and contents(world.authority.folder) == before
    words = ["issue", "win", "--client", "-o", str(kept), "--folder", str(world.authority.folder), "--force"]
    assert main.run(["certs", *words]) == 0
    assert Identity.load(kept, CLIENT).name == "win"


def test_revoke_says_what_there_is_not(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(world.authority.folder)
    assert main.run(["certs", "revoke", "nobody", "--folder", folder]) == 2
    assert "no certificate in force has the name or the serial number 'nobody'" in capsys.readouterr().err
    world.identity(CLIENT, name="laptop")
    assert main.run(["certs", "revoke", "laptop", "--folder", folder]) == 0
    capsys.readouterr()
    assert main.run(["certs", "revoke", "laptop", "--folder", folder]) == 2
    assert "laptop is revoked already; since " in capsys.readouterr().err
