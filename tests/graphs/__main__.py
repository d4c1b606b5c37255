"""`python -m tests.graphs [--graphs 200] [--nodes 1000] [--seed 0]`: the whole comparison, on each store.

Other tests check what is on the disk after a crash, so the stores here do not wait for the disk.
"""

import argparse
import asyncio
from datetime import timedelta
from random import Random

from duetime.clock import monotonic
from duetime.store.protocol.store import Store
from duetime.store.sqlite import SqliteStore
from tests.conftest import INSTALLED
from tests.contract.hands import TENANT, hand
from tests.contract.worlds import PostgresWorld, execute
from tests.graphs.driving import as_graph, drive, ends
from tests.graphs.reference import evaluate, generate


async def compare(store: Store, graphs: int, nodes: int, seed: int) -> int:
    """How many graphs did not end as the reference says."""
    worker = await hand(store, timedelta(days=1))
    wrong = 0
    for number in range(seed, seed + graphs):
        random = Random(number)
        planned = generate(random, nodes)
        graph = as_graph(planned)
        await store.graphs.submit_graph(TENANT, graph)
        await drive(store, worker, graph, [item.outcome for item in planned], random)
        if ends(await store.graphs.graph(TENANT, graph.id)) != evaluate(planned):
            wrong += 1
            print(f"graph {number} of {nodes} nodes did not end as it should", flush=True)
        if number % 20 == 19:
            print(f"{number + 1 - seed} graphs, {wrong} wrong", flush=True)
    return wrong


async def run(name: str, store: Store, given: argparse.Namespace) -> int:
    began = monotonic()
    await store.open()
    await store.migrate()
    wrong = await compare(store, given.graphs, given.nodes, given.seed)
    await store.close()
    seconds = monotonic() - began
    print(
        f"{name}: {given.graphs - wrong} of {given.graphs} graphs of {given.nodes} nodes as expected, {seconds:.0f} s"
    )
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.graphs", description=__doc__)
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", default="", help="only this one: sqlite or postgresql")
    given = parser.parse_args()
    postgres = PostgresWorld(INSTALLED[0])
    execute(postgres.dsn, "alter database contract set synchronous_commit = off")
    stores = {"sqlite": SqliteStore(":memory:"), f"postgresql ({INSTALLED[0]})": postgres.store}
    wrong = sum(asyncio.run(run(name, store, given)) for name, store in stores.items() if given.store in name)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
