"""The networks from which a key is accepted: IPv4 and IPv6 in CIDR notation. No networks: all.

An IPv4 address that arrives inside an IPv6 one (`::ffff:192.0.2.1`) counts as IPv4: otherwise a dual-stack socket would
refuse what the list allows.
"""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from duetime.errors import InvalidInput

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
MOST_NETWORKS = 100
_LONGEST = 64
"""The maximum length of an address in characters."""

_OF_ONE_CLIENT = 64
"""Bits of the IPv6 network that a client has for itself."""


def check_networks(given: Sequence[str], field: str) -> tuple[str, ...]:
    """The networks as they are stored, each once. Raises `InvalidInput`."""
    if len(given) > MOST_NETWORKS:
        raise InvalidInput(f"has {len(given)} networks", field=field, remedy=f"give at most {MOST_NETWORKS}")
    return tuple(dict.fromkeys(_checked(text, field) for text in given))


def address_of(text: str) -> Address | None:
    """The address in a text; None for any other text."""
    return _address(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=4096)
def _address(text: str) -> Address | None:
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def client_group(text: str) -> str:
    """What a limit per client counts: the address, or the /64 network of an IPv6 address, because one client can use
    all of it. Any other text stands for itself."""
    found = address_of(text)
    if not isinstance(found, IPv6Address):
        return text if found is None else str(found)
    return str(IPv6Network((int(found), _OF_ONE_CLIENT), strict=False))


def is_inside(address: Address | None, networks: tuple[str, ...]) -> bool:
    """Whether the address is in one of the networks; an unknown address is in none."""
    return address is not None and any(address in network for network in _parsed(networks))


def are_within(inner: tuple[str, ...], outer: tuple[str, ...]) -> bool:
    """Whether every address of the inner networks is in the outer ones. No networks mean all addresses."""
    return not outer or (bool(inner) and all(_fits(each, outer) for each in _parsed(inner)))


def _checked(text: str, field: str) -> str:
    try:
        if "%" in text:
            raise ValueError
        found = ip_network(text.strip())
    except ValueError:
        remedy = "write it as 192.0.2.0/24, 2001:db8::/32 or a single address, without host bits"
        raise InvalidInput(f"{text[:60]!r} is not a network", field=field, remedy=remedy) from None
    if isinstance(found, IPv6Network) and found.network_address.ipv4_mapped is not None and found.prefixlen >= 96:
        raise InvalidInput(f"{text[:60]!r} is an IPv4 network", field=field, remedy="write it as IPv4")
    return str(found)


@lru_cache(maxsize=1024)
def _parsed(networks: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(map(ip_network, networks))


def _fits(inner: Network, outer: tuple[str, ...]) -> bool:
    for each in _parsed(outer):
        if isinstance(inner, IPv4Network) and isinstance(each, IPv4Network) and inner.subnet_of(each):
            return True
        if isinstance(inner, IPv6Network) and isinstance(each, IPv6Network) and inner.subnet_of(each):
            return True
    return False
