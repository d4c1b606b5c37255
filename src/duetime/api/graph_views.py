"""Graphs and parents as responses show them."""

from collections import Counter
from datetime import timedelta
from typing import Any

from duetime.ids import show
from duetime.model.dependency import Parent
from duetime.model.graph import Graph, GraphItem, Node
from duetime.process.slices import mapped
from duetime.wire.graphs import EdgeView, GraphSummary, GraphView, NodeView, ParentView


def graph_summary(item: GraphItem) -> GraphSummary:
    return GraphSummary(**_common(item))


async def graph_view(graph: Graph) -> GraphView:
    """In slices: a graph may have 10,000 nodes and far more edges."""
    names = [node.name for node in graph.nodes]
    return GraphView(
        **_common(graph.item),
        counts=dict(Counter(_state(node.state) for node in graph.nodes)),
        nodes=tuple(await mapped(_node, graph.nodes)),
        edges=tuple(await mapped(lambda edge: EdgeView(names[edge[0]], names[edge[1]]), graph.edges)),
        created=graph.created,
    )


def parent_view(parent: Parent) -> ParentView:
    return ParentView(
        job_id=show("job", parent.job_id),
        run_id=None if parent.run_id is None else show("run", parent.run_id),
        name=parent.name,
        status=None if parent.state is None else _state(parent.state),
        result=parent.value,
        error=parent.error,
    )


def _common(item: GraphItem) -> dict[str, Any]:
    return {
        "graph_id": show("gra", item.id),
        "name": item.name,
        "status": item.status.value,
        "size": item.nodes,
        "created_at": item.created_at,
        "ended_at": item.ended_at,
    }


def _node(node: Node) -> NodeView:
    took = None
    if node.started_at is not None and node.finished_at is not None:
        took = (node.finished_at - node.started_at) / timedelta(seconds=1)
    rule: dict[str, Any] = {
        "need": node.rule.need.name.lower(),
        "on": node.rule.wanted.name.lower(),
        "otherwise": node.rule.otherwise.name.lower(),
    }
    return NodeView(
        name=node.name,
        job_id=show("job", node.job_id),
        run_id=show("run", node.run_id),
        task=node.task,
        status=_state(node.state),
        started_at=node.started_at,
        finished_at=node.finished_at,
        duration=took,
        **rule,
    )


def _state(state: Any) -> Any:
    return state.name
