"""Graphs of any shape end as the reference says, in every store. The long version is `python -m tests.graphs`."""

from datetime import timedelta
from random import Random

import pytest

from duetime.model.graph import GraphStatus, rerun_places
from duetime.model.run import RunState
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, hand
from tests.graphs.driving import as_graph, drive, ends
from tests.graphs.reference import evaluate, generate, status_of

SMALL = 25
DAY = timedelta(days=1)


@pytest.mark.parametrize("seed", range(4))
async def test_graphs_end_as_the_reference_says(store: Store, seed: int) -> None:
    random = Random(seed)
    worker = await hand(store, DAY)
    for _ in range(10):
        planned = generate(random, random.randint(1, SMALL))
        graph = as_graph(planned)
        await store.graphs.submit_graph(TENANT, graph)
        outcomes = [item.outcome for item in planned]
        await drive(store, worker, graph, outcomes, random)
        found, expected = await store.graphs.graph(TENANT, graph.id), evaluate(planned)
        assert ends(found) == expected
        assert found.item.status is status_of(expected)
        if found.item.status is GraphStatus.SUCCEEDED:
            continue
        again = rerun_places(expected, found.edges)
        await store.graphs.rerun_graph(TENANT, graph.id, b"again")
        ran = await drive(store, worker, graph, [RunState.SUCCEEDED] * len(planned), random)
        assert ran == len(again)
        assert ends(await store.graphs.graph(TENANT, graph.id)) == [RunState.SUCCEEDED] * len(planned)


async def test_a_graph_of_a_thousand_nodes(store: Store) -> None:
    random = Random(1000)
    planned = generate(random, 1000)
    graph = as_graph(planned)
    await store.graphs.submit_graph(TENANT, graph)
    await drive(store, await hand(store, DAY), graph, [item.outcome for item in planned], random)
    assert ends(await store.graphs.graph(TENANT, graph.id)) == evaluate(planned)
