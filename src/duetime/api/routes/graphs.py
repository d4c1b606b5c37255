"""Graphs: jobs that depend on each other, created and controlled together; and the parents of a run."""

import asyncio
import os

import msgspec

from duetime import ids
from duetime.api.call import Call
from duetime.api.endpoint import Reply, Routes
from duetime.api.graph_views import graph_summary, graph_view, parent_view
from duetime.api.idempotency import HEADER
from duetime.api.job_maker import JobMaker
from duetime.engine.graph_requests import Wish, make_graph
from duetime.errors import InvalidInput
from duetime.ids import show
from duetime.model.access import Action
from duetime.model.dependency import Rule
from duetime.model.graph import NewGraph
from duetime.process.slices import MOST_SECONDS, Slices
from duetime.spec.dependencies import make_rule
from duetime.wire.fields import PageQuery
from duetime.wire.graphs import GraphPage, GraphQuery, GraphRequest, GraphView, NodeDependsOn, ParentPage

routes = Routes("Graphs")


@routes.post(
    "/v1/graphs",
    Action.SUBMIT,
    body=GraphRequest,
    body_limit="batch",
    answer=GraphView,
    status=201,
    problems=(409,),
    repeats="by handler",
)
async def create_graph(call: Call) -> Reply:
    """Create up to 10,000 jobs that depend on each other, in one transaction."""
    service, request = call.service, call.body
    async with call.submitting(len(request.nodes), call.header(HEADER)) as created:
        maker = await service.job_maker(await call.tenant(), {each.task for each in request.nodes.values()})
        graph = await _make(call, request, maker)
        tasks = dict.fromkeys(node.job.lane.task for node in graph.nodes)
        service.tasks.warnings(maker.known, tasks, suggest=True)
        found = await service.store.graphs.submit_graph(call.tenant_id, graph)
        created.count = len(request.nodes) if found.created else 0
    headers = created.headers
    # Also for a repeated request: the first one may have ended before this was recorded.
    await call.act("graphs.create", show("gra", found.item.id), f"{len(graph.nodes)} nodes")
    if not found.created:
        headers = headers | {"idempotency-replayed": "true"}
    return Reply(await graph_view(found), headers=headers)


@routes.get("/v1/graphs", Action.READ, query=GraphQuery, answer=GraphPage, replica=True)
async def list_graphs(call: Call) -> GraphPage:
    """List graphs, newest first, without their nodes."""
    page = await call.store.graphs.list_graphs(call.tenant_id, await call.page_start(), call.query.page_size)
    return GraphPage(tuple(graph_summary(item) for item in page.items), await call.next_cursor(page.next))


@routes.get("/v1/graphs/{graph_id}", Action.READ, answer=GraphView)
async def get_graph(call: Call) -> GraphView:
    """Read a graph: its nodes with their states and durations, and their dependencies."""
    return await graph_view(await call.service.store.graphs.graph(call.tenant_id, call.identity("gra", "graph_id")))


@routes.action("/v1/graphs/{graph_id}/cancel", Action.CONTROL, answer=GraphView)
async def cancel_graph(call: Call) -> GraphView:
    """Cancel a graph: waiting nodes end, running nodes are asked to stop."""
    graph_id = call.identity("gra", "graph_id")
    graph = await call.service.store.graphs.cancel_graph(call.tenant_id, graph_id)
    await call.act("graphs.cancel", show("gra", graph_id))
    return await graph_view(graph)


@routes.action("/v1/graphs/{graph_id}/rerun", Action.CONTROL, answer=GraphView, problems=(409,))
async def rerun_graph(call: Call) -> GraphView:
    """Run a graph again from its failed nodes: those that did not succeed, and all nodes that depend on them."""
    graph_id = call.identity("gra", "graph_id")
    graph = await call.service.store.graphs.rerun_graph(call.tenant_id, graph_id, os.urandom(8))
    await call.act("graphs.rerun", show("gra", graph_id))
    return await graph_view(graph)


@routes.get("/v1/runs/{run_id}/parents", Action.READ, query=PageQuery, answer=ParentPage)
async def list_parents(call: Call) -> ParentPage:
    """List the parents of a run, with their results."""
    size = call.query.page_size
    after = await call.page_start()
    found = await call.service.store.graphs.parents(call.tenant_id, call.identity("run"), after, size)
    following = found[-1].job_id if len(found) == size else None
    return ParentPage(tuple(parent_view(item) for item in found), await call.next_cursor(following))


async def _make(call: Call, request: GraphRequest, maker: JobMaker) -> NewGraph:
    wishes = {}
    key = call.header(HEADER)
    if any(maker.needs_the_day(node) for node in request.nodes.values()):
        maker.now = await call.service.store.now()
    job_ids = ids.new_ids(len(request.nodes))
    slices = Slices(MOST_SECONDS)
    for (name, node), job_id in zip(request.nodes.items(), job_ids, strict=True):
        await slices.yield_if_due()
        depends_on = node.depends_on
        parents, rule = (depends_on, Rule()) if isinstance(depends_on, tuple) else _rule(depends_on)
        try:
            alone = msgspec.structs.replace(node, depends_on=None)
            job = maker.make(alone, job_id=job_id)
            await call.service.secrets.check(call.who, alone.target)
        except InvalidInput as error:
            field = f"nodes.{name}.{error.field}" if error.field else f"nodes.{name}"
            raise InvalidInput(error.message, field=field, remedy=error.remedy) from None
        asked = maker.as_asked(alone, job) if key is not None and maker.has_defaults(job.lane.task) else None
        wishes[name] = Wish(job, parents, rule, asked)
    return await asyncio.to_thread(make_graph, wishes, name=request.name, idempotency_key=key)


def _rule(given: NodeDependsOn) -> tuple[tuple[str, ...], Rule]:
    return given.nodes, make_rule(given.need, given.on, given.otherwise)
