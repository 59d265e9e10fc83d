"""Why a handshake failed, from OpenSSL's codes, in the words of this tool; one table for each side."""

import ssl

from cryptography import x509

from controller.tls import reading

_EXPIRED, _NOT_YET, _REVOKED, _PURPOSE = 10, 9, 23, 26
_UNKNOWN_ISSUER = (2, 18, 19, 20, 21, 24, 27, 29, 30, 32, 79)
_NAMES = (62, 64)
_SIGNATURE = (4, 6, 7)

# The alerts with which the other side says why it refused a certificate, by the ends of OpenSSL's names.
_ALERTS = {
    "CERTIFICATE_REVOKED": "revoked",
    "CERTIFICATE_EXPIRED": "expired",
    "UNKNOWN_CA": "unknown authority",
    "UNSUPPORTED_CERTIFICATE": "not of the kind that it wants",
    "CERTIFICATE_UNKNOWN": "not accepted",
    "BAD_CERTIFICATE": "not accepted",
    "DECRYPT_ERROR": "not accepted",
    "ACCESS_DENIED": "not accepted",
}


def alert_of(error: ssl.SSLError) -> str:
    """Why the other side refused our certificate, from the alert that it sent; empty for any other error."""
    reason = error.reason or ""
    if "ALERT_" not in reason:
        return ""
    return next((words for ending, words in _ALERTS.items() if reason.endswith(ending)), "")


def is_expired(error: ssl.SSLCertVerificationError) -> bool:
    """Whether the other side's certificate is over."""
    return error.verify_code == _EXPIRED


def is_not_yet_valid(error: ssl.SSLCertVerificationError) -> bool:
    """Whether the other side's certificate begins later."""
    return error.verify_code == _NOT_YET


def is_for_other_names(error: ssl.SSLCertVerificationError) -> bool:
    """Whether the other side's certificate is for other addresses."""
    return error.verify_code in _NAMES


def is_of_wrong_kind(error: ssl.SSLCertVerificationError) -> bool:
    """Whether the other side's certificate is of the other kind."""
    return error.verify_code == _PURPOSE


def is_foreign(error: ssl.SSLCertVerificationError) -> bool:
    """Whether the other side's certificate is of another authority."""
    return error.verify_code in _UNKNOWN_ISSUER or error.verify_code in _SIGNATURE


def of_client(error: ssl.SSLError, shown: x509.Certificate | None) -> str:
    """Why the front refused a handshake. ``shown`` is the certificate that the client showed, if that is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_certificate(error, shown)
    reason = error.reason or ""
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "no certificate"
    if reason == "UNSUPPORTED_PROTOCOL":
        return "it does not speak TLS 1.3"
    why = alert_of(error)
    if why:
        return f"it does not accept this host's certificate: {why}"
    return f"a broken handshake ({reason.replace('_', ' ').lower() or 'no reason given'})"


def _of_certificate(error: ssl.SSLCertVerificationError, shown: x509.Certificate | None) -> str:
    if is_expired(error):
        ended = f" on {reading.moment(shown.not_valid_after_utc)}" if shown else ""
        return f"certificate expired{ended}{whose(shown)}"
    if is_not_yet_valid(error):
        begins = f" before {reading.moment(shown.not_valid_before_utc)}" if shown else ""
        return f"certificate not valid{begins or ' yet'}{whose(shown)}"
    if error.verify_code == _REVOKED:
        return f"certificate revoked{whose(shown)}"
    if is_of_wrong_kind(error):
        return f"not a controller's certificate{whose(shown)}"
    if is_foreign(error):
        return "certificate of another authority"  # what else it says is a stranger's word
    return f"certificate not accepted ({error.verify_message})"


def whose(certificate: x509.Certificate | None) -> str:
    """Name and serial number of a certificate, in brackets."""
    if certificate is None:
        return ""
    return f" ({reading.name_of(certificate)}, serial {reading.serial_of(certificate)[:12]})"
