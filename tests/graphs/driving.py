"""Drives a graph through a store by hand: every run that is ready is claimed and comes to what was planned for it."""

from collections.abc import Sequence
from random import Random

from duetime.ids import new_id, new_ids
from duetime.model.graph import Graph, NewGraph, NewNode
from duetime.model.job import NewJob
from duetime.model.lane import LaneKey, Tier
from duetime.model.run import RunState
from duetime.model.schedule import NOW
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, Hand, cancelled, failed, succeeded
from tests.graphs.reference import Planned


def as_graph(planned: Sequence[Planned], task: str = "greet") -> NewGraph:
    lane = LaneKey(TENANT, "default", Tier.MEDIUM, task)
    nodes = [
        NewNode(f"n{place}", NewJob(job_id, lane, NOW, b'{"place":%d}' % place), item.parents, item.rule)
        for place, (item, job_id) in enumerate(zip(planned, new_ids(len(planned)), strict=True))
    ]
    return NewGraph(new_id(), tuple(nodes))


async def drive(store: Store, worker: Hand, graph: NewGraph, outcomes: Sequence[RunState], random: Random) -> int:
    """Work until nothing is left to do; returns how many runs were made. Completions come in any order and size."""
    places = {node.job.id: place for place, node in enumerate(graph.nodes)}
    report = {RunState.SUCCEEDED: succeeded, RunState.FAILED: failed, RunState.CANCELLED: cancelled}
    held, ran = [], 0
    while True:
        held += await worker.claim(200)
        random.shuffle(held)
        share = held[: random.randint(1, len(held))] if held else []
        held = held[len(share) :]
        if share:
            ran += len(share)
            await worker.complete(*(report[outcomes[places[run.job_id]]](run) for run in share))
        settled = await store.graphs.settle(random.choice([1, 10, 500]))
        if not share and not settled:
            return ran


def ends(graph: Graph) -> list[RunState]:
    return [node.state for node in graph.nodes]
