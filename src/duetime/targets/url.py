"""URLs and hosts in a canonical spelling: exactly one spelling for each address, so that what is checked is what is
called.

Everything that a resolver or another parser might interpret differently is refused: `127.1`, `2130706433`,
`0x7f000001`, names in other scripts, credentials, backslashes, control characters.
"""

import re
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from duetime.errors import InvalidInput
from duetime.targets.address_guard import AddressGuard

_UNSAFE = re.compile(r"[^\x21-\x7e]|[\\<>\"^`{|}]")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_QUAD = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}")
_PORTS = {"http": 80, "https": 443}


class Place(NamedTuple):
    """Where a call goes."""

    host: str
    """Lower case, without brackets."""
    port: int
    tls: bool = True

    @property
    def name(self) -> str:
        """The form in the name of a task: hosts that differ by port are different places."""
        return self.host if self.port in _PORTS.values() else f"{self.host}:{self.port}"

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def check_url(url: str, guard: AddressGuard, field: str = "target.url") -> Place:
    """The place that this URL leads to. Raises `InvalidInput` for everything that is visibly wrong with it."""
    bad = _UNSAFE.search(url)
    if bad is not None:
        raise InvalidInput(f"{bad[0]!r} is not allowed in a URL", field=field, remedy="percent-encode it")
    scheme, colon, rest = url.partition(":")
    if not colon or scheme.lower() not in _PORTS:
        raise InvalidInput(f"{url[:60]!r} is neither http:// nor https://", field=field, remedy="such as https://…")
    if not rest.startswith("//"):
        raise InvalidInput("has no host", field=field, remedy=f"such as {scheme.lower()}://example.com/hook")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"cannot be read: {error}", field=field, remedy="such as https://example.com/hook") from None
    if "@" in parts.netloc:
        raise InvalidInput(
            "contains credentials", field=field, remedy="send them in a header, as a secret (docs/targets.md)"
        )
    if parts.fragment or "#" in url:
        raise InvalidInput(
            "has a fragment, which is never sent", field=field, remedy="remove # and everything after it"
        )
    if "%" in parts.netloc:
        raise InvalidInput("has a host with a %", field=field, remedy="write the host without percent-encoding")
    host = read_host(parts.hostname or "", bracketed=parts.netloc.startswith("["), field=field)
    guard.check_host(host, field)
    scheme = scheme.lower()
    return Place(host, check_port(_PORTS[scheme] if port is None else port, field), tls=scheme == "https")


def check_address(address: str, guard: AddressGuard, field: str = "target.address", *, tls: bool) -> Place:
    """The place that a `host:port` leads to."""
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5:
        raise InvalidInput(f"{address[:60]!r} is not host:port", field=field, remedy="such as api.example.com:443")
    host = read_host(host[1:-1] if bracketed else host, bracketed=bracketed, field=field)
    guard.check_host(host, field)
    return Place(host, check_port(int(port), field), tls)


def same_host(host: str) -> str:
    """A host from another parser, in canonical spelling."""
    host = host.lower().removesuffix(".")
    return str(IPv6Address(host)) if ":" in host else host


def read_host(host: str, *, bracketed: bool, field: str) -> str:
    """A host in canonical spelling. Raises `InvalidInput`."""
    if not host:
        raise InvalidInput("has no host", field=field, remedy="such as example.com")
    host = host.lower()
    if bracketed:
        try:
            return str(IPv6Address(host)) if "%" not in host else _no_host(host, field)
        except ValueError:
            return _no_host(host, field)
    if not host.isascii():
        raise InvalidInput(
            f"{host[:60]!r} is not written in ASCII", field=field, remedy="write the host in its DNS form (xn--…)"
        )
    if _QUAD.fullmatch(host):
        try:
            return str(ip_address(host))
        except ValueError:
            return _no_host(host, field)
    labels = host.removesuffix(".").split(".")
    if _NUMBER.fullmatch(labels[-1]):
        raise InvalidInput(
            f"{host[:60]!r} is an ambiguous spelling of an address",
            field=field,
            remedy="write it as four decimal numbers",
        )
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return _no_host(host, field)
    return ".".join(labels)


def _no_host(host: str, field: str) -> str:
    raise InvalidInput(f"{host[:60]!r} is not a host", field=field, remedy="such as example.com, 192.0.2.1 or [2001:…]")


def check_port(port: int, field: str) -> int:
    if not 1 <= port <= 65_535:
        raise InvalidInput(f"{port} is not a port", field=field, remedy="1 to 65535")
    return port
