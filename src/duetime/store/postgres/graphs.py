"""Graphs: stored in one transaction, read back, cancelled, and run again from where they failed."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from duetime.errors import LeaseLost, NotFound
from duetime.ids import parse, show
from duetime.model.dependency import Parent, Tally
from duetime.model.graph import Graph, GraphItem, NewGraph
from duetime.model.job import decode_options
from duetime.model.lane import LaneKey
from duetime.model.lists import Page
from duetime.model.run import RunState
from duetime.process.slices import mapped
from duetime.store.postgres.control import stop_runs
from duetime.store.postgres.database import SQL, Connection, Row, columns
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.dependent_intake import insert_runs
from duetime.store.postgres.label_rows import put_labels
from duetime.store.postgres.settling import SettlingRole
from duetime.store.postgres.transaction import PostgresTransaction
from duetime.store.protocol.store import Hint
from duetime.store.rules.caller_keys import IDEMPOTENCY, answer_known_graph
from duetime.store.rules.dependents import (
    Dependent,
    check_over,
    dependent_rows,
    graph_item,
    no_graph,
    node,
    nothing_kept,
    parent,
    plan_rerun,
)
from duetime.store.rules.labels import label_rows, payload_rows
from duetime.store.rules.replays import repeat
from duetime.store.shared.answers import try_lock_keys
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID

_AT_ONCE = 2500


class GraphRole(SettlingRole):
    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph:
        keys = {item.job.lane for item in graph.nodes}
        await self.lane_book.ids(keys)
        async with self.database.transaction() as connection:
            known = await _known(connection, tenant_id, graph)
            if known is None:
                lanes = await self.lane_book.ids_within(connection, keys)
                await _insert(connection, tenant_id, graph, lanes)
            found = await _read(connection, tenant_id, known or graph.id, created=known is None)
        self.ready.announce()
        return found

    async def graph(self, tenant_id: int, graph_id: UUID) -> Graph:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            return await _read(connection, tenant_id, graph_id)

    async def list_graphs(self, tenant_id: int, before: UUID | None = None, limit: int = 50) -> Page[GraphItem]:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            rows = await connection.fetch(SQL["list_graphs"], tenant_id, before or LAST_ID, limit)
        items = tuple(graph_item(row) for row in rows)
        return Page(items, items[-1].id if len(items) == limit else None)

    @retry_on_deadlock
    async def cancel_graph(self, tenant_id: int, graph_id: UUID) -> Graph:
        async with self.database.acting_for(tenant_id) as connection:
            live = await connection.fetch(SQL["live_runs_of_graph"], tenant_id, graph_id)
            await stop_runs(connection, tenant_id, [row["id"] for row in live])
        self.hints.give(Hint.CANCEL)
        return await self.graph(tenant_id, graph_id)

    @retry_on_deadlock
    async def rerun_graph(self, tenant_id: int, graph_id: UUID, nonce: bytes) -> Graph:
        # An end that is handed on later would count for the runs that are made here. What is cancelled by handing on is
        # noted when that commits: each level of the graph takes a turn.
        while (found := await self._try_rerun(tenant_id, graph_id, nonce)) is None:
            await self.settle_graph(tenant_id, graph_id)
        self.ready.announce()
        return found

    async def _try_rerun(self, tenant_id: int, graph_id: UUID, nonce: bytes) -> Graph | None:
        """None while there are ends to be handed on."""
        async with self.database.acting_for(tenant_id) as connection:
            await connection.fetchval(SQL["hold_graph"], tenant_id, graph_id)
            graph = await _read(connection, tenant_id, graph_id)
            # What is handed on can end nothing but what waits for it: while others run, there may always be more ends.
            check_over(graph, but=[RunState.BLOCKED])
            # After the graph is locked: no node can finish settling an end while this transaction holds the graph.
            if await connection.fetchval(SQL["has_ends"], tenant_id, graph_id):
                return None
            await self._rerun(connection, tenant_id, graph, nonce)
            return await _read(connection, tenant_id, graph_id)

    async def _rerun(self, connection: Connection, tenant_id: int, graph: Graph, nonce: bytes) -> None:
        rerun = await asyncio.to_thread(plan_rerun, graph)
        nodes = [graph.nodes[place] for place in rerun.places]
        rows = await connection.fetch(SQL["ends_of_runs"], tenant_id, [item.run_id for item in nodes])
        old = {row["job_id"]: row for row in rows}
        if gone := [item.name for item in nodes if item.job_id not in old]:
            raise nothing_kept(gone)
        now = await connection.fetchval(SQL["clock"])
        job_ids = [item.job_id for item in nodes]
        lanes = await self.lane_book.awake_within(connection, [row["lane_id"] for row in rows])
        again = await mapped(
            lambda row: repeat(row["run_id"], *_content(row, lanes), now=now, nonce=nonce), old.values()
        )
        new = dict(zip(old, again, strict=True))
        await connection.execute(SQL["remove_dead_letters"], tenant_id, [item.run_id for item in nodes])
        runs = []
        for place, job_id in zip(rerun.places, job_ids, strict=True):
            item = new[job_id]
            content = (item.args, item.options, item.timeout_ms)
            runs.append((job_id, item.run_id, item.lane_id, now, None, *content, place in rerun.blocked, True))
        await connection.fetch(SQL["insert_dependents"], tenant_id, *columns(runs, 10), True)
        dependents = [item._replace(run_id=new[item.job_id].run_id) for item in rerun.dependents]
        await connection.execute(SQL["put_dependents"], tenant_id, *columns(dependent_rows(dependents), 9))
        await connection.execute(SQL["open_edges"], tenant_id, job_ids)
        await connection.execute(SQL["open_nodes"], tenant_id, job_ids, [new[job_id].run_id for job_id in job_ids])
        await connection.execute(SQL["open_graph"], tenant_id, graph.item.id, len(nodes))

    async def parents(
        self, tenant_id: int, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            row = await connection.fetchrow(SQL["what_is_run"], tenant_id, run_id)
            if row is None:
                raise NotFound(f"there is no run {show('run', run_id)}")
            return await _parents(connection, tenant_id, row, after, limit)

    async def held_parents(
        self, worker_id: UUID, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        async with self.database.transaction("repeatable read", readonly=True) as connection:
            row = await connection.fetchrow(SQL["what_is_held"], worker_id, run_id)
            if row is None:
                raise LeaseLost(f"{show('run', run_id)} belongs to another worker, or is over")
            return await _parents(connection, row["tenant_id"], row, after, limit)


async def _known(connection: Connection, tenant_id: int, graph: NewGraph) -> UUID | None:
    """The graph that was stored under this idempotency key before."""
    if graph.idempotency_key is None:
        return None
    wanted = [(IDEMPOTENCY, graph.idempotency_key)]
    await try_lock_keys(PostgresTransaction(connection), tenant_id, wanted)
    row = await connection.fetchrow(SQL["find_keys"], tenant_id, *columns(wanted, 2))
    return None if row is None else answer_known_graph(graph, row["job_id"], row["fingerprint"])


async def _insert(connection: Connection, tenant_id: int, graph: NewGraph, lanes: dict[LaneKey, int]) -> None:
    nodes, jobs = graph.nodes, [item.job for item in graph.nodes]
    dependents = {
        item.job.id: Dependent(item.job.id, item.job.first_run_id(), item.rule, Tally(len(item.parents)), False)
        for item in nodes
        if item.parents
    }
    for start in range(0, len(jobs), _AT_ONCE):
        part = jobs[start : start + _AT_ONCE]
        await insert_runs(connection, tenant_id, part, lanes, dependents, followed=True)
    await _put(connection, "put_dependents", (tenant_id,), dependent_rows(dependents.values()), 9)
    edges = [(jobs[parent].id, item.job.id, None) for item in nodes for parent in item.parents]
    await _put(connection, "put_edges", (tenant_id,), edges, 3)
    await connection.execute(SQL["insert_graph"], tenant_id, graph.id, graph.name, len(nodes))
    rows = [
        (item.job.id, place, item.name, item.job.lane.task, item.job.first_run_id()) for place, item in enumerate(nodes)
    ]
    await _put(connection, "insert_nodes", (tenant_id, graph.id), rows, 5)
    await put_labels(connection, tenant_id, label_rows(jobs), payload_rows(jobs))
    if graph.idempotency_key is not None:
        key = [(IDEMPOTENCY, graph.idempotency_key, graph.id, None, graph.fingerprint, None)]
        await connection.execute(SQL["put_keys"], tenant_id, *columns(key, 6))


async def _put(connection: Connection, name: str, of: Sequence[Any], rows: Sequence[Sequence[Any]], width: int) -> None:
    """Some rows at a time: to make a hundred thousand of them ready for the database keeps the event loop busy."""
    for start in range(0, len(rows), _AT_ONCE):
        await connection.execute(SQL[name], *of, *columns(rows[start : start + _AT_ONCE], width))


async def _read(connection: Connection, tenant_id: int, graph_id: UUID, *, created: bool = True) -> Graph:
    row = await connection.fetchrow(SQL["find_graph"], tenant_id, graph_id)
    if row is None:
        raise no_graph(graph_id)
    nodes = await connection.fetch(SQL["nodes_of_graph"], tenant_id, graph_id)
    edges = await connection.fetch(SQL["edges_of_graph"], tenant_id, graph_id)
    ends = await mapped(lambda row: (row[0], row[1]), edges)
    return Graph(graph_item(row), tuple(await mapped(node, nodes)), tuple(ends), created)


def _content(row: Row, lanes: Mapping[int, int]) -> tuple[UUID, int, bytes, bytes | None, int | None]:
    return row["job_id"], lanes[row["lane_id"]], row["args"], row["options"], row["timeout_ms"]


async def _parents(
    connection: Connection, tenant_id: int, row: Row, after: UUID | None, limit: int
) -> Sequence[Parent]:
    follows = decode_options(row["options"]).follows
    if follows is not None:
        cause = [] if after else await connection.fetch(SQL["followed_run"], tenant_id, parse("run", follows))
        return [parent(row) for row in cause]
    rows = await connection.fetch(SQL["parents_of_job"], tenant_id, row["job_id"], after or FIRST_ID, limit)
    return [parent(row) for row in rows]
