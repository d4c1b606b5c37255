"""The address guard decides which addresses duetime itself may connect to on behalf of a tenant.

The submitter of a job chooses the address, and duetime's workers are inside the operator's network. So only addresses
on the public internet are called, unless the operator allows a network. The guard judges the address that is connected
to, never the name: it resolves names itself, judges every address that comes back, and the connection goes to exactly
that address. One refused address among good ones refuses the name.

IPv6 has many ways to write an IPv4 address. Forms that lead to IPv4 hosts are judged by the embedded address.

The tenant learns that an address is refused, but not which: names in the operator's network resolve to addresses that
tenants must not learn. The operator's log contains them.
"""

import asyncio
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from duetime.errors import InvalidInput

log = logging.getLogger("duetime.targets")

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Addresses that are not on the public internet, from the registries of special-purpose addresses. This is our own
# table, because Python's `is_global` differs between releases.
_REFUSED: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), word)
    for word, networks in {
        "an unspecified address": ("0.0.0.0/8", "::/128"),
        "a loopback address": ("127.0.0.0/8", "::1/128"),
        "a link-local address": ("169.254.0.0/16", "fe80::/10"),
        "a private address": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
        "an address shared by carriers": ("100.64.0.0/10",),
        "a metadata address": ("168.63.129.16/32", "192.0.0.192/32"),
        "a multicast address": ("224.0.0.0/4", "ff00::/8"),
        "a reserved address": (
            *("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4"),
            *("64:ff9b:1::/48", "100::/64", "2001::/23", "2002::/16", "5f00::/16", "::/8"),
        ),
        "an address for documentation": (
            *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
        ),
    }.items()
    for network in networks
)
_PUBLIC_IPV6 = ip_network("2000::/3")
_LEADS_TO_IPV4 = tuple(ip_network(prefix) for prefix in ("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
_ISATAP = (0x5EFE, 0x0200_5EFE)


_NOT_ALLOWED = "a non-public address, which the operator has not allowed (allowed_networks)"
_IPV4 = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9.])")
_LIKE_IPV6 = re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}")


class AddressRefused(Exception):
    """A refused address. The text is for the tenant; `reason` names the address, for the log."""

    def __init__(self, reason: str, host: str | None = None) -> None:
        super().__init__(f"{'it' if host is None else host[:100]} has {_NOT_ALLOWED}")
        self.reason = reason


def refused_address(error: BaseException) -> AddressRefused | None:
    """The guard's error inside an error of the HTTP library."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, AddressRefused):
            return seen
        if isinstance(seen, BaseExceptionGroup):
            return next(filter(None, map(refused_address, seen.exceptions)), None)
        seen = seen.__cause__ or seen.__context__
    return None


def without_addresses(text: str) -> str:
    """A network library's error text without the addresses that it tried."""
    text = _IPV4.sub("…", text.replace("%5B", "[").replace("%5D", "]"))
    return _LIKE_IPV6.sub(lambda found: "…" if _is_ipv6(found[0]) else found[0], text)


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


Lookup = Callable[[str, int], Awaitable[list[tuple[int, str]]]]
"""Resolves a host: family and address of each answer."""


class AddressGuard:
    def __init__(self, allowed: Iterable[str | Network] = ()) -> None:
        self._allowed = tuple(ip_network(network) for network in allowed)

    def why_refused(self, address: Address) -> str | None:
        """The reason; None for an address that may be called."""
        if any(address in network for network in self._allowed):
            return None
        inner = _ipv4_inside(address)
        if inner is not None:
            return self.why_refused(inner)
        for network, word in _REFUSED:
            if address in network:
                return word
        if isinstance(address, IPv6Address) and address not in _PUBLIC_IPV6:
            return "a reserved address"
        return None

    def only_allowed(self) -> "AddressGuard":
        """A guard that refuses the public internet too: for what must not travel it in the clear."""
        return _InsideGuard(self._allowed)

    def check(self, text: str) -> None:
        """Raises `AddressRefused` for an address that may not be called."""
        try:
            address = ip_address(text.partition("%")[0])
        except ValueError:
            raise AddressRefused(f"{text[:60]} is not an address") from None
        reason = self.why_refused(address)
        if reason is None and "%" in text:
            reason = "an address with an interface scope"
        if reason is not None:
            raise AddressRefused(f"{text[:60]} is {reason}")

    def check_host(self, host: str, field: str) -> None:
        """Check what is visible without DNS. Raises `InvalidInput`."""
        remedy = "use a public address; the operator may allow a network (allowed_networks)"
        try:
            address = ip_address(host)
        except ValueError:
            if host == "localhost" or host.endswith(".localhost"):
                reason = self.why_refused(IPv4Address("127.0.0.1"))
                if reason is not None:
                    raise InvalidInput(f"{host[:60]} is {reason}", field=field, remedy=remedy) from None
            return
        reason = self.why_refused(address)
        if reason is not None:
            raise InvalidInput(f"{address} is {reason}", field=field, remedy=remedy)

    async def resolve(self, host: str, port: int, lookup: Lookup) -> list[tuple[int, str]]:
        """The addresses of a host, all of which may be called. Raises `AddressRefused`, and `OSError` as DNS does."""
        found = await lookup(host, port)
        if not found:
            raise OSError(f"{host} has no address")
        for _, text in found:
            try:
                self.check(text)
            except AddressRefused as error:
                log.warning("%s is not called: %s", host[:100], error.reason)
                raise AddressRefused(error.reason, host) from None
        return found


class _InsideGuard(AddressGuard):
    def why_refused(self, address: Address) -> str | None:
        return None if any(address in network for network in self._allowed) else "outside the allowed networks"


async def system_lookup(host: str, port: int) -> list[tuple[int, str]]:
    """Resolve with the machine's resolver."""
    answers = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    found: list[tuple[int, str]] = []
    for family, _, _, _, where in answers:
        text = str(where[0])
        if family == socket.AF_INET6 and len(where) > 3 and where[3] and "%" not in text:
            text = f"{text}%{where[3]}"
        if (family, text) not in found:
            found.append((family, text))
    return found


def _ipv4_inside(address: Address) -> IPv4Address | None:
    """The IPv4 host behind an IPv6 address, for the forms that may lead to a public one."""
    if isinstance(address, IPv4Address):
        return None
    number = int(address)
    if any(address in network for network in _LEADS_TO_IPV4):
        return IPv4Address(number & 0xFFFF_FFFF)
    if number >> 32 & 0xFFFF_FFFF in _ISATAP:
        return IPv4Address(number & 0xFFFF_FFFF)
    return None
