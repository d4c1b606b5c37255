"""How a graph must end, told from the outcomes of its nodes alone: each node by the ends of its parents."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from duetime.model.dependency import Need, Otherwise, Rule, Wanted
from duetime.model.graph import GraphStatus
from duetime.model.run import RunState


class Planned(NamedTuple):
    """A node, and what its task will come to if it runs."""

    parents: tuple[int, ...]
    rule: Rule
    outcome: RunState


def generate(random: Random, nodes: int) -> list[Planned]:
    """A graph of any shape: long chains, wide fans, lonely nodes; every rule; about one node in seven does not do
    well."""
    reach = random.choice([2, 5, 30, nodes])
    most = random.choice([1, 2, 4, 12])
    bad = random.choice([0.0, 0.02, 0.15, 0.5])
    found = []
    for place in range(nodes):
        near = range(max(0, place - reach), place)
        count = min(len(near), random.randint(0, most))
        parents = tuple(sorted(random.sample(near, count)))
        rule = Rule(
            random.choice(list(Need)), random.choice([Wanted.SUCCESS, Wanted.FINISHED]), random.choice(list(Otherwise))
        )
        outcome = random.choice([RunState.FAILED, RunState.CANCELLED]) if random.random() < bad else RunState.SUCCEEDED
        found.append(Planned(parents, rule, outcome))
    return found


def evaluate(graph: Sequence[Planned]) -> list[RunState]:
    """The end of every node; parents stand before their children."""
    ends: list[RunState] = []
    for node in graph:
        good = [node.rule.wanted is Wanted.FINISHED or ends[parent] is RunState.SUCCEEDED for parent in node.parents]
        satisfied = all(good) if node.rule.need is Need.ALL or not good else any(good)
        runs = satisfied or node.rule.otherwise is Otherwise.RUN
        ends.append(node.outcome if runs else RunState.CANCELLED)
    return ends


def status_of(ends: Sequence[RunState]) -> GraphStatus:
    if RunState.FAILED in ends:
        return GraphStatus.FAILED
    return GraphStatus.SUCCEEDED if {*ends} == {RunState.SUCCEEDED} else GraphStatus.CANCELLED
