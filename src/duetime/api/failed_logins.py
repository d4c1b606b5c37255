"""A limit on failed authentications of one address. Beyond it, nothing is looked up for the address.

A failed authentication costs a query. An address with too many failures in a minute is refused before that, at a cost
that does not depend on the request. Credentials that were accepted recently, from any address, are always looked up, so
that one client behind a proxy does not lock out the others. Logins have a separate allowance, so that an open page
whose session has ended does not keep its user from logging in.
"""

from collections.abc import Callable, Mapping

from duetime.api.peer import Peer
from duetime.api.problems import RATE_LIMITED, Problem
from duetime.api.ratelimit_fields import Standings
from duetime.api.usage_limits import LimitName
from duetime.clock import monotonic
from duetime.model.network import client_group

_MOST = 10_000
"""The number of addresses, and of accepted keys, that are remembered."""
_MINUTE = 60.0
_POLICY = "failed-authentications"


class FailedLogins:
    def __init__(self, most: int, on_refusal: Callable[[str], None]) -> None:
        """`most`: failures of an address in a minute; 0: no limit."""
        self._most = most
        self._on_refusal = on_refusal
        self._failed: dict[tuple[str, bool], tuple[float, float]] = {}
        """The number of failures, and when it was computed."""
        self._accepted: dict[int, None] = {}

    def check(self, peer: Peer, name: LimitName | None, headers: Mapping[bytes, bytes]) -> None:
        """Raise a problem if the client's address has too many failures."""
        if not self._failed:
            return
        count = self._count(_group(peer), name)
        if count + 1.0 <= self._most or _shown(headers) in self._accepted:
            return
        self._on_refusal("logins")
        wait = (count + 1.0 - self._most) * _MINUTE / self._most
        standings = Standings()
        standings.add_rate(_POLICY, self._most / _MINUTE, self._most, self._most - count)
        raise Problem(
            RATE_LIMITED,
            "too many failed authentications from this address",
            remedy=f"use a valid key, and retry in {max(1, round(wait + 0.5))} s",
            headers=standings.fields(wait),
        )

    def failed(self, peer: Peer, name: LimitName | None, headers: Mapping[bytes, bytes] | None = None) -> None:
        """A key, a session or a link from this client was not valid. A request without credentials does not count: it
        cost no lookup."""
        if not self._most or (headers is not None and _shown(headers) is None):
            return
        place = _group(peer), name == "logins"
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
    """A hash of the credentials of a request. The credentials themselves are not kept."""
    shown = headers.get(b"authorization") or headers.get(b"cookie")
    return None if shown is None else hash(shown)


def _group(peer: Peer) -> str:
    return client_group(str(peer.address))
