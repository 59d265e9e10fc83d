"""Who a host or a controller is: one file with a private key, its certificate, and the authority's certificate."""

import re
import secrets
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from controller.errors import UsageError
from controller.tls import files, reading
from controller.tls.reading import SERVER, WORDS, Kind

if TYPE_CHECKING:
    import grpc

SOON = timedelta(days=3)
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----\r?\n?", re.DOTALL)
_ISSUE = {
    "server": "make one with: controller certs issue NAME --address ADDRESS -o FILE",
    "client": "make one with: controller certs issue NAME --client -o FILE",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """``key``, ``certificate`` and ``authority`` are PEM; ``addresses`` are those that a host's is for, and
    ``warnings`` lines for the user: a file that others can read, an end that is near."""

    path: Path
    kind: Kind
    name: str
    addresses: tuple[str, ...]
    serial: str
    expires: datetime
    key: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    authority: bytes = field(repr=False)
    warnings: tuple[str, ...] = ()

    @staticmethod
    def load(path: Path, kind: Kind) -> "Identity":
        """The identity in a file, checked to be whole, of this kind and in force. Raises UsageError."""
        key, certificate, authority = _parts(path, kind)
        _check_kind(path, certificate, kind)
        _check_dates(path, certificate, kind)
        _check_issuer(path, certificate, authority)
        return Identity(
            path=path,
            kind=kind,
            name=reading.name_of(certificate),
            addresses=reading.addresses_of(certificate),
            serial=reading.serial_of(certificate),
            expires=certificate.not_valid_after_utc,
            key=key,
            certificate=certificate.public_bytes(Encoding.PEM),
            authority=authority.public_bytes(Encoding.PEM),
            warnings=tuple(_warnings(path, certificate)),
        )

    def channel_credentials(self) -> "grpc.ChannelCredentials":
        """For a channel to a host: trusts hosts of the same authority alone, and shows this certificate."""
        import grpc

        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)

    def load_into(self, context: ssl.SSLContext, revoked: bytes = b"") -> None:
        """Gives a context of Python's this key and certificate, and trust in the authority alone. ``revoked`` is a list
        of revoked certificates as PEM.

        Python takes keys from files only. The user's file may be gone or another one by now, so a copy is made for this
        moment: encrypted with a passphrase that is never written."""
        secret = secrets.token_hex(32)
        key = load_pem_private_key(self.key, None)
        sealed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(secret.encode()))
        with tempfile.TemporaryDirectory(prefix="trainyard-") as folder:
            chain, trusted = Path(folder) / "chain.pem", Path(folder) / "trusted.pem"
            files.write_new(chain, sealed + self.certificate)
            files.write_new(trusted, self.authority + revoked)
            context.load_cert_chain(chain, password=secret)
            context.load_verify_locations(trusted)


def _parts(path: Path, kind: Kind) -> tuple[bytes, x509.Certificate, x509.Certificate]:
    """The key as PEM, the certificate that belongs to it, and the other one, its authority's."""
    blocks = [(match[1], match[0]) for match in _BLOCK.finditer(files.read(path))]
    keys = [block for label, block in blocks if label.endswith(b"PRIVATE KEY")]
    chain = [block for label, block in blocks if label == b"CERTIFICATE"]
    if not keys:
        raise UsageError(f"{path} has no private key", _ISSUE[kind])
    if len(keys) != 1 or len(chain) != 2:
        found = f"{len(keys)} and {len(chain)}"
        raise UsageError(f"{path} must hold one key and two certificates, but holds {found}", _ISSUE[kind])
    key = _key(path, keys[0])
    try:
        certificate, authority = (x509.load_pem_x509_certificate(block) for block in chain)
    except ValueError as error:
        raise UsageError(f"{path}: a certificate in it is damaged", _ISSUE[kind]) from error
    if key.public_key() != certificate.public_key():
        raise UsageError(f"{path}: the private key is not that of the certificate", _ISSUE[kind])
    return keys[0], certificate, authority


def _key(path: Path, block: bytes) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(block, None)
    except TypeError:
        raise UsageError(f"{path}: the private key has a passphrase", "take the file as certs issue made it") from None
    except Exception as error:  # the library's own kinds for keys that it does not know
        raise UsageError(f"{path}: the private key is damaged or of an unknown kind") from error


def _check_kind(path: Path, certificate: x509.Certificate, kind: Kind) -> None:
    found = reading.kind_of(certificate)
    if found != kind:
        is_ = f"is {WORDS[found]} certificate" if found else "is the certificate of neither host nor controller"
        raise UsageError(f"{path} {is_}, not {WORDS[kind]}", _ISSUE[kind])
    if kind == SERVER and not reading.addresses_of(certificate):
        raise UsageError(f"{path}: the certificate is for no address", _ISSUE[kind])


def _check_dates(path: Path, certificate: x509.Certificate, kind: Kind) -> None:
    if certificate.not_valid_after_utc <= reading.now():
        ended = reading.moment(certificate.not_valid_after_utc)
        raise UsageError(f"{path}: the certificate expired on {ended}", _ISSUE[kind])
    if certificate.not_valid_before_utc > reading.now():
        begins = reading.moment(certificate.not_valid_before_utc)
        raise UsageError(f"{path}: the certificate is valid only from {begins}", "set this machine's clock")


def _check_issuer(path: Path, certificate: x509.Certificate, authority: x509.Certificate) -> None:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise UsageError(f"{path}: the second certificate is not the authority of the first") from error
    if authority.not_valid_after_utc <= reading.now():
        raise UsageError(f"{path}: its authority expired on {reading.moment(authority.not_valid_after_utc)}")


def _warnings(path: Path, certificate: x509.Certificate) -> list[str]:
    lines = []
    if files.is_open_to_others(path):
        lines.append(f"{path} holds a private key that other users of this machine can read; run: chmod 600 {path}")
    left = certificate.not_valid_after_utc - reading.now()
    if left < SOON:
        lines.append(f"{path}: the certificate ends soon, on {reading.moment(certificate.not_valid_after_utc)}")
    return lines
