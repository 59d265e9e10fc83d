"""Makes and signs certificates and lists of revoked ones (RFC 5280): EC P-256, SHA-256, nothing to choose."""

import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from controller.tls.reading import Kind, usage_of

Key = ec.EllipticCurvePrivateKey
_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def new_key() -> Key:
    """A fresh private key."""
    return ec.generate_private_key(ec.SECP256R1())


def pem_of_key(key: Key) -> bytes:
    """The key as unencrypted PKCS 8."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def pem_of(signed: x509.Certificate | x509.CertificateRevocationList) -> bytes:
    """As PEM."""
    return signed.public_bytes(Encoding.PEM)


def authority_certificate(key: Key, begins: datetime, ends: datetime) -> x509.Certificate:
    """A self-signed authority. Its name ends in random digits: two authorities are never taken for one another."""
    name = _name(f"Trainyard authority {secrets.token_hex(4)}")
    builder = _builder(name, name, key.public_key(), begins, ends)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage("key_cert_sign", "crl_sign"), critical=True)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())


def certificate(
    issuer: x509.Certificate,
    issuer_key: Key,
    public_key: ec.EllipticCurvePublicKey,
    name: str,
    kind: Kind,
    addresses: Sequence[str],
    begins: datetime,
    ends: datetime,
) -> x509.Certificate:
    """A certificate of one kind alone, for these addresses (as from ``names.checked_address``)."""
    builder = _builder(_name(name), issuer.subject, public_key, begins, ends)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage("digital_signature"), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage_of(kind)]), critical=True)
    builder = builder.add_extension(_authority_identifier(issuer), critical=False)
    if addresses:
        names = x509.SubjectAlternativeName([_general_name(address) for address in addresses])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def revocation_list(
    issuer: x509.Certificate, issuer_key: Key, revoked: Mapping[int, datetime], begins: datetime, ends: datetime
) -> x509.CertificateRevocationList:
    """A signed list of revoked serial numbers, each with when; after ``ends`` it counts for nothing."""
    builder = x509.CertificateRevocationListBuilder().issuer_name(issuer.subject)
    builder = builder.last_update(begins).next_update(ends)
    builder = builder.add_extension(_authority_identifier(issuer), critical=False)
    builder = builder.add_extension(x509.CRLNumber(int(begins.timestamp() * 1000)), critical=False)
    for serial, when in revoked.items():
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(when).build()
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(issuer_key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(begins).not_valid_after(ends)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_usage(*wanted: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in wanted for usage in _USAGES})


def _authority_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)
