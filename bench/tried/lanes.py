"""Two worker processes and two lanes: both serve both, and pass by what the other has taken; or each has its own."""

import asyncio
import sys
from contextlib import AsyncExitStack

from bench.gates import gate
from bench.nodes import drain_by
from bench.peers.peer import Peer
from bench.tried.ways import Place, Ways


def _peer(place: Place) -> Peer:
    return Peer("duetime", place.databases.postgres, driver="duetime", python=sys.executable)


def shared(place: Place) -> float:
    return asyncio.run(drain_by(_peer(place), place.runs, 2, LANES="2"))


def apart(place: Place) -> float:
    return asyncio.run(_apart(_peer(place), place.runs))


async def _apart(peer: Peer, runs: int) -> float:
    dsn = peer.place()
    await peer.fill(dsn, runs, LANES="2")
    async with AsyncExitStack() as stack:
        before = await stack.enter_async_context(gate(dsn))
        await before.close()
        tallies = [
            await stack.enter_async_context(peer.working(dsn, DUETIME_QUEUES=f"queue-{number}")) for number in range(2)
        ]
        await before.open(2)
        while sum(tally.count() for tally in tallies) < runs:
            await asyncio.sleep(0.05)
        starts = [start for tally in tallies for _, start in tally.starts]
        return (len(starts) - 1) / (max(starts) - min(starts))


WAYS: Ways = {"both serve both": shared, "one each": apart}
