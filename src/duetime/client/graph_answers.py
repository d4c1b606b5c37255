"""From a graph as the API shows it to what a store would have read back."""

from duetime.ids import parse
from duetime.model.dependency import Need, Otherwise, Rule, Wanted
from duetime.model.graph import Graph, GraphItem, GraphStatus, Node
from duetime.model.run import RunState
from duetime.model.structs import struct_like
from duetime.wire.graphs import GraphView, NodeView


def graph_of(tenant_id: int, view: GraphView) -> Graph:
    named = {"id": parse("gra", view.graph_id), "tenant_id": tenant_id}
    item = struct_like(GraphItem, view, **named, status=GraphStatus(view.status), nodes=view.size)
    places = {node.name: place for place, node in enumerate(view.nodes)}
    edges = tuple((places[edge.parent], places[edge.child]) for edge in view.edges)
    return Graph(item, tuple(_node(node) for node in view.nodes), edges, view.created)


def _node(view: NodeView) -> Node:
    rule = Rule(Need[view.need.upper()], Wanted[view.on.upper()], Otherwise[view.otherwise.upper()])
    named = {"job_id": parse("job", view.job_id), "run_id": parse("run", view.run_id)}
    return struct_like(Node, view, **named, state=RunState[view.status], rule=rule)
