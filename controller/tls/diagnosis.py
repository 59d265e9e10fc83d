"""Why a controller cannot reach a host over TLS. gRPC says only "unavailable"; this tries again and says why."""

import contextlib
import errno
import socket
import ssl
import time

from cryptography import x509

from controller.tls import frames, reading, refusals
from controller.tls.contexts import PROTOCOL
from controller.tls.identity import Identity

_NO_ROUTE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, 10051, 10065}
_CHUNK = 2**14
_KINDS = "make one with: controller certs issue NAME --client -o FILE"


def diagnose(host: str, port: int, identity: Identity | None, timeout: float = 5.0) -> str:
    """One line that says what is wrong, or an empty one if nothing is. It connects at most three times, each with
    ``timeout`` seconds for everything. Without an identity the server's certificate is not checked."""
    try:
        return _Attempt(host, port, identity, timeout).say()
    except socket.gaierror:
        return f"there is no host {host}"
    except ConnectionRefusedError:
        return f"nothing listens at {host}:{port}"
    except TimeoutError:
        return f"no answer from {host}:{port} within {timeout:g} s: it is off, or a firewall is between"
    except OSError as error:
        if error.errno in _NO_ROUTE:
            return f"no route to {host}"
        return f"cannot connect to {host}:{port}: {error.strerror or error}"


class _Attempt:
    def __init__(self, host: str, port: int, identity: Identity | None, timeout: float) -> None:
        self._host, self._port, self._identity, self._timeout = host, port, identity, timeout

    def say(self) -> str:
        with self._connect() as plain:
            try:
                tls = self._context().wrap_socket(plain, server_hostname=self._host)
            except ssl.SSLCertVerificationError as error:
                return self._of_certificate(error)
            except ssl.SSLError as error:
                return self._of_handshake(error)
            except (TimeoutError, ConnectionError, OSError):
                return self._of_handshake(None)
            with tls:
                return self._of_answer(tls)

    def _connect(self) -> socket.socket:
        return socket.create_connection((self._host, self._port), self._timeout)

    def _context(self) -> ssl.SSLContext:
        """As gRPC's client checks: the authority, the name, the kind."""
        if self._identity is None:
            return _unchecked()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_alpn_protocols([PROTOCOL])
        self._identity.load_into(context)
        return context

    def _of_certificate(self, error: ssl.SSLCertVerificationError) -> str:
        if refusals.is_foreign(error):
            return "the server's certificate is of another authority"
        shown = self._shown()
        if refusals.is_for_other_names(error):
            says = ", ".join([reading.name_of(shown), *reading.addresses_of(shown)]) if shown else "unknown"
            return f"the server's certificate is for other names than {self._host} (it says: {says})"
        if refusals.is_expired(error):
            when = f" on {reading.moment(shown.not_valid_after_utc)}" if shown else ""
            return f"the server's certificate expired{when}"
        if refusals.is_not_yet_valid(error):
            when = f" before {reading.moment(shown.not_valid_before_utc)}" if shown else " yet"
            return f"the server's certificate is not valid{when}; look at the clocks"
        if refusals.is_of_wrong_kind(error):
            return "the server's certificate is not a host's"
        return f"the server's certificate is not accepted: {error.verify_message}"

    def _shown(self) -> x509.Certificate | None:
        """The server's certificate, unchecked, over a new connection: Python gives none that it refused."""
        with (
            contextlib.suppress(OSError, ValueError),
            self._connect() as plain,
            _unchecked().wrap_socket(plain, server_hostname=self._host) as tls,
        ):
            return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"")
        return None

    def _of_handshake(self, error: ssl.SSLError | None) -> str:
        if error is not None:
            said = self._of_alert(error)
            if said:
                return said
        if self._is_plain():
            return "it does not speak TLS: use grpc://"
        if error is not None and error.reason and not isinstance(error, ssl.SSLEOFError):
            return f"it does not speak TLS as gRPC does ({error.reason.replace('_', ' ').lower()})"
        return f"{self._host}:{self._port} takes the connection but does not answer as TLS does"

    def _of_alert(self, error: ssl.SSLError) -> str:
        reason = error.reason or ""
        if reason.endswith(("ALERT_CERTIFICATE_REQUIRED", "ALERT_HANDSHAKE_FAILURE")) and self._identity is None:
            return "the server wants a certificate: give --certificate FILE"
        if reason.endswith("ALERT_INTERNAL_ERROR"):
            return "the server accepts no certificate now: its list of revoked ones cannot be used; see what it printed"
        why = refusals.alert_of(error)
        hint = f"; {_KINDS}" if reason.endswith("UNSUPPORTED_CERTIFICATE") else ""
        return f"the server refused this certificate: {why}{hint}" if why else ""

    def _is_plain(self) -> bool:
        """Whether a plain gRPC server answers there."""
        with contextlib.suppress(OSError), self._connect() as plain:
            plain.sendall(frames.PREFACE + frames.settings())
            return _kinds(plain.recv(_CHUNK))[:1] == [frames.SETTINGS]
        return False

    def _of_answer(self, tls: ssl.SSLSocket) -> str:
        """What comes after the handshake: with TLS 1.3 the server looks at our certificate only then."""
        if tls.selected_alpn_protocol() != PROTOCOL:
            return "it speaks TLS, but not HTTP/2 as gRPC does"
        try:
            data = self._first_bytes(tls)
        except TimeoutError:
            return "the server lets this controller in, but then does not answer"
        except ssl.SSLError as error:
            return self._of_alert(error) or f"the server ended the connection ({error.reason})"
        except OSError:
            data = b""
        if not data:
            return "the server ended the connection at once; see what it printed"
        farewells = [payload for kind, payload in frames.frames(data) if kind == frames.GOAWAY]
        return f"the server refused the connection: {frames.reason_of(farewells[0])}" if farewells else ""

    def _first_bytes(self, tls: ssl.SSLSocket) -> bytes:
        """A server of gRPC speaks first. Only where it does not, this side does: bytes that come to a refused
        connection can cost the answer that says why."""
        begun = time.monotonic()
        try:
            tls.settimeout(self._timeout / 2)
            return tls.recv(_CHUNK)
        except TimeoutError:
            tls.settimeout(max(0.1, self._timeout - (time.monotonic() - begun)))
            tls.sendall(frames.PREFACE + frames.settings())
            return tls.recv(_CHUNK)


def _unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([PROTOCOL])
    return context


def _kinds(data: bytes) -> list[int]:
    return [kind for kind, _ in frames.frames(data)]
