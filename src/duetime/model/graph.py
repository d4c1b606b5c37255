"""Graphs: jobs that depend on each other, submitted in one call under local names.

A graph has no state of its own: its nodes are jobs like any others, and it has ended when they have. What is stored of
it is its nodes, their dependencies and how each ended, so that it can be shown, cancelled and rerun from where it
failed.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from duetime.errors import InvalidInput
from duetime.ids import show
from duetime.model.dependency import Rule
from duetime.model.job import NewJob
from duetime.model.run import RunState

MOST_NODES = 10_000
MOST_EDGES = 100_000
_SHOWN = 20


class NewNode(msgspec.Struct, frozen=True):
    name: str
    job: NewJob
    parents: tuple[int, ...] = ()
    """The indexes of its parents among the nodes."""
    rule: Rule = Rule()


class NewGraph(msgspec.Struct, frozen=True):
    """A validated graph that is about to be stored."""

    id: UUID
    nodes: tuple[NewNode, ...]
    name: str | None = None
    idempotency_key: str | None = None
    fingerprint: bytes = b""


class GraphStatus(StrEnum):
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    """It has ended, and a node failed."""
    CANCELLED = "CANCELLED"
    """It has ended, no node failed, but not all of them ran."""


class GraphItem(msgspec.Struct, frozen=True):
    """A graph in a list."""

    id: UUID
    tenant_id: int
    name: str | None
    status: GraphStatus
    nodes: int
    created_at: datetime
    ended_at: datetime | None


class Node(msgspec.Struct, frozen=True):
    name: str
    job_id: UUID
    run_id: UUID
    """Its newest run."""
    task: str
    state: RunState
    started_at: datetime | None
    finished_at: datetime | None
    rule: Rule


class Graph(msgspec.Struct, frozen=True):
    """A graph as it is read back, with its nodes in the given order."""

    item: GraphItem
    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    """The indexes of parent and child."""
    created: bool = True
    """False when an idempotency key led to an existing graph."""

    @property
    def id(self) -> UUID:
        return self.item.id

    @property
    def graph_id(self) -> str:
        """Its id as text."""
        return show("gra", self.item.id)

    @property
    def status(self) -> GraphStatus:
        return self.item.status

    def node(self, name: str) -> Node:
        """A node by its name."""
        return next(node for node in self.nodes if node.name == name)


def places_of(parents: Mapping[str, Sequence[str]]) -> list[tuple[int, ...]]:
    """The indexes of each node's parents; refuses unknown names, and cycles, which it names."""
    places = {name: place for place, name in enumerate(parents)}
    found = []
    for child, names in parents.items():
        for name in names:
            if name not in places:
                raise InvalidInput(
                    f"{child!r} depends on {name!r}, which is not a node of this graph",
                    field=f"nodes.{child}.depends_on",
                )
        found.append(tuple(dict.fromkeys(places[name] for name in names)))
    cycle = find_cycle(found)
    if cycle:
        names = list(parents)
        shown = [names[place] for place in cycle[:_SHOWN]] + (["…"] if len(cycle) > _SHOWN else [])
        raise InvalidInput(
            f"its nodes form a cycle: {' → '.join([*shown, names[cycle[0]]])}",
            field=f"nodes.{names[cycle[0]]}.depends_on",
            remedy="remove one of these dependencies",
        )
    return found


def find_cycle(parents: Sequence[Sequence[int]]) -> list[int]:
    """Nodes that form a cycle, each followed by one that it depends on; empty if there is none."""
    unseen, on_path, done = 0, 1, 2
    seen = [unseen] * len(parents)
    for start in range(len(parents)):
        path = [start] if seen[start] == unseen else []
        rest = [iter(parents[start])]
        while path:
            seen[path[-1]] = on_path
            following = next((parent for parent in rest[-1] if seen[parent] != done), None)
            if following is None:
                seen[path.pop()] = done
                rest.pop()
            elif seen[following] == on_path:
                return path[path.index(following) :]
            else:
                path.append(following)
                rest.append(iter(parents[following]))
    return []


def rerun_places(states: Sequence[RunState], edges: Iterable[tuple[int, int]]) -> set[int]:
    """The nodes that run again: those that did not succeed, and all that depend on them."""
    children: dict[int, list[int]] = {}
    for parent, child in edges:
        children.setdefault(parent, []).append(child)
    found = {place for place, state in enumerate(states) if state is not RunState.SUCCEEDED}
    reached = list(found)
    while reached:
        for child in children.get(reached.pop(), ()):
            if child not in found:
                found.add(child)
                reached.append(child)
    return found
