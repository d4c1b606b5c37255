"""The worker gateway on each store: it continues what another server began."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from duetime.engine.wait_queue import ClaimAnswer, WaitingClaim
from duetime.engine.worker_gateway import WorkerGateway
from duetime.errors import StoreUnavailable
from duetime.ids import new_id
from duetime.model.attempt import Claimed
from duetime.model.carried import CarriedRun
from duetime.model.suspicion import TrialRoom
from duetime.model.worker import Seat, WorkerInfo
from duetime.store.protocol.store import Hint, Store
from duetime.store.rules.carried_rows import as_carried
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


async def test_a_worker_gets_the_runs_that_are_being_assigned_to_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dealer looks and passes on cancellations while runs of a stream land under the worker's claim."""
    worker = WorkerInfo(new_id(), "remote", ("greet",), (), 5, TENANT)
    await store.leases.register(worker, LEASE)
    await submit(store, job())
    (running,) = await store.claims.claim(worker.id, 1, [(lane.id, 1) for lane in await store.claims.lanes()])
    real, asked, may_land = store.streams.assign, asyncio.Event(), asyncio.Event()

    async def assign(seats: Sequence[Seat], runs: Sequence[tuple[CarriedRun, int]]) -> dict[UUID, list[Claimed]]:
        asked.set()
        await may_land.wait()
        return await real(seats, runs)

    monkeypatch.setattr(store.streams, "assign", assign)
    gateway = WorkerGateway(store, poll=timedelta(seconds=1))
    turn = await waiting_turn(gateway, store, worker.id, 2)
    run, *_ = as_carried([job()])
    assigning = asyncio.create_task(gateway.dealer.assign([run]))
    async with asyncio.timeout(20):
        await asked.wait()
        await store.control.cancel_run(TENANT, running.run_id)
        gateway.hint(Hint.CANCEL)
        await gateway.dealer.tick()
        may_land.set()
        assert await assigning == {run.run_id}
        assert [found.run_id for _, found in (await turn).runs] == [run.run_id]


async def test_runs_are_not_assigned_to_a_claim_whose_answer_was_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store must be asked first which runs the claim holds: no other question would find them."""
    worker = WorkerInfo(new_id(), "remote", ("greet",), (), 5, TENANT)
    await store.leases.register(worker, LEASE)
    real = store.streams.assign

    async def assign(seats: Sequence[Seat], runs: Sequence[tuple[CarriedRun, int]]) -> dict[UUID, list[Claimed]]:
        await real(seats, runs)
        raise StoreUnavailable("the answer was lost")

    gateway = WorkerGateway(store, poll=timedelta(seconds=1))
    turn = await waiting_turn(gateway, store, worker.id, 1)
    lost, later = as_carried([job(), job()])
    with monkeypatch.context() as patched, pytest.raises(StoreUnavailable):
        patched.setattr(store.streams, "assign", assign)
        await gateway.dealer.assign([lost])
    assert await gateway.dealer.assign([later]) == frozenset(), "it waits for the next claim"
    await gateway.dealer.tick()
    async with asyncio.timeout(20):
        assert [found.run_id for _, found in (await turn).runs] == [lost.run_id]


async def waiting_turn(
    gateway: WorkerGateway, store: Store, worker_id: UUID, claim_no: int
) -> "asyncio.Task[ClaimAnswer]":
    """A worker that waits at this server."""
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = WaitingClaim(worker_id, claim_no, 5, TrialRoom())
    waits = asyncio.Event()
    gateway.dealer.on_wait = waits.set
    turn = asyncio.create_task(gateway.claim(await store.leases.worker(worker_id), None, waiting, 60.0, gone))
    await waits.wait()
    await gateway.dealer.tick()  # it registered elsewhere, so the store is asked for runs of an earlier claim
    return turn
