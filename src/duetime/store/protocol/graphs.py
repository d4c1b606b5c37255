"""What a store promises about jobs that depend on each other. The rules of `protocol.py` hold here too.

Handing on: in the transaction in which a run ends that somebody waits for, however it ends, a row is left behind that
says so. `settle` takes such rows and does what follows from them: frees or cancels the runs that waited, makes the runs
of jobs that run after it, and keeps how the nodes of graphs ended. An end is handed on once, whoever else is settling;
one whose settling fails stays for the next.
"""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from duetime.model.dependency import Parent
from duetime.model.graph import Graph, GraphItem, NewGraph
from duetime.model.lists import Page


class Graphs(Protocol):
    async def settle(self, limit: int) -> int:
        """Hand on up to `limit` ends; returns how many. What is cancelled by it is handed on by the next call."""

    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph:
        """Store all nodes of a graph, or none. Its idempotency key works as that of `submit`."""

    async def graph(self, tenant_id: int, graph_id: UUID) -> Graph:
        """A graph with its nodes as they stand. Raises `NotFound`."""

    async def list_graphs(self, tenant_id: int, before: UUID | None = None, limit: int = 50) -> Page[GraphItem]:
        """A page of graphs, newest first by id."""

    async def cancel_graph(self, tenant_id: int, graph_id: UUID) -> Graph:
        """End its waiting runs as CANCELLED, and ask running ones to stop. Raises `NotFound`."""

    async def rerun_graph(self, tenant_id: int, graph_id: UUID, nonce: bytes) -> Graph:
        """Run its nodes again that did not succeed, and all that depend on them, by new runs that name the old ones.

        Raises `NotFound`, and `Conflict` while a node is not over, when all succeeded, or when the history of a node is
        gone.
        """

    async def parents(
        self, tenant_id: int, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        """The parents of a run and their results, by the id of their job, above `after`. Raises `NotFound`."""

    async def held_parents(
        self, worker_id: UUID, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        """The same, for the worker that holds the run. Raises `LeaseLost` when it does not."""
