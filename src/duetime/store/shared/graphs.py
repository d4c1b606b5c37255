"""Graphs: stored in one transaction, read back, cancelled, and run again from where they failed."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from duetime.errors import LeaseLost, NotFound
from duetime.ids import parse, show
from duetime.model.dependency import Parent, Tally
from duetime.model.event import EventKind
from duetime.model.graph import Graph, GraphItem, NewGraph
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import decode_options
from duetime.model.lane import LaneKey
from duetime.model.lists import Page
from duetime.model.run import RunState
from duetime.store.protocol.store import Hint
from duetime.store.rules.caller_keys import answer_known_graph
from duetime.store.rules.dependents import (
    Dependent,
    check_over,
    graph_item,
    no_graph,
    node,
    nothing_kept,
    parent,
    plan_rerun,
)
from duetime.store.rules.replays import Repeat, repeat
from duetime.store.shared.active_tenants import check_active
from duetime.store.shared.answers import answer_row, find_answer
from duetime.store.shared.control import stop_runs
from duetime.store.shared.dependent_intake import RUN, insert_runs, put_dependencies
from duetime.store.shared.events import append_events
from duetime.store.shared.label_rows import put_labels_of
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID
from duetime.store.shared.settling import SettlingRole, settle_graph
from duetime.store.shared.transaction import AT_ONCE, Row, Rows, Transaction

_MANY = 500
"""Nodes or edges of a graph that are not worked on in one piece on the event loop."""


class GraphRole(SettlingRole):
    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph:
        async def work(transaction: Transaction) -> Graph:
            await check_active(transaction, tenant_id)
            known = await _known(transaction, tenant_id, graph)
            if known is None:
                keys = {item.job.lane for item in graph.nodes}
                lanes = await self.run_maker.lanes(transaction, keys, new_work=True)
                await _insert(transaction, tenant_id, graph, lanes)
            return await _read(transaction, tenant_id, known or graph.id, created=known is None)

        found = await self.transactions.run(work)
        self.ready.announce()
        return found

    async def graph(self, tenant_id: int, graph_id: UUID) -> Graph:
        reading = self.transactions.reading(tenant_id)
        return await reading.run(lambda transaction: _read(transaction, tenant_id, graph_id))

    async def list_graphs(self, tenant_id: int, before: UUID | None = None, limit: int = 50) -> Page[GraphItem]:
        wanted = {"tenant_id": tenant_id, "before": before or LAST_ID, "limit": limit}
        rows = await self.transactions.reading(tenant_id).rows("list_graphs", **wanted)
        items = tuple(graph_item(row) for row in rows)
        return Page(items, items[-1].id if len(items) == limit else None)

    async def cancel_graph(self, tenant_id: int, graph_id: UUID) -> Graph:
        async def work(transaction: Transaction) -> None:
            live = await transaction.rows("live_runs_of_graph", tenant_id=tenant_id, graph_id=graph_id)
            await stop_runs(transaction, tenant_id, [row["id"] for row in live])

        await self.transactions.of(tenant_id).run(work)
        self.hints.give(Hint.CANCEL)
        return await self.graph(tenant_id, graph_id)

    async def rerun_graph(self, tenant_id: int, graph_id: UUID, nonce: bytes) -> Graph:
        async def settle(transaction: Transaction) -> None:
            await settle_graph(transaction, self.run_maker, tenant_id, graph_id)

        # An end that is handed on later would count for the runs that are made here. What is cancelled by handing on is
        # noted when that commits: each level of the graph takes a turn.
        while (found := await self._try_rerun(tenant_id, graph_id, nonce)) is None:
            await self.transactions.run(settle)
        self.ready.announce()
        return found

    async def _try_rerun(self, tenant_id: int, graph_id: UUID, nonce: bytes) -> Graph | None:
        """Rerun the graph. Returns None, and does nothing, while ends of its nodes have not been passed on to their
        children."""
        of_graph = {"tenant_id": tenant_id, "graph_id": graph_id}

        async def work(transaction: Transaction) -> Graph | None:
            await check_active(transaction, tenant_id)
            await transaction.lock("hold_graph", **of_graph)
            graph = await _read(transaction, tenant_id, graph_id)
            # What is handed on can end nothing but what waits for it: while others run, there may always be more ends.
            check_over(graph, but=[RunState.BLOCKED])
            # After the look at the graph: no transaction hands an end on to the end while the graph is held.
            if await transaction.value("has_ends", **of_graph):
                return None
            await self._rerun(transaction, tenant_id, graph, nonce)
            return await _read(transaction, tenant_id, graph_id)

        return await self.transactions.of(tenant_id).run(work)

    async def _rerun(self, transaction: Transaction, tenant_id: int, graph: Graph, nonce: bytes) -> None:
        rerun = await transaction.compute(plan_rerun, graph)
        nodes = [graph.nodes[place] for place in rerun.places]
        old_ids = [item.run_id for item in nodes]
        old = await transaction.rows("ends_of_runs", tenant_id=tenant_id, ids=old_ids)
        kept = {row["job_id"] for row in old}
        if gone := [item.name for item in nodes if item.job_id not in kept]:
            raise nothing_kept(gone)
        now = await transaction.now()
        lanes = await self.run_maker.awake_lanes(transaction, [row["lane_id"] for row in old])
        new: dict[UUID, Repeat] = await transaction.compute(
            lambda: {row["job_id"]: repeat(row["run_id"], *_content(row, lanes), now=now, nonce=nonce) for row in old}
        )
        await transaction.execute("remove_dead_letters", tenant_id=tenant_id, ids=old_ids)
        runs = []
        for place, item in zip(rerun.places, nodes, strict=True):
            again = new[item.job_id]
            content = (again.args, again.options, again.timeout_ms)
            runs.append((item.job_id, again.run_id, again.lane_id, now, None, *content, place in rerun.blocked))
        await transaction.put("insert_dependents", RUN, runs, tenant_id=tenant_id, followed=True, manual=True)
        dependents = [item._replace(run_id=new[item.job_id].run_id) for item in rerun.dependents]
        await put_dependencies(transaction, tenant_id, dependents, [])
        job_ids = [item.job_id for item in nodes]
        run_ids = [new[job_id].run_id for job_id in job_ids]
        await transaction.execute("open_edges", tenant_id=tenant_id, ids=job_ids)
        opened = list(zip(job_ids, run_ids, strict=True))
        await transaction.put("open_nodes", ("job_id", "run_id"), opened, tenant_id=tenant_id)
        await transaction.execute("open_graph", tenant_id=tenant_id, graph_id=graph.item.id, unended=len(nodes))
        await append_events(transaction, EventKind.FIRED, tenant_id, run_ids)

    async def parents(
        self, tenant_id: int, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        async def work(transaction: Transaction) -> Sequence[Parent]:
            row = await transaction.row("what_is_run", tenant_id=tenant_id, run_id=run_id)
            if row is None:
                raise NotFound(f"there is no run {show('run', run_id)}")
            return await _parents(transaction, tenant_id, row, after, limit)

        return await self.transactions.reading(tenant_id).run(work)

    async def held_parents(
        self, worker_id: UUID, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        async def work(transaction: Transaction) -> Sequence[Parent]:
            row = await transaction.row("what_is_held", worker_id=worker_id, run_id=run_id)
            if row is None:
                raise LeaseLost(f"{show('run', run_id)} belongs to another worker, or is over")
            return await _parents(transaction, row["tenant_id"], row, after, limit)

        return await self.transactions.run(work)


async def _known(transaction: Transaction, tenant_id: int, graph: NewGraph) -> UUID | None:
    """The graph that was stored under this idempotency key before."""
    if graph.idempotency_key is None:
        return None
    row = await find_answer(transaction, tenant_id, graph.idempotency_key)
    return None if row is None else answer_known_graph(graph, row["job_id"], row["fingerprint"])


async def _insert(transaction: Transaction, tenant_id: int, graph: NewGraph, lanes: Mapping[LaneKey, int]) -> None:
    nodes, jobs = graph.nodes, [item.job for item in graph.nodes]
    dependents = {
        item.job.id: Dependent(item.job.id, item.job.first_run_id(), item.rule, Tally(len(item.parents)), False)
        for item in nodes
        if item.parents
    }
    for start in range(0, len(jobs), AT_ONCE):
        part = jobs[start : start + AT_ONCE]
        await insert_runs(transaction, tenant_id, part, lanes, dependents, followed=True)
    edges = [(jobs[parent].id, item.job.id, None) for item in nodes for parent in item.parents]
    await put_dependencies(transaction, tenant_id, dependents.values(), edges)
    of_graph = {"tenant_id": tenant_id, "graph_id": graph.id}
    await transaction.execute("insert_graph", **of_graph, name=graph.name, nodes=len(nodes))
    rows = [
        (item.job.id, place, item.name, item.job.lane.task, item.job.first_run_id()) for place, item in enumerate(nodes)
    ]
    await transaction.put("insert_nodes", ("job_id", "place", "name", "task", "run_id"), rows, **of_graph)
    await put_labels_of(transaction, tenant_id, jobs)
    await append_events(transaction, EventKind.SUBMITTED, tenant_id, [job.id for job in jobs])
    if graph.idempotency_key is not None:
        request = KeyedRequest(graph.idempotency_key, graph.fingerprint)
        await transaction.execute("put_answer", **answer_row(tenant_id, request, job_id=graph.id))


async def _read(transaction: Transaction, tenant_id: int, graph_id: UUID, *, created: bool = True) -> Graph:
    of_graph = {"tenant_id": tenant_id, "graph_id": graph_id}
    row = await transaction.row("find_graph", **of_graph)
    if row is None:
        raise no_graph(graph_id)
    nodes = await transaction.rows("nodes_of_graph", **of_graph)
    edges = await transaction.rows("edges_of_graph", **of_graph)
    if len(nodes) + len(edges) > _MANY:
        return await transaction.compute(_graph, row, nodes, edges, created)
    return _graph(row, nodes, edges, created)


def _graph(row: Row, nodes: Rows, edges: Rows, created: bool) -> Graph:
    return Graph(
        graph_item(row),
        tuple([node(item) for item in nodes]),
        tuple([(edge["parent"], edge["child"]) for edge in edges]),
        created,
    )


def _content(row: Row, lanes: Mapping[int, int]) -> tuple[UUID, int, bytes, bytes | None, int | None]:
    return row["job_id"], lanes[row["lane_id"]], row["args"], row["options"], row["timeout_ms"]


async def _parents(
    transaction: Transaction, tenant_id: int, row: Row, after: UUID | None, limit: int
) -> Sequence[Parent]:
    follows = decode_options(row["options"]).follows
    if follows is not None:
        cause = {"tenant_id": tenant_id, "run_id": parse("run", follows)}
        rows = [] if after else await transaction.rows("followed_run", **cause)
    else:
        wanted = {"tenant_id": tenant_id, "job_id": row["job_id"], "after": after or FIRST_ID, "limit": limit}
        rows = await transaction.rows("parents_of_job", **wanted)
    return [parent(found) for found in rows]
