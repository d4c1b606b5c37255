"""Graph requests: validated and converted to what a store keeps."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from duetime.errors import InvalidInput
from duetime.ids import new_id
from duetime.model.dependency import Rule
from duetime.model.graph import MOST_EDGES, MOST_NODES, NewGraph, NewNode, places_of
from duetime.model.job import NewJob
from duetime.model.name import check_key, check_name
from duetime.model.schedule import Once


class Wish(NamedTuple):
    """A requested node: its job, the names of its parents, and the rule by which it waits for them."""

    job: NewJob
    parents: Sequence[str] = ()
    rule: Rule = Rule()
    asked: NewJob | None = None
    """The job from which the fingerprint of the request is computed, if it differs from the stored one."""


def make_graph(wishes: Mapping[str, Wish], *, name: str | None = None, idempotency_key: str | None = None) -> NewGraph:
    """A graph ready to be stored. Refuses unknown names, cycles and recurring jobs."""
    if not 1 <= len(wishes) <= MOST_NODES:
        raise InvalidInput(f"a graph cannot have {len(wishes)} nodes", field="nodes", remedy=f"1 to {MOST_NODES:,}")
    for node, wish in wishes.items():
        check_name(node, "nodes")
        _check_node(node, wish.job)
    places = places_of({node: wish.parents for node, wish in wishes.items()})
    edges = sum(len(parents) for parents in places)
    if edges > MOST_EDGES:
        raise InvalidInput(f"{edges:,} dependencies are too many", field="nodes", remedy=f"at most {MOST_EDGES:,}")
    nodes = tuple(
        NewNode(node, wish.job, parents, wish.rule)
        for (node, wish), parents in zip(wishes.items(), places, strict=True)
    )
    if name is not None:
        check_key(name, "name")
    if idempotency_key is None:
        return NewGraph(new_id(), nodes, name)
    asked = [
        node if wish.asked is None else msgspec.structs.replace(node, job=wish.asked)
        for node, wish in zip(nodes, wishes.values(), strict=True)
    ]
    return NewGraph(new_id(), nodes, name, check_key(idempotency_key, "idempotency_key"), _fingerprint(asked, name))


def _check_node(node: str, job: NewJob) -> None:
    at = f"nodes.{node}"
    if not isinstance(job.schedule, Once):
        raise InvalidInput(
            "a graph node cannot have a recurring schedule", field=at, remedy="set run_at, run_in or neither"
        )
    for field in ("key", "idempotency_key"):
        if getattr(job, field) is not None:
            raise InvalidInput(
                "a graph node cannot have its own key", field=f"{at}.{field}", remedy="set the key of the graph"
            )
    if job.depends_on is not None:
        raise InvalidInput(
            "a graph node can only depend on nodes of its graph",
            field=f"{at}.depends_on",
            remedy="name nodes: plan.add(…, depends_on=['fetch'])",
        )


def _fingerprint(nodes: Sequence[NewNode], name: str | None) -> bytes:
    """Equal for two requests that ask for the same graph."""
    digest = blake2b((name or "").encode(), digest_size=16)
    for node in nodes:
        job = node.job
        parts = (node.name, job.lane, job.schedule, job.args, job.options, job.timeout_ms, node.parents, node.rule)
        digest.update(repr(parts).encode())
    return digest.digest()
