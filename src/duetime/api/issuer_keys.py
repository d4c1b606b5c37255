"""The public keys of issuers: as they were registered, or fetched from their `jwks_url`.

A fetch goes through the address guard, follows no redirect, and reads a bounded answer. Without TLS it reaches only
networks that the operator has allowed: an answer that was changed on its way would let others sign tokens.

A set of keys is used for some minutes. A token with an unknown `kid` causes a new fetch (keys rotate), but not more
often than every half minute, so that tokens with invented names cause no traffic. While the address does not answer,
the last set is used for an hour.
"""

import asyncio
import json
import logging
from typing import NamedTuple
from uuid import UUID

import aiohttp

from duetime.clock import monotonic
from duetime.crypto.signed_tokens import NamedKey, keys_in
from duetime.errors import InvalidInput, reason_of
from duetime.model.issuer import StoredIssuer
from duetime.targets.address_guard import AddressGuard, AddressRefused, system_lookup
from duetime.targets.http import guarded_session
from duetime.targets.url import check_url

log = logging.getLogger("duetime.api")

FRESH = 300.0
"""Seconds for which fetched keys are used without another look."""
RETRY = 30.0
"""Seconds between two fetches for unknown keys, or after a failure."""
STALE = 3600.0
"""Seconds for which keys are used while their address does not answer."""
MOST_BYTES = 256 * 1024
_TIMEOUT = 5.0
_MOST = 10_000


class _Fetched(NamedTuple):
    url: str
    keys: tuple[NamedKey, ...]
    """Empty if no fetch has succeeded."""
    fetched_at: float
    tried_at: float


class IssuerKeys:
    def __init__(self, guard: AddressGuard) -> None:
        self._guards = {"https": guard, "http": guard.only_allowed()}
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self._fetched: dict[UUID, _Fetched] = {}
        self._fetching: dict[UUID, asyncio.Task[None]] = {}

    async def keys(self, stored: StoredIssuer, kid: str | None) -> tuple[NamedKey, ...]:
        """The keys that a token with this `kid` may have been signed with; none if they cannot be had."""
        url = stored.issuer.jwks_url
        if url is None:
            return keys_in(stored.issuer.jwks)
        known = self._known(stored.id, url)
        now = monotonic()
        unknown = kid is not None and all(key.kid != kid for key in known.keys)
        if now - known.tried_at > RETRY and (unknown or now - known.fetched_at > FRESH):
            await self._fetch(stored.id, url)
            known = self._known(stored.id, url)
        return known.keys if monotonic() - known.fetched_at < STALE else ()

    async def close(self) -> None:
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    def _known(self, issuer_id: UUID, url: str) -> _Fetched:
        found = self._fetched.get(issuer_id)
        never = -float("inf")
        return found if found is not None and found.url == url else _Fetched(url, (), never, never)

    async def _fetch(self, issuer_id: UUID, url: str) -> None:
        """Fetch once for all tokens that wait for it."""
        task = self._fetching.get(issuer_id)
        if task is None:
            task = self._fetching[issuer_id] = asyncio.create_task(self._get(issuer_id, url))
            task.add_done_callback(lambda _: self._fetching.pop(issuer_id, None))
        await asyncio.shield(task)

    async def _get(self, issuer_id: UUID, url: str) -> None:
        known = self._known(issuer_id, url)
        try:
            async with asyncio.timeout(_TIMEOUT):
                keys, fetched_at = await self._read(url), monotonic()
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError, AddressRefused, InvalidInput) as error:
            log.warning("the keys of an issuer cannot be fetched from %s: %s", url[:200], reason_of(error))
            keys, fetched_at = known.keys, known.fetched_at
        if len(self._fetched) >= _MOST:
            self._fetched.clear()
        self._fetched[issuer_id] = _Fetched(url, keys, fetched_at, monotonic())

    async def _read(self, url: str) -> tuple[NamedKey, ...]:
        scheme = url.partition(":")[0].lower()
        guard = self._guards[scheme]
        check_url(url, guard, "jwks_url")
        session = self._sessions.get(scheme)
        if session is None:
            session = self._sessions[scheme] = guarded_session(guard, system_lookup)
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        async with session.get(url, headers=headers, allow_redirects=False) as answer:
            if answer.status != 200:
                raise InvalidInput(f"it answered {answer.status}")
            body = await answer.content.read(MOST_BYTES + 1)
            while len(body) <= MOST_BYTES and (more := await answer.content.read(MOST_BYTES + 1 - len(body))):
                body += more
        if len(body) > MOST_BYTES:
            raise InvalidInput(f"the answer is longer than {MOST_BYTES} bytes")
        return keys_in(json.loads(body), strict=False)
