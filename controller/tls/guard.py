"""Which certificates the front takes at this moment: the identity's authority, less what the list revokes."""

import ssl
from pathlib import Path

from cryptography import x509

from controller.errors import UsageError
from controller.tls import contexts, reading, revocations
from controller.tls.identity import Identity
from controller.tls.reading import CLIENT
from controller.tls.revocations import Revocations

_Stamp = tuple[int, ...]


class Guard:
    """Follows the list's file. While that cannot be used ``trouble`` says why, and every handshake is refused: a
    certificate must not become good again because a file is broken."""

    def __init__(self, identity: Identity, path: Path | None) -> None:
        """Raises UsageError for a list that cannot be used."""
        self._identity = identity
        self._path = path
        self._authority = x509.load_pem_x509_certificate(identity.authority)
        self._stamp = self._look()
        self.trouble = ""
        self.revocations: Revocations | None = revocations.load(path, self._authority) if path else None
        self._shown = b""
        self._refusing = contexts.refusing(identity)
        self._accepting = contexts.server(identity, self.revocations, self._see)

    def refresh(self) -> bool:
        """Reads the list again if its file is another one now. Returns whether anything changed."""
        stamp, before = self._look(), self.trouble
        if stamp != self._stamp:
            self._stamp = stamp
            self._reload()
            return True
        if self.revocations and not self.trouble and self.revocations.expires <= reading.now():
            ended = reading.moment(self.revocations.expires)
            self.trouble = f"{self._path}: this list of revoked certificates expired on {ended}"
        return self.trouble != before

    def context(self) -> ssl.SSLContext:
        """For the next handshake."""
        return self._refusing if self.trouble else self._accepting

    def forget(self) -> None:
        """Before each step of a handshake: what another client showed is not this one's."""
        self._shown = b""

    def shown(self) -> x509.Certificate | None:
        """The certificate that came in this step, unchecked; None if there was none or it is damaged."""
        try:
            return x509.load_der_x509_certificate(self._shown) if self._shown else None
        except ValueError:
            return None

    def is_revoked(self, certificate: x509.Certificate) -> bool:
        """By the list as last read."""
        return bool(self.revocations and certificate.serial_number in self.revocations.serials)

    @staticmethod
    def is_controllers(certificate: x509.Certificate) -> bool:
        """Whether it says so itself; OpenSSL also takes certificates that do not say what they are for."""
        return reading.kind_of(certificate) == CLIENT

    def _see(self, shown: bytes) -> None:
        self._shown = shown

    def _look(self) -> _Stamp:
        if self._path is None:
            return ()
        try:
            found = self._path.stat()
        except OSError:
            return (-1,)
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def _reload(self) -> None:
        if self._path is None:
            return
        try:
            self.revocations = revocations.load(self._path, self._authority)
            self._accepting = contexts.server(self._identity, self.revocations, self._see)
        except (UsageError, OSError, ssl.SSLError) as error:
            self.trouble = error.line() if isinstance(error, UsageError) else f"{self._path}: {error}"
        else:
            self.trouble = ""
