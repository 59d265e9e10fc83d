"""What a certificate says, in the words of this tool."""

from datetime import UTC, datetime
from typing import Literal

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controller.tls.names import printable

Kind = Literal["server", "client"]
SERVER: Kind = "server"
CLIENT: Kind = "client"
WORDS = {SERVER: "a host's", CLIENT: "a controller's"}

_USAGES = {SERVER: ExtendedKeyUsageOID.SERVER_AUTH, CLIENT: ExtendedKeyUsageOID.CLIENT_AUTH}


def usage_of(kind: Kind) -> x509.ObjectIdentifier:
    """The extended key usage that makes a certificate of this kind."""
    return _USAGES[kind]


def kind_of(certificate: x509.Certificate) -> Kind | None:
    """SERVER or CLIENT by its extended key usage; None for neither and for both."""
    try:
        usages = set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except (x509.ExtensionNotFound, ValueError):
        return None
    found = [kind for kind, usage in _USAGES.items() if usages == {usage}]
    return found[0] if found else None


def name_of(certificate: x509.Certificate) -> str:
    """Its common name, fit for printing; empty if it has none."""
    try:
        found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:
        return ""
    return printable(str(found[0].value)) if found else ""


def addresses_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """The IP addresses and DNS names that it is for, fit for printing."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    kept = [name for name in names if isinstance(name, x509.DNSName | x509.IPAddress)]
    return tuple(printable(str(name.value)) for name in kept)


def serial_of(certificate: x509.Certificate) -> str:
    """Its serial number as hexadecimal digits."""
    return f"{certificate.serial_number:040x}"


def moment(date: datetime) -> str:
    """A date as printed: to the minute, in UTC."""
    return date.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def now() -> datetime:
    """This moment, with its zone."""
    return datetime.now(UTC)
