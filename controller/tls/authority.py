"""A private authority in a folder: its key, what it issued, and its list of what it revoked.

    authority.pem        its certificate, which every identity carries
    authority-key.pem    its key; whoever has it can make identities
    issued/SERIAL.pem    each certificate that it issued, without the key
    revoked.pem          the signed list of revoked certificates, for ``serve --revoked``

There is no other record: what was issued and what was revoked is read from what is signed.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from controller.errors import HostError, UsageError
from controller.tls import building, files, reading
from controller.tls.names import checked_address, checked_name
from controller.tls.reading import CLIENT, SERVER, Kind
from controller.tls.revocations import parse

YEARS = 10
DAYS = 30
MOST_DAYS = 397
SKEW = timedelta(hours=1)
"""Clocks of hosts differ, WSL2's after each sleep: what is issued holds from a little earlier."""

_CERTIFICATE, _KEY, _ISSUED, _REVOKED = "authority.pem", "authority-key.pem", "issued", "revoked.pem"
_FEWEST_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Entry:
    """A certificate that was issued; ``revoked`` is when, or None."""

    name: str
    kind: Kind
    addresses: tuple[str, ...]
    serial: str
    ends: datetime
    revoked: datetime | None

    def is_expired(self) -> bool:
        """Whether it has ended by now."""
        return self.ends <= reading.now()


def create(folder: Path) -> "Authority":
    """A new authority. Raises UsageError where there is one already, HostError if the folder cannot be written."""
    if (folder / _CERTIFICATE).exists() or (folder / _KEY).exists():
        raise UsageError(f"there is an authority in {folder} already", "it is not overwritten; use it, or --folder")
    files.private_folder(folder)
    files.private_folder(folder / _ISSUED)
    begins = reading.now() - SKEW
    key = building.new_key()
    certificate = building.authority_certificate(key, begins, begins + timedelta(days=365 * YEARS))
    files.write_new(folder / _KEY, building.pem_of_key(key))
    files.write_new(folder / _CERTIFICATE, building.pem_of(certificate))
    made = Authority(folder, certificate, key)
    made.write_list({})
    return made


def load(folder: Path) -> "Authority":
    """The authority in a folder. Raises UsageError where there is none, or it is damaged or over."""
    if not (folder / _CERTIFICATE).exists():
        raise UsageError(f"there is no authority in {folder}", "controller certs init makes one")
    try:
        certificate = x509.load_pem_x509_certificate(files.read(folder / _CERTIFICATE))
        key = load_pem_private_key(files.read(folder / _KEY), None)
    except (ValueError, TypeError) as error:
        raise UsageError(f"the authority in {folder} is damaged", "restore its files from a copy") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise UsageError(f"{folder / _KEY} is not the key of {_CERTIFICATE}", "restore the files from a copy")
    if certificate.not_valid_after_utc <= reading.now():
        ended = reading.moment(certificate.not_valid_after_utc)
        raise UsageError(f"the authority in {folder} ended on {ended}", "make a new one with certs init --folder")
    return Authority(folder, certificate, key)


