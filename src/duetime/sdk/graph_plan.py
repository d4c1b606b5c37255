"""Graphs in Python code.

plan = duetime.GraphPlan("nightly")
plan.add("fetch", fetch.bind(url="https://example.com/orders.csv"))
plan.add("load", load, depends_on=["fetch"])
plan.add("clean_up", clean_up, depends_on=duetime.Needs(["load"], on="finished"))
graph = await app.submit_graph(plan)
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

from duetime.errors import InvalidInput
from duetime.model.dependency import Rule
from duetime.sdk.task import Bindable, Call
from duetime.spec.dependencies import Needs, read_needs
from duetime.spec.options import JobOptions, Once, Words


class NodeOptions(JobOptions, Words, Once, total=False):
    """Options of a node: it cannot have its own keys."""


class Planned(NamedTuple):
    call: Call[Any]
    parents: tuple[str, ...]
    rule: Rule
    options: Mapping[str, Any]


class GraphPlan:
    """Jobs that depend on each other by local names, and are submitted together."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.nodes: dict[str, Planned] = {}

    def add(
        self,
        name: str,
        what: Bindable[Any],
        /,
        *,
        depends_on: Sequence[str] | Needs = (),
        **options: Unpack[NodeOptions],
    ) -> "GraphPlan":
        """Add a node: a call, or a task that needs no arguments."""
        if name in self.nodes:
            raise InvalidInput(f"the node {name!r} already exists", field=f"nodes.{name}", remedy="choose another name")
        parents, rule = read_needs(depends_on)
        if not all(isinstance(parent, str) for parent in parents):
            raise InvalidInput(
                "is not a list of node names", field=f"nodes.{name}.depends_on", remedy="such as ['fetch']"
            )
        self.nodes[name] = Planned(what.bind(), tuple(str(parent) for parent in parents), rule, options)
        return self
