"""What a certificate may be called and which addresses it may be for."""

import ipaddress
import re

from controller.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
_SHOWN = 120


def checked_name(name: str) -> str:
    """The name as it is. Raises UsageError for one that is too long or could be read as a path or an option."""
    if not _NAME.fullmatch(name):
        hint = "take letters, digits, '.', '_' and '-', at most 63 of them, the first a letter or digit"
        raise UsageError(f"{printable(name)!r} is no name for a certificate", hint)
    return name


def checked_address(text: str) -> str:
    """An IP address or a DNS name in its usual form. Raises UsageError for anything else: wildcards, ports, URLs,
    and addresses that are of no single host."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return _checked_dns_name(text)
    if address.is_unspecified or address.is_multicast or "%" in text or text == "255.255.255.255":
        raise UsageError(f"{text} is not the address of one host", "name the address that the controller connects to")
    return str(address)


def _checked_dns_name(text: str) -> str:
    name = text.lower()
    labels = name.split(".")
    if not (len(name) <= 253 and all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdecimal()):
        hint = "write 10.0.0.5, fe80::1 or my-host.example, without a port, a wildcard or grpcs://"
        raise UsageError(f"{printable(text)!r} is neither an IP address nor a DNS name", hint)
    return name


def printable(text: str) -> str:
    """What a stranger sent, made fit for one line: printable ASCII, cut to a sane length."""
    plain = "".join(sign if " " <= sign <= "~" else "?" for sign in text[: _SHOWN + 1])
    return plain if len(plain) <= _SHOWN else plain[:_SHOWN] + "..."
