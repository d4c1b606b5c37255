"""No statement walks over a whole table because the statistics say that nothing is in it.

That is what they say of a table that was looked at in a quiet moment, or one full of dead rows that an open transaction
keeps: the planner then takes any index for free, whole. Workers ask each second whether a run of theirs is to be
stopped, so that a worker which reads all of the table for it is slower with every row.

A new table has nothing in it either. A plan that is made then is used until the next ANALYZE, whatever comes meanwhile.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from duetime.ids import new_id
from duetime.store.postgres import PostgresStore
from duetime.store.postgres.database import MARK, SQL
from duetime.store.sqlite import SqliteStore
from duetime.store.sqlite.connection import SQL as OF_FILES
from tests.support.postgres import Server

ROWS = 100_000
QUERIES = {name: text for name, text in SQL.items() if not text.startswith(f"{MARK}explain")}
FILLING = {
    "runs": "(id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args)"
    " select gen_random_uuid(), gen_random_uuid(), 1, 1, 1, now(), now(), ''",
    "jobs": "(id, tenant_id, task, queue, tier, schedule, recurring, args, created_at)"
    " select gen_random_uuid(), 1, 'a', 'b', 1, '', true, '', now()",
    "cursors": "(job_id, scan_at, next_fire_at) select gen_random_uuid(), now(), now()",
    "claims": "(worker_id, claim_no, run_ids, claimed_at) select gen_random_uuid(), 1, '{}', now()",
}
"""What stands in each table before it is emptied."""
WALKS = {
    "runs": {
        "counts": "asked for by tests alone",
        "count_bytes": "all that a tenant has is to be counted",
        "count_jobs": "all that a tenant has is to be counted, up to its limit",
        "erase_runs": "all that a tenant has is to be erased",
        "list_queues": "what is put off in all lanes, which is what the index has",
        "running_of_tenant": "all that a tenant has is to be erased",
        "unblock": "what waits for other runs of its job, which is what the index has",
        "waiting_by_tier": "what waits in all lanes, up to a cap",
    },
    "jobs": {"counts": "asked for by tests alone"},
    "cursors": {},
    "claims": {
        "dead_claims": "all that are held, a row for hundreds of runs",
        "held_slots": "all that are held, a row for hundreds of runs",
        "longest_running": "all that are held, a row for hundreds of runs",
        "overdue_claims": "all that are held, a row for hundreds of runs",
        "shift_back": "all that are held, a row for hundreds of runs",
        "slow_candidates": "all that are held, a row for hundreds of runs",
    },
}
"""Statements that may read an index from its begin, and of what."""
SOMETIMES = {
    "hold_parents": "the parents of new jobs, by the tenant: their number is unknown to the planner",
    "refollow_runs": "the same parents",
    "shift_cursors": "all cursors in view, after the clock went back",
}
"""Those that do so under some statistics, or by some versions."""
PROBES = ("find_lanes", "lane_changes", "list_queues")
"""Statements that look up a lane for each of many keys, changes or queues. There may be ten thousand of both."""
LEADING = """
select c.relname, a.attname from pg_index i join pg_class c on c.oid = i.indexrelid
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0] where i.indrelid = $1::regclass
"""
"""The first column of each index of a table."""


@pytest.mark.parametrize("table", FILLING)
async def test_no_statement_walks_over_a_whole_table(migrated_on_each: str, table: str) -> None:
    connection = await asyncpg.connect(migrated_on_each)
    try:
        await connection.execute(f"alter table duetime.{table} set (autovacuum_enabled = false)")
        await connection.execute(f"insert into duetime.{table} {FILLING[table]} from generate_series(1, {ROWS})")
        await connection.execute(f"delete from duetime.{table}")
        await connection.execute(f"analyze duetime.{table}")
        walks = await _all_walks(connection, table)
    finally:
        await connection.close()
    assert {name: found for name, found in walks.items() if name not in WALKS[table] | SOMETIMES} == {}
    assert walks.keys() >= WALKS[table].keys(), "what is no exception any more need not be named as one"


@pytest.mark.parametrize("known", [False, True])
async def test_no_plan_that_was_made_for_a_new_table_reads_all_of_it(each_postgres: Server, known: bool) -> None:
    dsn = each_postgres.create_database(name := f"plans_{new_id().hex}")
    store = PostgresStore(dsn)
    await store.open()
    await store.migrate()
    await store.close()
    connection = await asyncpg.connect(dsn)
    try:
        for table in ("runs", "jobs", "cursors"):
            await connection.execute(f"alter table duetime.{table} set (autovacuum_enabled = false)")
            if known:
                await connection.execute(f"vacuum analyze duetime.{table}")
            walks = await _all_walks(connection, table)
            assert {name: found for name, found in walks.items() if name not in WALKS[table] | SOMETIMES} == {}
    finally:
        await connection.close()
        each_postgres.drop_database(name)


@pytest.mark.parametrize("state", ["new", "vacuumed", "emptied"])
async def test_each_lane_is_found_by_its_key(migrated_on_each: str, state: str) -> None:
    connection = await asyncpg.connect(migrated_on_each)
    try:
        await connection.execute("alter table duetime.lanes set (autovacuum_enabled = false)")
        if state == "emptied":
            await connection.execute(
                "insert into duetime.lanes (tenant_id, queue, tier, task)"
                f" select 1, 'q' || n, 1, 'a' from generate_series(1, {ROWS}) n"
            )
            await connection.execute("delete from duetime.lanes")
        if state != "new":
            await connection.execute(f"{'vacuum ' if state == 'vacuumed' else ''}analyze duetime.lanes")
        await connection.execute("set plan_cache_mode = force_generic_plan")
        for name in PROBES:
            found = list(_probes(await _plan(connection, QUERIES[name])))
            assert found, f"{name} looks up no lane"
            assert all("queue = " in asked or "(id = " in asked for asked in found), f"{name}: {found}"
    finally:
        await connection.close()


async def test_no_statement_of_a_file_reads_all_runs_of_a_tenant_for_some(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "duetime.db")
    await store.open()
    await store.migrate()
    await store.close()
    reads = {"cancel_waiting", "ask_to_stop", "follow_runs", "find_live_runs", "news_of_live_runs", "fates_of_runs"}
    assert reads <= OF_FILES.keys()
    walks = set[str]()
    with closing(sqlite3.connect(tmp_path / "duetime.db")) as connection:
        for name, parts in OF_FILES.items():
            for part in parts:
                given = dict.fromkeys(re.findall(r":(\w+)", part))
                if given and "runs" in part:
                    plan = connection.execute(f"explain query plan {part}", given).fetchall()
                    walks |= {name for row in plan if "runs_of_job (tenant_id=?)" in row[3]}
    assert walks == {"running_of_tenant", "erase_runs", "list_live_runs"}, "these are asked for all of them"


async def _all_walks(connection: "asyncpg.Connection[Any]", table: str) -> dict[str, list[str]]:
    await connection.execute("set plan_cache_mode = force_generic_plan")
    leading = {row["relname"]: row["attname"] for row in await connection.fetch(LEADING, f"duetime.{table}")}
    concerned = {name: text for name, text in QUERIES.items() if re.search(rf"duetime\.{table}\b", text)}
    assert len(concerned) > len(WALKS[table])
    return {
        name: found
        for name, text in concerned.items()
        if (found := list(_walks(await _plan(connection, text), table, leading)))
    }


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


def _probes(plan: dict[str, Any], repeated: bool = False) -> Iterator[str]:
    """By which conditions lanes are found where that is done for each row of something else."""
    if repeated and plan.get("Relation Name") == "lanes":
        yield plan.get("Index Cond", "")
    for part in plan.get("Plans", ()):
        inner = plan["Node Type"] == "Nested Loop" and part["Parent Relationship"] == "Inner"
        yield from _probes(part, repeated or inner)


def _walks(plan: dict[str, Any], table: str, leading: dict[str, str]) -> Iterator[str]:
    """Where it reads all of the table, or all of an index of it: one that is not asked for its first column is, and so
    are all runs of a tenant.

    Not so the jobs of tenants, by id: where nothing is believed to stand, that index costs what the primary key does,
    and no way of asking chooses between them.
    """
    kind, index = plan["Node Type"], plan.get("Index Name", "")
    if plan.get("Relation Name") == table and kind == "Seq Scan":
        yield kind
    asked = plan.get("Index Cond", "")
    if index in leading and not (re.search(rf"\b{leading[index]}\b", asked) or (asked and index == "jobs_of_tenant")):
        yield f"{kind} of {index}"
    elif table == "runs" and index == "runs_of_job" and "job_id" not in asked:
        yield f"{kind} of {index} by the tenant alone"
    for part in plan.get("Plans", ()):
        yield from _walks(part, table, leading)
