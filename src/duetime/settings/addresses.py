"""Addresses of several hosts: `scheme://user@one:1,[::1]:2/path?query`."""

from urllib.parse import SplitResult, urlsplit

_BRACKETS = str.maketrans("", "", "[]")


def split_address(address: str) -> SplitResult:
    """As `urlsplit`, which in newer versions of Python accepts brackets around a single host only. Here they are not
    judged: `netloc` is as given. `hostname` and `port` make no sense for several hosts."""
    scheme, slashes, rest = address.partition("://")
    end = min((place for mark in "/?#" if (place := rest.find(mark)) >= 0), default=len(rest))
    netloc = rest[:end]
    parts = urlsplit(f"{scheme}{slashes}{netloc.translate(_BRACKETS)}{rest[end:]}")
    return parts._replace(netloc=netloc) if "[" in netloc or "]" in netloc else parts
