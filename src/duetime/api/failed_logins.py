"""How often an address may show what is no key: beyond that nothing is looked up for it.

A failed authentication costs a look into the store. An address that has failed too often in a minute is refused before
that, at a cost that does not depend on what it sends. What was accepted from anywhere lately is looked up in any case:
clients behind one address, such as a proxy's, are not locked out by one of them. Logging in has an allowance apart, so
that an open page whose session is over does not keep its reader from logging in.
"""

import ipaddress
from collections.abc import Callable, Mapping

from duetime.api.problems import RATE_LIMITED, Problem
from duetime.api.ratelimit_fields import Standings
from duetime.api.usage_limits import LimitName
from duetime.clock import monotonic

_MOST = 10_000
"""Addresses, and keys that were accepted."""
_MINUTE = 60.0
_POLICY = "failed-authentications"


class FailedLogins:
    def __init__(self, most: int, on_refusal: Callable[[str], None]) -> None:
        """`most` failures of an address in a minute; 0: any number."""
        self._most = most
        self._on_refusal = on_refusal
        self._failed: dict[tuple[str, bool], tuple[float, float]] = {}
        """How many failures count, and when that was so."""
        self._accepted: dict[int, None] = {}

    def check(self, address: str, name: LimitName | None, headers: Mapping[bytes, bytes]) -> None:
        """Raises a problem where the address has failed too often."""
        if not self._failed or not self._most:
            return
        count = self._count(_group(address), name)
        if count + 1.0 <= self._most or _shown(headers) in self._accepted:
            return
        self._on_refusal("logins")
        wait = (count + 1.0 - self._most) * _MINUTE / self._most
        standings = Standings()
        standings.add_rate(_POLICY, self._most / _MINUTE, self._most, self._most - count)
        raise Problem(
            RATE_LIMITED,
            "there were too many failed authentications from this address",
            remedy=f"use a valid key, and ask again in {max(1, round(wait + 0.5))} s",
            headers=standings.fields(wait),
        )

    def failed(self, address: str, name: LimitName | None, headers: Mapping[bytes, bytes] | None = None) -> None:
        """A key, a session or a link from this address was not valid. A request with nothing in its headers has failed
        without a look at anything: it does not count."""
        if not self._most or (headers is not None and _shown(headers) is None):
            return
        place = _group(address), name == "logins"
        count = self._count(place[0], name) + 1.0
        self._failed.pop(place, None)
        if len(self._failed) >= _MOST:
            del self._failed[next(iter(self._failed))]
        self._failed[place] = count, monotonic()

    def accepted(self, headers: Mapping[bytes, bytes]) -> None:
        """A key or a session was valid."""
        shown = _shown(headers)
        if shown is None or shown in self._accepted:
            return
        if len(self._accepted) >= _MOST:
            del self._accepted[next(iter(self._accepted))]
        self._accepted[shown] = None

    def _count(self, group: str, name: LimitName | None) -> float:
        count, at = self._failed.get((group, name == "logins"), (0.0, 0.0))
        return max(0.0, count - (monotonic() - at) * self._most / _MINUTE)


def _shown(headers: Mapping[bytes, bytes]) -> int | None:
    """What stands for the key that came with a request; of the key itself nothing is kept."""
    shown = headers.get(b"authorization") or headers.get(b"cookie")
    return None if shown is None else hash(shown)


def _group(address: str) -> str:
    """One client may have a whole network of IPv6 addresses."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address
