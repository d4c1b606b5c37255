"""Graphs in the words of the API, and back to what a store would have read."""

from collections.abc import Sequence
from typing import Any

from duetime.client.job_requests import job_request, rule_request
from duetime.ids import parse
from duetime.model.dependency import Need, Otherwise, Rule, Wanted
from duetime.model.graph import Graph, GraphItem, GraphStatus, NewGraph, NewNode, Node
from duetime.model.run import RunState
from duetime.wire.graphs import GraphView, NodeView


def nodes_request(graph: NewGraph) -> dict[str, dict[str, Any]]:
    """The nodes of a graph to create, by name."""
    names = [node.name for node in graph.nodes]
    return {node.name: {**job_request(node.job), "depends_on": _depends_on(node, names)} for node in graph.nodes}


def graph_of(tenant_id: int, view: GraphView) -> Graph:
    item = GraphItem(
        parse("gra", view.graph_id),
        tenant_id,
        view.name,
        GraphStatus(view.status),
        view.size,
        view.created_at,
        view.ended_at,
    )
    places = {node.name: place for place, node in enumerate(view.nodes)}
    edges = tuple((places[edge.parent], places[edge.child]) for edge in view.edges)
    return Graph(item, tuple(_node(node) for node in view.nodes), edges, view.created)


def _depends_on(node: NewNode, names: Sequence[str]) -> dict[str, Any] | None:
    if not node.parents:
        return None
    return {"nodes": [names[place] for place in node.parents], **rule_request(node.rule)}


def _node(view: NodeView) -> Node:
    rule = Rule(Need[view.need.upper()], Wanted[view.on.upper()], Otherwise[view.otherwise.upper()])
    return Node(
        view.name,
        parse("job", view.job_id),
        parse("run", view.run_id),
        view.task,
        RunState[view.status],
        view.started_at,
        view.finished_at,
        rule,
    )
