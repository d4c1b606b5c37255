"""Small JSON documents of other servers: the keys of issuers, and what identity providers answer.

A fetch goes through the address guard, follows no redirect, and reads a bounded answer. Without TLS it reaches only
networks that the operator has allowed: an answer that was changed on its way would let others sign tokens.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp

from duetime.errors import InvalidInput
from duetime.targets.address_guard import AddressGuard, AddressRefused, system_lookup
from duetime.targets.http import guarded_session
from duetime.targets.url import check_url

MOST_BYTES = 256 * 1024
TIMEOUT = 5.0
FAILURES = (aiohttp.ClientError, OSError, ValueError, TimeoutError, AddressRefused, InvalidInput)
"""What a fetch raises."""


class Fetched(NamedTuple):
    status: int
    document: Any
    """None where the answer is not JSON."""


class GuardedFetch:
    def __init__(self, guard: AddressGuard) -> None:
        self._guards = {"https": guard, "http": guard.only_allowed()}
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def get(self, url: str, field: str, headers: Mapping[str, str] = {}) -> Any:
        """A document. Raises one of `FAILURES`."""
        status, document = await self._ask("GET", url, field, None, headers)
        if status != 200:
            raise InvalidInput(f"it answered {status}")
        if document is None:
            raise InvalidInput("it did not answer with JSON")
        return document

    async def post(self, url: str, field: str, form: Mapping[str, str], headers: Mapping[str, str] = {}) -> Fetched:
        """The answer to a form, whatever its status. Raises one of `FAILURES`."""
        return await self._ask("POST", url, field, form, headers)

    async def close(self) -> None:
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    async def _ask(
        self, method: str, url: str, field: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> Fetched:
        scheme = url.partition(":")[0].lower()
        guard = self._guards.get(scheme, self._guards["https"])
        check_url(url, guard, field)
        session = self._sessions.get(scheme)
        if session is None:
            session = self._sessions[scheme] = guarded_session(guard, system_lookup)
        sent = {"accept": "application/json", "accept-encoding": "identity", **headers}
        async with asyncio.timeout(TIMEOUT):
            async with session.request(method, url, data=form, headers=sent, allow_redirects=False) as answer:
                body = await answer.content.read(MOST_BYTES + 1)
                while len(body) <= MOST_BYTES and (more := await answer.content.read(MOST_BYTES + 1 - len(body))):
                    body += more
        if len(body) > MOST_BYTES:
            raise InvalidInput(f"the answer is longer than {MOST_BYTES} bytes")
        try:
            return Fetched(answer.status, json.loads(body))
        except (ValueError, RecursionError):
            return Fetched(answer.status, None)
