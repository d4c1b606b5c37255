"""Rows of history: 500 at a time out of `unnest`, or by binary COPY. Both get the whole rows from the client; a
completion on the real tables moves them inside the database, which neither has to do."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from bench.limits.drain import ARGS, BATCH, TABLES
from bench.tried.ways import Place, Ways
from duetime.ids import new_ids

COLUMNS = ("id", "job_id", "tenant_id", "attempt", "fence", "state", "finished_at", "worker", "args")
_UNNEST = f"""
insert into pinned.history ({", ".join(COLUMNS)})
select * from unnest($1::uuid[], $2::uuid[], $3::int[], $4::smallint[], $5::int[], $6::smallint[], $7::timestamptz[],
    $8::uuid[], $9::bytea[])
"""
Row = tuple[UUID, UUID, int, int, int, int, datetime, UUID, bytes]
Write = Callable[["asyncpg.Connection[Any]", list[Row]], Coroutine[Any, Any, Any]]


async def _by_unnest(connection: "asyncpg.Connection[Any]", rows: list[Row]) -> None:
    await connection.execute(_UNNEST, *map(list, zip(*rows, strict=True)))


async def _by_copy(connection: "asyncpg.Connection[Any]", rows: list[Row]) -> None:
    await connection.copy_records_to_table("history", schema_name="pinned", records=rows, columns=COLUMNS)


async def _measure(place: Place, write: Write) -> float:
    connection = await asyncpg.connect(place.databases.postgres())
    worker, now = uuid4(), datetime.now(UTC)
    try:
        await connection.execute(TABLES)
        await connection.execute("checkpoint")
        began = time.perf_counter()
        for _ in range(0, place.runs, BATCH):
            pairs = zip(new_ids(BATCH), new_ids(BATCH), strict=True)
            await write(connection, [(run, job, 1, 1, 1, 2, now, worker, ARGS) for run, job in pairs])
        return place.runs / (time.perf_counter() - began)
    finally:
        await connection.close()


def _try(place: Place, write: Write) -> float:
    return asyncio.run(_measure(place, write))


WAYS: Ways = {"unnest": partial(_try, write=_by_unnest), "binary COPY": partial(_try, write=_by_copy)}
