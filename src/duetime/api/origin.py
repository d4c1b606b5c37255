"""Where a browser's request comes from: a page of another site may make a browser send our cookie, but cannot speak
as this one.

The browser says it in `Sec-Fetch-Site`, and what it says there holds. It says nothing to a server that it reaches over
plain HTTP under a name that is not its own machine's; then the page's origin must name the host and port that were
asked. A cookie is bound to its host, so a name that an attacker points here brings none.
"""

from collections.abc import Mapping

from duetime.api.problems import FORBIDDEN, Problem


def is_own(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the browser vouches that the request comes from a page of this server."""
    site = headers.get(b"sec-fetch-site")
    return site == b"same-origin" if site is not None else _is_at_host(headers)


def may_log_in(headers: Mapping[bytes, bytes]) -> bool:
    """Whether no other site is behind the request: a program that says nothing of it may, too, and so may who typed
    the address."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site in (b"same-origin", b"none")
    return b"origin" not in headers or _is_at_host(headers)


def refusal(remedy: str) -> Problem:
    return Problem(FORBIDDEN, "the request comes from another site", remedy=remedy)


def _is_at_host(headers: Mapping[bytes, bytes]) -> bool:
    # Not the scheme: a proxy may have taken the TLS off.
    _, _, place = headers.get(b"origin", b"").lower().partition(b"://")
    return bool(place) and place == headers.get(b"host", b"").lower()
