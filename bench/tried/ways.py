"""What the things that were tried have in common: a place to try them in, and a drain on the real tables."""

import asyncio
from collections.abc import Callable, Mapping

import asyncpg
import msgspec
import uvloop

from bench.drain import TASKS, drain, fill
from bench.peers.peer import settle
from bench.stores import Databases, migrated
from duetime.store.postgres import PostgresStore


class Place(msgspec.Struct, frozen=True):
    databases: Databases
    runs: int


Ways = Mapping[str, Callable[[Place], float]]
"""Ways to do the same; each tells how many it does a second."""


def drained(
    place: Place,
    *,
    prepared: bool = True,
    loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
    before: str | None = None,
) -> float:
    """Runs a second by a worker inside this process. `before` is done to the empty tables."""

    async def measure() -> float:
        dsn = place.databases.postgres()
        async with migrated(PostgresStore(dsn, prepared=prepared)) as store:
            if before is not None:
                connection = await asyncpg.connect(dsn)
                await connection.execute(before)
                await connection.close()
            await fill(store, place.runs)
            await settle(dsn)
            return await drain(store, TASKS["async"], place.runs)

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(measure())
