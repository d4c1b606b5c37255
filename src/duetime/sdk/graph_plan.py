"""Graphs as a Python developer writes them.

plan = duetime.GraphPlan("nightly")
plan.add("fetch", fetch, url="https://example.com/orders.csv")
plan.add("load", load, depends_on=["fetch"])
plan.add("clean_up", clean_up, depends_on=duetime.Needs(["load"], on="finished"))
graph = await app.submit_graph(plan)
"""

import asyncio
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from duetime.clock import monotonic
from duetime.engine.graph_requests import Wish, make_graph
from duetime.errors import InvalidInput
from duetime.model.dependency import Rule
from duetime.model.graph import Graph, GraphStatus
from duetime.model.job import DEFAULT_TENANT, NewJob
from duetime.sdk.open_stores import Jobs
from duetime.sdk.stored_jobs import StoredJobs
from duetime.sdk.submission import split_options
from duetime.sdk.task import Task
from duetime.spec.dependencies import Needs, read_needs
from duetime.spec.derived import OF_SUBMISSIONS
from duetime.spec.identity import identity
from duetime.spec.kinds import read_duration
from duetime.spec.options import Duration

GraphLike = Graph | str | UUID
"""A graph as it was read, or by its id."""


class _Planned(NamedTuple):
    task: Task[..., Any] | str
    parents: tuple[str, ...]
    rule: Rule
    run_at: datetime | str | None
    run_in: Duration | None
    args: Mapping[str, Any] | None
    given: Mapping[str, Any]


class GraphPlan:
    """Jobs that depend on each other by local names, to be submitted as a whole."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.nodes: dict[str, _Planned] = {}

    def add(
        self,
        name: str,
        task: Task[..., Any] | str,
        /,
        *,
        depends_on: Sequence[str] | Needs = (),
        run_at: datetime | str | None = None,
        run_in: Duration | None = None,
        args: Mapping[str, Any] | None = None,
        **options_and_arguments: Any,
    ) -> "GraphPlan":
        """Add a node. Options and arguments are those of `App.submit`; a node has no keys of its own."""
        if name in self.nodes:
            raise InvalidInput(f"there is a node {name!r} already", field=f"nodes.{name}", remedy="give each its name")
        parents, rule = read_needs(depends_on)
        if not all(isinstance(parent, str) for parent in parents):
            raise InvalidInput("names other nodes", field=f"nodes.{name}.depends_on", remedy="such as ['fetch']")
        names = tuple(str(parent) for parent in parents)
        self.nodes[name] = _Planned(task, names, rule, run_at, run_in, args, options_and_arguments)
        return self


class GraphSubmission(StoredJobs):
    """The part of an app that deals with graphs."""

    @abstractmethod
    async def _jobs(self) -> Jobs: ...

    @abstractmethod
    async def _made(
        self,
        task: Any,
        target: Any,
        options: Mapping[str, Any],
        arguments: Mapping[str, Any],
        connection: object = None,
    ) -> NewJob: ...

    async def submit_graph(self, plan: GraphPlan, *, idempotency_key: str | None = None) -> Graph:
        """Store all nodes of a graph in one transaction, or none; refuses unknown names and circles."""
        wishes = {}
        for name, node in plan.nodes.items():
            times = {"run_at": node.run_at, "run_in": node.run_in}
            try:
                options, arguments = split_options({**node.given, **times}, node.args, OF_SUBMISSIONS)
                job = await self._made(node.task, (None, None), options, arguments)
            except InvalidInput as error:
                field = f"nodes.{name}.{error.field}" if error.field else f"nodes.{name}"
                raise InvalidInput(error.message, field=field, remedy=error.remedy) from None
            wishes[name] = Wish(job, node.parents, node.rule)
        graph = make_graph(wishes, name=plan.name, idempotency_key=idempotency_key)
        return await (await self._jobs()).submit_graph(DEFAULT_TENANT, graph)

    async def graph(self, graph: GraphLike) -> Graph:
        """A graph with its nodes as they stand now."""
        return await (await self._jobs()).graph(DEFAULT_TENANT, _graph_identity(graph))

    async def cancel_graph(self, graph: GraphLike) -> Graph:
        """End what waits, and ask what runs to stop."""
        return await (await self._jobs()).cancel_graph(DEFAULT_TENANT, _graph_identity(graph))

    async def rerun_graph(self, graph: GraphLike) -> Graph:
        """Run again what did not succeed, and all that depends on it; what succeeded keeps its results."""
        return await (await self._jobs()).rerun_graph(DEFAULT_TENANT, _graph_identity(graph), os.urandom(8))

    async def wait_graph(self, graph: GraphLike, timeout: Duration | None = None) -> Graph:
        """Wait until a graph is over; raises `TimeoutError` when that takes too long."""
        seconds = None if timeout is None else read_duration(timeout, "timeout").total_seconds()
        deadline = None if seconds is None else monotonic() + seconds
        pause = 0.005
        while (found := await self.graph(graph)).status is GraphStatus.RUNNING:
            if deadline is not None and monotonic() + pause > deadline:
                raise TimeoutError(f"the graph has not ended within {seconds:g} s")
            await asyncio.sleep(pause)
            pause = min(0.25, pause * 1.5)
        return found


def _graph_identity(graph: GraphLike) -> UUID:
    return graph.id if isinstance(graph, Graph) else identity("gra", graph)
