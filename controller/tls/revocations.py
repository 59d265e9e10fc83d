"""The list of revoked certificates of one authority (a CRL), as a host is given it."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from controller.errors import UsageError
from controller.tls import files, reading
from controller.tls.names import printable

_HINT = "make a fresh one with: controller certs crl"


@dataclass(frozen=True, slots=True)
class Revocations:
    """``serials`` are revoked; the list itself counts until ``expires``."""

    pem: bytes
    serials: frozenset[int]
    expires: datetime


def load(path: Path, authority: x509.Certificate) -> Revocations:
    """The list in a file. Raises UsageError where it cannot be read, is damaged, of another authority, or over."""
    signed = parse(files.read(path), authority, str(path))
    expires = signed.next_update_utc
    if expires is None or expires <= reading.now():
        ended = reading.moment(expires) if expires else "no day that it names"
        raise UsageError(f"{path}: this list of revoked certificates expired on {ended}", _HINT)
    if signed.last_update_utc > reading.now():
        begins = reading.moment(signed.last_update_utc)
        raise UsageError(f"{path}: this list of revoked certificates begins only on {begins}", "set this host's clock")
    serials = frozenset(entry.serial_number for entry in signed)
    return Revocations(signed.public_bytes(Encoding.PEM), serials, expires)


def parse(data: bytes, authority: x509.Certificate, where: str) -> x509.CertificateRevocationList:
    """The list, signed by this authority, whatever its dates. Raises UsageError."""
    try:
        signed = x509.load_pem_x509_crl(data)
        is_ours = signed.issuer == authority.subject
        key = authority.public_key()
        is_sound = is_ours and signed.is_signature_valid(key)  # type: ignore[arg-type]  # any key that can sign
    except (ValueError, TypeError) as error:
        raise UsageError(f"{where}: damaged, or no list of revoked certificates", _HINT) from error
    if not is_ours:
        issuer = printable(signed.issuer.rfc4514_string())
        raise UsageError(f"{where}: this list of revoked certificates is of another authority ({issuer})", _HINT)
    if not is_sound:
        raise UsageError(f"{where}: the signature of this list of revoked certificates is wrong", _HINT)
    return signed
