"""Requests for graphs and the parents of runs."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from duetime.client.request import Request, given, job_fields, path, plain
from duetime.wire.graphs import GraphPage, GraphView, ParentPage


def create_graph(
    nodes: Mapping[str, Mapping[str, Any]], *, name: str | None = None, idempotency_key: str | None = None
) -> Request[GraphView]:
    """Create jobs that depend on each other: the fields of a job for each local name, with `depends_on` a list of names
    or `{"nodes": […], "need": "all" or "any", "on": "success" or "finished", "otherwise": "cancel" or "run"}`."""
    body = {**given(name=name), "nodes": {node: _node_fields(**fields) for node, fields in nodes.items()}}
    headers = {"Idempotency-Key": idempotency_key or str(uuid4())}
    return Request("POST", "/v1/graphs", GraphView, body=body, headers=headers, timeout=120.0)


def _node_fields(depends_on: Any = None, **fields: Any) -> dict[str, Any]:
    """The fields of a node: those of a job, but it depends on names of nodes, where a job depends on ids of jobs."""
    return {**job_fields(**fields), **given(depends_on=plain(depends_on))}


def list_graphs(*, page_size: int | None = None, cursor: str | None = None) -> Request[GraphPage]:
    """A page of graphs, newest first."""
    return Request("GET", "/v1/graphs", GraphPage, given(page_size=page_size, cursor=cursor))


def get_graph(graph_id: str) -> Request[GraphView]:
    """A graph with the states of its nodes."""
    return Request("GET", path("/v1/graphs/{}", graph_id), GraphView)


def cancel_graph(graph_id: str) -> Request[GraphView]:
    """Cancel the waiting nodes, and ask the running ones to stop."""
    return Request("POST", path("/v1/graphs/{}/cancel", graph_id), GraphView)


def rerun_graph(graph_id: str) -> Request[GraphView]:
    """Run the nodes again that did not succeed, and all nodes that depend on them."""
    return Request("POST", path("/v1/graphs/{}/rerun", graph_id), GraphView, repeatable=False)


def list_parents(run_id: str, *, page_size: int | None = None, cursor: str | None = None) -> Request[ParentPage]:
    """A page of the parents of a run, with their results."""
    return Request("GET", path("/v1/runs/{}/parents", run_id), ParentPage, given(page_size=page_size, cursor=cursor))
