"""A gate before a drain: it opens when all workers are up, so that none of them has the first second for itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from duetime.model.job import DEFAULT_QUEUE, DEFAULT_TENANT
from duetime.store.postgres import PostgresStore

_PAUSE_ALL = """
insert into duetime.queues (tenant_id, name, paused_at)
select distinct tenant_id, queue, now() from duetime.lanes where tenant_id = $1
on conflict (tenant_id, name) do update set paused_at = excluded.paused_at
"""
_RESUME_OTHERS = "update duetime.queues set paused_at = null where tenant_id = $1 and name <> $2"
_WORKERS = "select count(*) from duetime.workers where lease_until > now()"


@asynccontextmanager
async def gate(dsn: str) -> AsyncIterator["Gate"]:
    connection = await asyncpg.connect(dsn)
    try:
        yield Gate(dsn, connection)
    finally:
        await connection.close()


class Gate:
    def __init__(self, dsn: str, connection: "asyncpg.Connection[Any]") -> None:
        self._dsn = dsn
        self._connection = connection

    async def close(self) -> None:
        """Pause every queue."""
        await self._connection.execute(_PAUSE_ALL, DEFAULT_TENANT)

    async def open(self, workers: int) -> None:
        """Wait for so many workers, and let them go at once: resuming a queue wakes them."""
        while await self._connection.fetchval(_WORKERS) < workers:
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)  # they have looked at their lanes
        await self._connection.execute(_RESUME_OTHERS, DEFAULT_TENANT, DEFAULT_QUEUE)
        store = PostgresStore(self._dsn)
        await store.open()
        await store.queues.resume_queue(DEFAULT_TENANT, DEFAULT_QUEUE)
        await asyncio.sleep(0.5)  # hints are sent off the commit path
        await store.close()
