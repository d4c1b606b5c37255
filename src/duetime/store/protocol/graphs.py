"""What a store guarantees about jobs that depend on each other. The rules of `store.py` hold here too.

When a run ends that another job or a graph depends on, the same transaction adds a row that records the end. `settle`
takes such rows and applies them: it frees or cancels the dependent runs, creates the runs of jobs that run after it,
and stores the results of graph nodes. Each end is settled once, also by concurrent nodes. If settling fails, the row
stays for the next call.
"""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from duetime.model.dependency import Parent
from duetime.model.graph import Graph, GraphItem, NewGraph
from duetime.model.lists import Page


class Graphs(Protocol):
    async def settle(self, limit: int) -> int:
        """Settle up to `limit` ends; returns how many. The ends of runs that it cancels are settled by the next
        call."""

    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph:
        """Store all nodes of a graph, or none. Its idempotency key works as in `submit`."""

    async def graph(self, tenant_id: int, graph_id: UUID) -> Graph:
        """A graph with the current state of its nodes. Raises `NotFound`."""

    async def list_graphs(self, tenant_id: int, before: UUID | None = None, limit: int = 50) -> Page[GraphItem]:
        """A page of graphs, newest first by id."""

    async def cancel_graph(self, tenant_id: int, graph_id: UUID) -> Graph:
        """End its waiting runs as CANCELLED, and ask running ones to stop. Raises `NotFound`."""

    async def rerun_graph(self, tenant_id: int, graph_id: UUID, nonce: bytes) -> Graph:
        """Run the nodes that did not succeed again, and all that depend on them, as new runs that refer to the old
        ones.

        Raises `NotFound`, and `Conflict` while a node has not ended, when all succeeded, or when the history of a node
        was pruned.
        """

    async def parents(
        self, tenant_id: int, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        """The parents of a run and their results, by the id of their job, above `after`. Raises `NotFound`."""

    async def held_parents(
        self, worker_id: UUID, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        """The same, for the worker that holds the run. Raises `LeaseLost` when it does not."""
