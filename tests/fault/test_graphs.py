"""Workers and servers that are killed while a graph runs: nothing of it is lost, and nothing ends twice."""

from random import Random

from duetime.engine.graph_requests import Wish, make_graph
from duetime.engine.intake import prepare
from duetime.model.graph import GraphStatus
from duetime.model.job import DEFAULT_TENANT
from tests.support.fleet import Fleet
from tests.support.waiting import eventually

NODES = 120


async def test_a_graph_survives_the_death_of_everybody(fleet: Fleet) -> None:
    random = Random(7)
    wishes = {}
    for place in range(NODES):
        parents = random.sample(range(max(0, place - 12), place), min(place, random.randint(0, 3)))
        job = prepare(task="append", args={"number": place}, max_payload=1 << 18)
        wishes[f"n{place}"] = Wish(job, [f"n{parent}" for parent in parents])
    quick = {"lease": "2s", "heartbeat": "500ms"}
    graph = make_graph(wishes)
    await fleet.store.graphs.submit_graph(DEFAULT_TENANT, graph)
    server, workers = fleet.server(**quick), [fleet.worker(**quick, slots=4) for _ in range(2)]
    for done in (NODES // 4, NODES // 2):
        await fleet.ended(done)
        for process in (server, *workers):
            process.kill()
        server, workers = fleet.server(**quick), [fleet.worker(**quick, slots=4) for _ in range(2)]

    async def over() -> bool:
        return (await fleet.store.graphs.graph(DEFAULT_TENANT, graph.id)).status is not GraphStatus.RUNNING

    await eventually(over, within=90, what=fleet.tails)
    found = await fleet.store.graphs.graph(DEFAULT_TENANT, graph.id)
    assert found.status is GraphStatus.SUCCEEDED
    ends = "select count(*), count(distinct run_id) from duetime.history where end_state is not null"
    assert tuple((await fleet.fetch(ends))[0]) == (NODES, NODES)
    order = await fleet.fetch("select run_id, min(finished_at) as at from duetime.history group by run_id")
    ended_at = {row["run_id"]: row["at"] for row in order}
    started = await fleet.fetch("select run_id, min(started_at) as at from duetime.history group by run_id")
    started_at = {row["run_id"]: row["at"] for row in started}
    for parent, child in found.edges:
        assert ended_at[found.nodes[parent].run_id] <= started_at[found.nodes[child].run_id], "no child runs early"
