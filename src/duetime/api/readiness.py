"""Whether this server can do its work: its database answers, has the schema of this code, and takes writes.

Anyone may ask, without a key. Concurrent callers share one look at the database, and the result, also a failure, is
remembered for twenty times as long as the look took, at most a second. That the database takes writes is remembered for
longer, because it takes a write to know. A full disk is noticed within ten seconds.
"""

import asyncio
import logging
import os
from typing import NamedTuple

from duetime.api.lookup_cache import Memory
from duetime.errors import StoreError, reason_of
from duetime.ids import new_id
from duetime.model.job import INTERNAL_TENANT
from duetime.store.protocol.store import Store

log = logging.getLogger("duetime.api")

_TIMEOUT = 2.0
_REMEMBERED = 1.0
_WRITABLE = 9.0
_PROBE = 16 * 1024
"""Bytes: enough that a full disk is noticed."""


class Unready(NamedTuple):
    """Why the server is not ready."""

    detail: str
    remedy: str | None = None


class Readiness:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: Memory[bool, Unready | None] = Memory(_REMEMBERED)
        self._seen_writable: Memory[bool, bool] = Memory(_WRITABLE)

    async def reason(self) -> Unready | None:
        """Why the server is not ready; None if it is."""
        return await self._seen.share(True, self._look)

    def forget(self) -> None:
        self._seen.clear()
        self._seen_writable.clear()

    async def _look(self) -> Unready | None:
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self._store.check_schema()
                return await self._write()
        except TimeoutError:
            return Unready("the database does not respond")
        except StoreError as error:  # it can name hosts and tables: it is logged, not sent
            log.warning("not ready: %s", reason_of(error))
            return Unready("the database is not available", "ask again in a moment")

    async def _write(self) -> Unready | None:
        """Write some bytes and remove them. On a full disk, and when it is read-only, a database still answers
        queries."""
        if self._seen_writable.get(True):
            return None
        payload_id = new_id()
        try:
            await self._store.payloads.put_payload(INTERNAL_TENANT, payload_id, os.urandom(_PROBE))
            await self._store.payloads.drop_payload(INTERNAL_TENANT, payload_id)
        except StoreError as error:
            log.warning("not ready: the database is not writable: %s", reason_of(error))
            return Unready(
                "the database is not writable",
                "see the server's log: the disk may be full, or the database is read-only",
            )
        self._seen_writable.put(True, True)
        return None
