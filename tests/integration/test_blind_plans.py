"""No statement walks over all live runs because the statistics say that there are none.

That is what they say of a table that was looked at in a quiet moment, or one full of dead rows that an open transaction
keeps: the planner then takes any index for free, whole. Workers ask each second whether a run of theirs is to be
stopped, so that a worker which reads all of the table for it is slower with every row.
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from duetime.ids import new_id
from duetime.store.postgres import PostgresStore
from duetime.store.postgres.database import SQL
from tests.support.postgres import Server

ROWS = 100_000
WALKS = {
    "counts": "asked for by tests alone",
    "list_queues": "what is put off in all lanes, which is what the index has",
    "parked_limits": "the next key each time, by a limit of one",
    "unblock": "what waits for other runs of its job, which is what the index has",
}
"""Statements that may read an index from its begin, and of what."""


@pytest.fixture
async def fresh(each_postgres: Server) -> AsyncIterator[str]:
    name = f"blind_{new_id().hex}"
    dsn = each_postgres.create_database(name)
    store = PostgresStore(dsn)
    await store.open()
    await store.migrate()
    await store.close()
    yield dsn
    each_postgres.drop_database(name)


async def test_no_statement_walks_over_all_live_runs(fresh: str) -> None:
    connection = await asyncpg.connect(fresh)
    try:
        await connection.execute("alter table duetime.runs set (autovacuum_enabled = false)")
        await connection.execute(
            "insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args)"
            f" select gen_random_uuid(), gen_random_uuid(), 1, 1, 1, now(), now(), '' from generate_series(1, {ROWS})"
        )
        await connection.execute("delete from duetime.runs")
        await connection.execute("analyze duetime.runs")
        await connection.execute("set plan_cache_mode = force_generic_plan")
        concerned = {name: statement for name, statement in SQL.items() if "duetime.runs" in statement}
        walks = {
            name: found for name, text in concerned.items() if (found := list(_walks(await _plan(connection, text))))
        }
    finally:
        await connection.close()
    assert len(concerned) > 50
    assert {name: found for name, found in walks.items() if name not in WALKS} == {}
    assert walks.keys() == WALKS.keys(), "what is no exception any more need not be named as one"


async def _plan(connection: "asyncpg.Connection[Any]", text: str) -> dict[str, Any]:
    """The plan of a statement whatever its parameters are."""
    known = await connection.prepare(text)
    parameters = ", ".join(["null"] * len(known.get_parameters()))
    await connection.execute(f"prepare looked_at as {text}")
    try:
        told = await connection.fetchval(
            f"explain (format json) execute looked_at{f'({parameters})' if parameters else ''}"
        )
    finally:
        await connection.execute("deallocate looked_at")
    plan: dict[str, Any] = json.loads(told)[0]["Plan"]
    return plan


def _walks(plan: dict[str, Any]) -> Iterator[str]:
    """Where it reads all of the table, or all of an index of it."""
    kind, index = plan["Node Type"], plan.get("Index Name", "")
    if plan.get("Relation Name") == "runs" and kind == "Seq Scan":
        yield kind
    if index.startswith("runs_") and "Index Cond" not in plan:
        yield f"{kind} of {index}"
    for part in plan.get("Plans", ()):
        yield from _walks(part)
