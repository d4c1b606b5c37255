"""The origin of a browser's request. A page of another site can make a browser send the session cookie, so requests
from other sites must be recognised.

The browser sends `Sec-Fetch-Site`, which pages cannot set. It omits the header over plain HTTP to any host but its own
machine. Then the page's `Origin` must name the requested host and port. A cookie is bound to its host, so a name that
an attacker points to this server brings no cookie.
"""

from collections.abc import Mapping

from duetime.api.problems import FORBIDDEN, Problem


def is_own(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the browser asserts that the request comes from a page of this server."""
    site = headers.get(b"sec-fetch-site")
    return site == b"same-origin" if site is not None else _is_at_host(headers)


def may_log_in(headers: Mapping[bytes, bytes]) -> bool:
    """Whether no other site caused the request. A program that sends no such header is accepted, and so is an address
    that a user typed."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site in (b"same-origin", b"none")
    return b"origin" not in headers or _is_at_host(headers)


def refusal(remedy: str) -> Problem:
    return Problem(FORBIDDEN, "the request comes from another site", remedy=remedy)


def _is_at_host(headers: Mapping[bytes, bytes]) -> bool:
    # Not the scheme: a proxy can terminate TLS.
    _, _, place = headers.get(b"origin", b"").lower().partition(b"://")
    return bool(place) and place == headers.get(b"host", b"").lower()
