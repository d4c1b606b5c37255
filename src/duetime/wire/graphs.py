"""Requests and answers about dependencies and graphs."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from duetime.spec.fields import Name, Request, Text
from duetime.wire.fields import PageQuery, Stale
from duetime.wire.jobs import JobRequest
from duetime.wire.runs import RunStateName

GraphStatusName = Literal["RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]


class NodeDependsOn(Request, frozen=True):
    """The nodes that a node waits for."""

    nodes: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=10_000)]
    need: Literal["all", "any"] = "all"
    on: Literal["success", "finished"] = "success"
    otherwise: Annotated[
        Literal["cancel", "run"], Meta(description="What happens when the condition can no longer be met.")
    ] = "cancel"


class NodeRequest(JobRequest, frozen=True):
    """A node: a job that runs once, and the nodes that it depends on."""

    depends_on: Annotated[tuple[Name, ...], Meta(max_length=10_000)] | NodeDependsOn = ()


class GraphRequest(Request, frozen=True):
    """Jobs that depend on each other, by local names."""

    nodes: Annotated[dict[Name, NodeRequest], Meta(min_length=1, max_length=10_000)]
    name: Text | None = None


class NodeView(Struct, frozen=True, kw_only=True):
    name: str
    job_id: str
    run_id: str
    task: str
    status: RunStateName
    started_at: datetime | None
    finished_at: datetime | None
    duration: float | None
    """Seconds that its last attempt took."""
    need: Literal["all", "any"]
    on: Literal["success", "finished"]
    otherwise: Literal["cancel", "run"]


class EdgeView(Struct, frozen=True):
    parent: str
    child: str


class GraphSummary(Struct, frozen=True, kw_only=True):
    graph_id: str
    name: str | None
    status: GraphStatusName
    size: int
    created_at: datetime
    ended_at: datetime | None


class GraphView(GraphSummary, frozen=True, kw_only=True):
    """A graph, with its nodes in the given order."""

    counts: dict[RunStateName, int]
    nodes: tuple[NodeView, ...]
    edges: tuple[EdgeView, ...]
    created: bool = True
    """False when an idempotency key led to an existing graph."""


class GraphPage(Stale, frozen=True):
    items: tuple[GraphSummary, ...]
    next_cursor: str | None


class GraphQuery(PageQuery, frozen=True):
    """Only the page."""


class ParentView(Struct, frozen=True, kw_only=True):
    job_id: str
    run_id: str | None
    name: str | None
    """Its name in the graph that both belong to."""
    task: str | None
    """null: as for the status."""
    status: RunStateName | None
    """null: it has not ended, or its history is past its retention."""
    result: Any
    error: str | None


class ParentPage(Struct, frozen=True):
    items: tuple[ParentView, ...]
    next_cursor: str | None
