"""The public keys of issuers: as they were registered, or fetched from their address (`guarded_fetch.py`).

A set of keys is used for some minutes. A token with an unknown `kid` causes a new fetch (keys rotate), but not more
often than every half minute, so that tokens with invented names cause no traffic. While the address does not answer,
the last set is used for an hour.
"""

import asyncio
import logging
from typing import NamedTuple
from uuid import UUID

from duetime.api.guarded_fetch import FAILURES, GuardedFetch
from duetime.clock import monotonic
from duetime.crypto.signed_tokens import NamedKey, keys_in
from duetime.errors import reason_of
from duetime.model.issuer import StoredIssuer

log = logging.getLogger("duetime.api")

FRESH = 300.0
"""Seconds for which fetched keys are used without another look."""
RETRY = 30.0
"""Seconds between two fetches for unknown keys, or after a failure."""
STALE = 3600.0
"""Seconds for which keys are used while their address does not answer."""
_MOST = 10_000


class _Fetched(NamedTuple):
    url: str
    keys: tuple[NamedKey, ...]
    """Empty if no fetch has succeeded."""
    fetched_at: float
    tried_at: float


class IssuerKeys:
    def __init__(self, fetch: GuardedFetch) -> None:
        self._fetch = fetch
        self._fetched: dict[UUID | str, _Fetched] = {}
        self._fetching: dict[UUID | str, asyncio.Task[None]] = {}

    async def keys(self, stored: StoredIssuer, kid: str | None) -> tuple[NamedKey, ...]:
        """The keys that a token with this `kid` may have been signed with; none if they cannot be had."""
        url = stored.issuer.jwks_url
        return keys_in(stored.issuer.jwks) if url is None else await self.keys_at(stored.id, url, kid)

    async def keys_at(self, issuer: UUID | str, url: str, kid: str | None) -> tuple[NamedKey, ...]:
        """The same, of an issuer with its keys at this address."""
        known = self._known(issuer, url)
        now = monotonic()
        unknown = kid is not None and all(key.kid != kid for key in known.keys)
        if now - known.tried_at > RETRY and (unknown or now - known.fetched_at > FRESH):
            await self._renew(issuer, url)
            known = self._known(issuer, url)
        return known.keys if monotonic() - known.fetched_at < STALE else ()

    async def close(self) -> None:
        await self._fetch.close()

    def _known(self, issuer: UUID | str, url: str) -> _Fetched:
        found = self._fetched.get(issuer)
        never = -float("inf")
        return found if found is not None and found.url == url else _Fetched(url, (), never, never)

    async def _renew(self, issuer: UUID | str, url: str) -> None:
        """Fetch once for all tokens that wait for it."""
        task = self._fetching.get(issuer)
        if task is None:
            task = self._fetching[issuer] = asyncio.create_task(self._get(issuer, url))
            task.add_done_callback(lambda _: self._fetching.pop(issuer, None))
        await asyncio.shield(task)

    async def _get(self, issuer: UUID | str, url: str) -> None:
        known = self._known(issuer, url)
        try:
            keys, fetched_at = keys_in(await self._fetch.get(url, "jwks_url"), strict=False), monotonic()
        except FAILURES as error:
            log.warning("the keys of an issuer cannot be fetched from %s: %s", url[:200], reason_of(error))
            keys, fetched_at = known.keys, known.fetched_at
        if len(self._fetched) >= _MOST:
            self._fetched.clear()
        self._fetched[issuer] = _Fetched(url, keys, fetched_at, monotonic())
