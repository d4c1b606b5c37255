"""The worker gateway on each store: it continues what another server began."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from duetime.engine.wait_queue import WaitingClaim
from duetime.engine.worker_gateway import WorkerGateway
from duetime.ids import new_id
from duetime.model.attempt import Claimed
from duetime.model.suspicion import TrialRoom
from duetime.model.worker import WorkerInfo
from duetime.store.protocol.store import Hint, Store
from tests.contract.hands import LEASE, TENANT, job, submit


async def test_a_claim_that_another_server_was_committing_is_found(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker asks this server before the commit of the other one, and its turn comes after that; this server has
    heard of no lane yet."""
    worker = WorkerInfo(new_id(), "remote", ("greet",), (), 5, TENANT)
    await store.leases.register(worker, LEASE)
    await submit(store, job(), job())
    claimed = await store.claims.claim(worker.id, 1, [(lane.id, 5) for lane in await store.claims.lanes()])
    real, asked = other.claims.claim, 0

    async def claim(worker_id: UUID, claim_no: int, takes: Sequence[tuple[int, int]]) -> list[Claimed]:
        nonlocal asked
        asked += 1
        return [] if asked == 1 else await real(worker_id, claim_no, takes)

    monkeypatch.setattr(other.claims, "claim", claim)
    gateway = WorkerGateway(other, poll=timedelta(seconds=1))
    dealing = asyncio.create_task(gateway.loops[0].run())
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = WaitingClaim(worker.id, 1, 5, TrialRoom())
    turn = asyncio.create_task(gateway.claim(await store.leases.worker(worker.id), None, waiting, 10.0, gone))
    await asyncio.wait({turn, dealing}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
    gateway.loops[0].stop()
    await dealing
    assert {run.run_id for _, run in (await turn).runs} == {run.run_id for run in claimed}
    assert asked == 1


async def test_a_hint_about_a_new_lane_is_followed_up_though_lanes_were_just_read(store: Store) -> None:
    """Else the first run of a new task waits for the next poll."""
    worker = WorkerInfo(new_id(), "remote", ("greet",), (), 5, TENANT)
    await store.leases.register(worker, LEASE)
    gateway = WorkerGateway(store, poll=timedelta(minutes=10))
    stop_listening = store.listen(gateway.hint)
    dealing = asyncio.create_task(gateway.loops[0].run())
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    for claim_no in range(1, 4):
        waiting = WaitingClaim(worker.id, claim_no, 5, 0, 0)
        turn = asyncio.create_task(gateway.claim(await store.leases.worker(worker.id), None, waiting, 60.0, gone))
        await asyncio.sleep(0)
        await submit(store, job(queue=f"queue-{claim_no}"))
        gateway.hint(Hint.READY)
        async with asyncio.timeout(20):
            assert len((await turn).runs) == 1
    stop_listening()
    gateway.loops[0].stop()
    await dealing
