"""The cost for a claim of skipping a run of its lane that another session is claiming or has claimed.

Workers that share a lane each start where their own last claim ended, and so skip what the others took meanwhile. One
session holds runs, another claims the next ones after them: measured without any other load.
"""

from statistics import median
from time import perf_counter
from uuid import uuid4

import asyncpg

from bench.drain import fill
from bench.stores import Databases, migrated
from duetime.store.postgres import PostgresStore

CLAIM = 500
_OTHERS = 2 * CLAIM
_BEHIND = {"no others": (0, False), "those being claimed": (_OTHERS, False), "those claimed": (_OTHERS, True)}
"""What stands in front of a claim: how many runs of another worker, and whether their claim is committed."""
_TRIES = 25
_JOIN = """
insert into duetime.workers (id, name, tasks, queues, slots, started_at, lease_until)
values ($1, 'bench', '{}', '{}', 1000, now(), now() + interval '1 hour')
"""
_CLAIM = "select count(*) from duetime.claim(array[$1]::int[], array[$2]::int[], array['epoch'::timestamptz], $3, 1)"


async def passing(databases: Databases) -> dict[str, float]:
    """Microseconds for each run that is passed by; nothing, where it is less than what a claim varies by."""
    dsn = databases.postgres()
    async with migrated(PostgresStore(dsn)) as store:
        await fill(store, 20 * CLAIM)
        other, own = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
        took: dict[str, list[float]] = {name: [] for name in _BEHIND}
        for _ in range(_TRIES):  # in turns: the first claims of a session take longer than the rest
            for name, (count, committed) in _BEHIND.items():
                took[name].append(await _claim_behind(other, own, count, committed=committed))
        await other.close()
        await own.close()
    alone, being, been = (median(times) for times in took.values())
    return {"being claimed": max(0.0, being - alone) / _OTHERS, "claimed": max(0.0, been - alone) / _OTHERS}


async def _claim_behind(
    other: "asyncpg.Connection[asyncpg.Record]",
    own: "asyncpg.Connection[asyncpg.Record]",
    count: int,
    *,
    committed: bool,
) -> float:
    """How long a claim takes behind so many runs of another worker, in microseconds."""
    lane = await own.fetchval("select min(lane_id) from duetime.runs")
    theirs, mine = uuid4(), uuid4()
    for worker in (theirs, mine):
        await own.execute(_JOIN, worker)
    await own.execute("vacuum duetime.runs")
    holding, asking = other.transaction(), own.transaction()
    await holding.start()
    if count:
        await other.fetchval(_CLAIM, lane, count, theirs)
    if committed:
        await holding.commit()
    await asking.start()
    began = perf_counter()
    got = await own.fetchval(_CLAIM, lane, CLAIM, mine)
    took = (perf_counter() - began) * 1e6
    assert got == CLAIM, got
    await asking.rollback()
    if committed:
        await own.execute("update duetime.runs set worker_id = null, claim_no = null where worker_id = $1", theirs)
    else:
        await holding.rollback()
    return took
