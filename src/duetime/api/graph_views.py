"""Graphs and parents as responses show them."""

from collections import Counter
from datetime import timedelta
from typing import Any

from duetime.ids import show
from duetime.model.dependency import Parent
from duetime.model.graph import Graph, GraphItem, Node
from duetime.model.structs import struct_like
from duetime.process.slices import mapped
from duetime.wire.graphs import EdgeView, GraphSummary, GraphView, NodeView, ParentView


def graph_summary(item: GraphItem) -> GraphSummary:
    return struct_like(GraphSummary, item, **_common(item))


async def graph_view(graph: Graph) -> GraphView:
    """In slices: a graph may have 10,000 nodes and far more edges."""
    names = [node.name for node in graph.nodes]
    return struct_like(
        GraphView,
        graph.item,
        **_common(graph.item),
        counts=dict(Counter(node.state.name for node in graph.nodes)),
        nodes=tuple(await mapped(_node, graph.nodes)),
        edges=tuple(await mapped(lambda edge: EdgeView(names[edge[0]], names[edge[1]]), graph.edges)),
        created=graph.created,
    )


def parent_view(parent: Parent) -> ParentView:
    return struct_like(
        ParentView,
        parent,
        job_id=show("job", parent.job_id),
        run_id=None if parent.run_id is None else show("run", parent.run_id),
        status=None if parent.state is None else parent.state.name,
        result=parent.value,
    )


def _common(item: GraphItem) -> dict[str, Any]:
    return {"graph_id": show("gra", item.id), "status": item.status.value, "size": item.nodes}


def _node(node: Node) -> NodeView:
    took = None
    if node.started_at is not None and node.finished_at is not None:
        took = (node.finished_at - node.started_at) / timedelta(seconds=1)
    return struct_like(
        NodeView,
        node,
        job_id=show("job", node.job_id),
        run_id=show("run", node.run_id),
        status=node.state.name,
        duration=took,
        need=node.rule.need.name.lower(),
        on=node.rule.wanted.name.lower(),
        otherwise=node.rule.otherwise.name.lower(),
    )