@dataclass(frozen=True, slots=True)
class Authority:
    """One authority with its key. Changes are for one process at a time: the caller locks ``folder``."""

    folder: Path
    certificate: x509.Certificate
    key: building.Key

    @property
    def list_file(self) -> Path:
        """Where the signed list of revoked certificates lies."""
        return self.folder / _REVOKED

    def issue(self, name: str, kind: Kind, addresses: tuple[str, ...], days: int = DAYS) -> tuple[Entry, bytes]:
        """A new key and its certificate. Returns its entry, and the identity as PEM: key, certificate, authority.
        Raises UsageError for a bad name, address or duration, HostError if the record cannot be written."""
        checked_name(name)
        kept = tuple(dict.fromkeys(checked_address(address) for address in addresses))
        _check_addresses(kind, kept)
        begins = reading.now()
        ends = self._end(begins, days)
        key = building.new_key()
        made = building.certificate(self.certificate, self.key, key.public_key(), name, kind, kept, begins - SKEW, ends)
        files.private_folder(self.folder / _ISSUED)
        # First the record: no certificate is ever out there that cannot be revoked by its name.
        files.write_new(self.folder / _ISSUED / f"{reading.serial_of(made)}.pem", building.pem_of(made))
        identity = building.pem_of_key(key) + building.pem_of(made) + building.pem_of(self.certificate)
        return _entry(made, {}), identity

    def _end(self, begins: datetime, days: int) -> datetime:
        if not 1 <= days <= MOST_DAYS:
            raise UsageError(f"{days} days are out of range", f"take 1 to {MOST_DAYS}; the default is {DAYS}")
        ends = begins + timedelta(days=days)
        if ends > self.certificate.not_valid_after_utc:
            last = reading.moment(self.certificate.not_valid_after_utc)
            raise UsageError(f"the authority itself ends on {last}", "take fewer --days, or make a new authority")
        return ends

    def issued(self) -> list[Entry]:
        """All that was issued, the first to end first. Raises UsageError for a damaged record or list."""
        revoked = self._revoked()
        found = [_entry(self._read(path), revoked) for path in (self.folder / _ISSUED).glob("*.pem")]
        return sorted(found, key=lambda entry: (entry.ends, entry.serial))

    def revoke(self, which: str) -> list[Entry]:
        """Revokes all certificates of a name that are in force, or the one of a serial number (or its beginning), and
        signs the list anew. Returns what was revoked now. Raises UsageError if there is nothing to revoke."""
        chosen = _chosen(self.issued(), which)
        current = [entry for entry in chosen if entry.revoked is None]
        if not current:
            raise UsageError(f"{which} is revoked already", f"since {reading.moment(_last_revoked(chosen))}")
        when = reading.now().replace(microsecond=0)
        self.write_list(self._revoked() | {int(entry.serial, 16): when for entry in current})
        return [entry for entry in _chosen(self.issued(), which) if entry.revoked == when]

    def sign_list(self, days: int = DAYS) -> datetime:
        """Signs the list of revoked certificates anew, good for ``days``. Returns its end. Raises UsageError."""
        return self.write_list(self._revoked(), days)

    def write_list(self, revoked: dict[int, datetime], days: int = DAYS) -> datetime:
        """Signs a list of these serial numbers, each with when it was revoked. Returns its end."""
        begins = reading.now()
        ends = self._end(begins, days)
        signed = building.revocation_list(self.certificate, self.key, revoked, begins - SKEW, ends)
        files.replace(self.list_file, building.pem_of(signed), mode=0o644)
        return ends

    def _revoked(self) -> dict[int, datetime]:
        # Its end does not matter here: what was revoked stays revoked. Nor may a lost list be taken for an empty one.
        signed = parse(files.read(self.list_file), self.certificate, str(self.list_file))
        return {entry.serial_number: entry.revocation_date_utc for entry in signed}

    def _read(self, path: Path) -> x509.Certificate:
        try:
            found = x509.load_pem_x509_certificate(files.read(path))
        except ValueError as error:
            raise UsageError(f"the record {path} is damaged", "restore it from a copy") from error
        if reading.kind_of(found) is None:
            raise HostError(f"the record {path} is of no kind that this tool issues", "remove it")
        return found


def _check_addresses(kind: Kind, addresses: tuple[str, ...]) -> None:
    if kind == SERVER and not addresses:
        raise UsageError("a host's certificate is for addresses", "add --address, or --client for a controller's")
    if kind == CLIENT and addresses:
        raise UsageError("a controller's certificate has no address", "leave out --address or --client")


def _entry(certificate: x509.Certificate, revoked: dict[int, datetime]) -> Entry:
    return Entry(
        name=reading.name_of(certificate),
        kind=reading.kind_of(certificate) or CLIENT,
        addresses=reading.addresses_of(certificate),
        serial=reading.serial_of(certificate),
        ends=certificate.not_valid_after_utc,
        revoked=revoked.get(certificate.serial_number),
    )


def _chosen(entries: list[Entry], which: str) -> list[Entry]:
    named = [entry for entry in entries if entry.name == which and not entry.is_expired()]
    if named:
        return named
    digits = which.lower()
    found = [entry for entry in entries if len(digits) >= _FEWEST_DIGITS and entry.serial.startswith(digits)]
    if len(found) == 1:
        return found
    what = "more than one certificate begins" if found else "no certificate in force has the name or the serial number"
    raise UsageError(f"{what} {'with ' if found else ''}{which!r}", "controller certs list shows them")


def _last_revoked(entries: list[Entry]) -> datetime:
    return max(entry.revoked for entry in entries if entry.revoked is not None)
