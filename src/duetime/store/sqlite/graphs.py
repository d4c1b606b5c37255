"""Graphs: stored in one transaction, read back, cancelled, and run again from where they failed."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from duetime.errors import LeaseLost, NotFound
from duetime.ids import parse, show
from duetime.model.dependency import Parent, Tally
from duetime.model.event import EventKind
from duetime.model.graph import Graph, GraphItem, NewGraph
from duetime.model.job import decode_options
from duetime.model.lane import LaneKey
from duetime.model.lists import Page
from duetime.store.protocol.store import Hint
from duetime.store.rules.caller_keys import IDEMPOTENCY, answer_known_graph
from duetime.store.rules.dependents import Dependent, graph_item, no_graph, node, nothing_kept, parent, plan_rerun
from duetime.store.rules.replays import repeat
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.control import stop_run
from duetime.store.sqlite.dependent_intake import insert_runs, put_dependents, put_edges
from duetime.store.sqlite.event_log import tell
from duetime.store.sqlite.label_rows import put_labels
from duetime.store.sqlite.lanes import LaneBook
from duetime.store.sqlite.settling import SettlingRole
from duetime.store.sqlite.values import identity, moment


class GraphRole(SettlingRole):
    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph:
        def work(connection: Connection, now: int) -> Graph:
            known = _known(connection, tenant_id, graph)
            if known is None:
                lanes = self.lane_book.ids(connection, {item.job.lane for item in graph.nodes}, new_work=True)
                _insert(connection, now, tenant_id, graph, lanes)
            return _read(connection, tenant_id, known or graph.id, created=known is None)

        found = await self.database.run(work)
        self.ready.announce()
        return found

    async def graph(self, tenant_id: int, graph_id: UUID) -> Graph:
        return await self.database.run(lambda connection, _: _read(connection, tenant_id, graph_id))

    async def list_graphs(self, tenant_id: int, before: UUID | None = None, limit: int = 50) -> Page[GraphItem]:
        wanted = {"tenant_id": tenant_id, "before": (before or LAST_ID).bytes, "limit": limit}
        rows = await self.database.run(lambda connection, _: connection.records("list_graphs", wanted))
        items = tuple(graph_item(row) for row in rows)
        return Page(items, items[-1].id if len(items) == limit else None)

    async def cancel_graph(self, tenant_id: int, graph_id: UUID) -> Graph:
        def work(connection: Connection, now: int) -> Graph:
            for (run_id,) in connection.rows("live_runs_of_graph", _this(tenant_id, graph_id)):
                stop_run(connection, now, tenant_id, run_id)
            return _read(connection, tenant_id, graph_id)

        found = await self.database.run(work)
        self.hints.give(Hint.CANCEL)
        return found

    async def rerun_graph(self, tenant_id: int, graph_id: UUID, nonce: bytes) -> Graph:
        def work(connection: Connection, now: int) -> Graph:
            # An end that is handed on later would count for the runs that are made here.
            while self.hand_on(connection, now, connection.rows("take_ends_of_graph", _this(tenant_id, graph_id))):
                pass
            _rerun(connection, self.lane_book, now, tenant_id, _read(connection, tenant_id, graph_id), nonce)
            return _read(connection, tenant_id, graph_id)

        found = await self.database.run(work)
        self.ready.announce()
        return found

    async def parents(
        self, tenant_id: int, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        def work(connection: Connection, _now: int) -> Sequence[Parent]:
            rows = connection.records("what_is_run", {"tenant_id": tenant_id, "run_id": run_id.bytes})
            if not rows:
                raise NotFound(f"there is no run {show('run', run_id)}")
            return _parents(connection, tenant_id, rows[0], after, limit)

        return await self.database.run(work)

    async def held_parents(
        self, worker_id: UUID, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        def work(connection: Connection, _now: int) -> Sequence[Parent]:
            rows = connection.records("what_is_held", {"worker_id": worker_id.bytes, "run_id": run_id.bytes})
            if not rows:
                raise LeaseLost(f"{show('run', run_id)} belongs to another worker, or is over")
            return _parents(connection, rows[0]["tenant_id"], rows[0], after, limit)

        return await self.database.run(work)


def _this(tenant_id: int, graph_id: UUID) -> dict[str, Any]:
    return {"tenant_id": tenant_id, "graph_id": graph_id.bytes}


def _known(connection: Connection, tenant_id: int, graph: NewGraph) -> UUID | None:
    """The graph that was stored under this idempotency key before."""
    if graph.idempotency_key is None:
        return None
    wanted = {"tenant_id": tenant_id, "kind": IDEMPOTENCY, "key": graph.idempotency_key}
    row = connection.row("find_keys", wanted)
    return None if row is None else answer_known_graph(graph, identity(row[0]), row[2])


def _insert(connection: Connection, now: int, tenant_id: int, graph: NewGraph, lanes: dict[LaneKey, int]) -> None:
    nodes, jobs = graph.nodes, [item.job for item in graph.nodes]
    dependents = {
        item.job.id: Dependent(item.job.id, item.job.first_run_id(), item.rule, Tally(len(item.parents)), False)
        for item in nodes
        if item.parents
    }
    insert_runs(connection, now, tenant_id, jobs, lanes, dependents, followed=True)
    put_dependents(connection, tenant_id, dependents.values())
    put_edges(
        connection, tenant_id, [(jobs[parent].id, item.job.id, None) for item in nodes for parent in item.parents]
    )
    this = {"tenant_id": tenant_id, "id": graph.id.bytes, "name": graph.name, "nodes": len(nodes), "now": now}
    connection.execute("insert_graph", this)
    own = (tenant_id, graph.id.bytes)
    connection.many(
        "insert_nodes",
        [
            (*own, item.job.id.bytes, place, item.name, item.job.lane.task, item.job.first_run_id().bytes)
            for place, item in enumerate(nodes)
        ],
    )
    put_labels(connection, tenant_id, jobs)
    tell(connection, now, EventKind.SUBMITTED, tenant_id, [job.id for job in jobs])
    if graph.idempotency_key is not None:
        key = (tenant_id, IDEMPOTENCY, graph.idempotency_key, graph.id.bytes, None, graph.fingerprint, None, now)
        connection.many("put_keys", [key])


def _read(connection: Connection, tenant_id: int, graph_id: UUID, *, created: bool = True) -> Graph:
    this = _this(tenant_id, graph_id)
    rows = connection.records("find_graph", this)
    if not rows:
        raise no_graph(graph_id)
    nodes = tuple(node(row) for row in connection.records("nodes_of_graph", this))
    edges = tuple((first, second) for first, second in connection.rows("edges_of_graph", this))
    return Graph(graph_item(rows[0]), nodes, edges, created)


def _rerun(connection: Connection, book: LaneBook, now: int, tenant_id: int, graph: Graph, nonce: bytes) -> None:
    rerun = plan_rerun(graph)
    nodes = [graph.nodes[place] for place in rerun.places]
    runs, new = [], {}
    for place, item in zip(rerun.places, nodes, strict=True):
        of_run = {"tenant_id": tenant_id, "run_id": item.run_id.bytes}
        rows = connection.records("ends_of_runs", of_run)
        if not rows:
            raise nothing_kept([item.name])
        old = rows[0]
        content = (book.awake_again(connection, old["lane_id"]), old["args"], old["options"], old["timeout_ms"])
        again = repeat(item.run_id, item.job_id, *content, now=moment(now), nonce=nonce)
        new[item.job_id] = again.run_id
        connection.execute("remove_dead_letters", of_run)
        runs.append(
            {
                "run_id": again.run_id.bytes,
                "job_id": item.job_id.bytes,
                "tenant_id": tenant_id,
                "lane_id": again.lane_id,
                "blocked": place in rerun.blocked,
                "due_at": now,
                "args": again.args,
                "options": again.options,
                "timeout_ms": again.timeout_ms,
                "followed": True,
                "manual": True,
                "now": now,
            }
        )
    connection.many("insert_dependents", runs)
    tell(connection, now, EventKind.FIRED, tenant_id, list(new.values()))
    put_dependents(connection, tenant_id, [item._replace(run_id=new[item.job_id]) for item in rerun.dependents])
    ids = [item.job_id.bytes for item in graph.nodes]
    places = set(rerun.places)
    opened = [(tenant_id, ids[one], ids[two]) for one, two in graph.edges if one in places and two in places]
    connection.many("open_edges", opened)
    rows = [{"tenant_id": tenant_id, "job_id": job.bytes, "run_id": run.bytes} for job, run in new.items()]
    connection.many("open_nodes", rows)
    connection.execute("open_graph", {**_this(tenant_id, graph.item.id), "unended": len(nodes)})


def _parents(
    connection: Connection, tenant_id: int, row: dict[str, Any], after: UUID | None, limit: int
) -> Sequence[Parent]:
    follows = decode_options(row["options"]).follows
    if follows is not None:
        cause = {"tenant_id": tenant_id, "run_id": parse("run", follows).bytes}
        return [] if after else [parent(found) for found in connection.records("followed_run", cause)]
    wanted = {
        "tenant_id": tenant_id,
        "job_id": row["job_id"].bytes,
        "after": (after or FIRST_ID).bytes,
        "limit": limit,
    }
    return [parent(found) for found in connection.records("parents_of_job", wanted)]
