"""A suspended tenant fires nothing; what it missed is decided about when it is active again. No scan waits for it."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from duetime.engine.scanner import Scanner
from duetime.errors import TenantDeleting, TenantSuspended
from duetime.ids import new_id
from duetime.model.edit import Changes
from duetime.model.firing import Backfill
from duetime.model.graph import NewGraph, NewNode
from duetime.model.idempotency import keyed_request
from duetime.model.job import JobState, Options, encode_options
from duetime.model.lists import DeadFilter, ReplayPace
from duetime.model.notification import QUEUE as NOTIFICATIONS
from duetime.model.policy import Misfire
from duetime.model.run import RunState
from duetime.model.schedule import NOW, Cron, Every, Once, Schedule
from duetime.model.tenant import NO_LIMITS, NewTenant, TenantChange, TenantState
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, fire, hand, job, submit
from tests.contract.worlds import START, Time

MINUTE = timedelta(minutes=1)
SUSPEND = TenantChange(state=TenantState.SUSPENDED)
RESUME = TenantChange(state=TenantState.ACTIVE)


@pytest.fixture
async def acme(store: Store) -> int:
    return (await store.tenants.create_tenant(NewTenant("acme", limits=NO_LIMITS))).id


async def _submit(store: Store, tenant_id: int, *schedules: Every | Once, options: bytes | None = None) -> list[UUID]:
    jobs = [job(schedule, tenant_id=tenant_id, options=options) for schedule in schedules]
    await store.intake.submit(tenant_id, jobs)
    return [each.id for each in jobs]


async def test_nothing_of_a_suspended_tenant_fires_and_nothing_is_lost(store: Store, time: Time, acme: int) -> None:
    (latest,) = await _submit(store, acme, Every(MINUTE))
    (every,) = await _submit(store, acme, Every(MINUTE), options=encode_options(Options(misfire=Misfire("all"))))
    skipping = encode_options(Options(misfire=Misfire("skip", after=1.0)))
    (none,) = await _submit(store, acme, Every(MINUTE), options=skipping)
    (once,) = await _submit(store, acme, Once(delay=5 * MINUTE))
    (others,) = await _submit(store, TENANT, Once(delay=5 * MINUTE))
    await store.tenants.update_tenant(acme, SUSPEND)
    time.advance(minutes=10, seconds=30)
    scan = await fire(store)
    assert (scan.fired, scan.seen, scan.held_back) == (1, 5, 4)
    assert len(await store.reads.runs_of_job(TENANT, others)) == 1
    for each in (latest, every, none, once):
        assert await store.reads.runs_of_job(acme, each) == []
    await store.tenants.update_tenant(acme, RESUME)
    assert (await fire(store)).fired == 4
    run, *missed = await store.reads.runs_of_job(acme, latest)
    assert (run.state, [each.state for each in missed]) == (RunState.PENDING, [RunState.SKIPPED] * 9)
    assert [each.state for each in await store.reads.runs_of_job(acme, every)] == [RunState.PENDING] * 10
    assert [each.state for each in await store.reads.runs_of_job(acme, none)] == [RunState.SKIPPED] * 10
    (late,) = await store.reads.runs_of_job(acme, once)
    assert (late.due_at, late.ready_at) == (time.now - timedelta(minutes=5, seconds=30), time.now)
    time.advance(minutes=1)
    assert (await fire(store)).fired == 3, "the rhythm goes on"


async def test_cursors_of_a_suspended_tenant_are_seen_once(store: Store, time: Time, acme: int) -> None:
    await _submit(store, acme, *[Every(MINUTE)] * 25)
    await store.tenants.update_tenant(acme, SUSPEND)
    time.advance(minutes=2)
    assert [(await fire(store, limit=10)).held_back for _ in range(3)] == [10, 10, 5]
    scan = await fire(store, limit=10)
    assert (scan.seen, scan.next_in) == (0, None), "neither seen again nor called for"
    await _submit(store, TENANT, Once(delay=MINUTE))
    assert (await fire(store)).next_in == timedelta(seconds=45)


async def test_a_scanner_sleeps_while_only_suspended_tenants_are_due(store: Store, time: Time, acme: int) -> None:
    await _submit(store, acme, *[Every(MINUTE)] * 25)
    await store.tenants.update_tenant(acme, SUSPEND)
    time.advance(minutes=2)
    scanner = Scanner(store, batch=10)
    assert [await scanner.tick() for _ in range(3)] == [0.0, 0.0, 0.5]


async def test_a_resumed_tenant_leaves_room_for_the_others(store: Store, time: Time, acme: int) -> None:
    """A tenth of the jobs of one tenant are due in a batch; the batch is not full of them."""
    await _submit(store, acme, *[Once(delay=MINUTE)] * 30)
    await store.tenants.update_tenant(acme, SUSPEND)
    time.advance(minutes=2)
    while (await fire(store)).held_back:
        pass
    (others,) = await _submit(store, TENANT, Once(delay=MINUTE))
    await store.tenants.update_tenant(acme, RESUME)
    time.advance(minutes=2)
    scan = await fire(store, limit=10)
    assert scan.fired == 6
    assert scan.next_in == timedelta(0), "there is more in the backlog"
    assert len(await store.reads.runs_of_job(TENANT, others)) == 1
    assert [(await fire(store, limit=10)).fired for _ in range(6)] == [5, 5, 5, 5, 5, 0]


async def test_any_node_holds_back_and_any_node_goes_on(store: Store, other: Store, time: Time, acme: int) -> None:
    (early, late) = await _submit(store, acme, Once(delay=MINUTE), Once(delay=2 * MINUTE))
    await store.tenants.update_tenant(acme, SUSPEND)
    time.advance(minutes=1)
    assert (await fire(other)).held_back == 1
    time.advance(minutes=1)
    assert (await fire(store)).held_back == 1
    await other.tenants.update_tenant(acme, RESUME)
    assert (await fire(other, limit=2)).fired == 1, "half of a batch is for what stands in no backlog"
    assert len(await store.reads.runs_of_job(acme, early)) == 1
    assert (await fire(store, limit=2)).fired == 1
    assert len(await store.reads.runs_of_job(acme, late)) == 1


async def test_a_job_in_a_backlog_can_be_steered(store: Store, time: Time, acme: int) -> None:
    paused, cancelled = await _submit(store, acme, Every(MINUTE), Every(MINUTE))
    await store.tenants.update_tenant(acme, SUSPEND)
    time.advance(minutes=2)
    assert (await fire(store)).held_back == 2
    await store.control.pause_job(acme, paused)
    await store.control.cancel_job(acme, cancelled)
    await store.tenants.update_tenant(acme, RESUME)
    assert (await fire(store)).seen == 0
    await store.tenants.update_tenant(acme, SUSPEND)
    assert (await store.control.resume_job(acme, paused)).state is JobState.ACTIVE
    assert (await fire(store)).held_back == 1
    await store.tenants.update_tenant(acme, RESUME)
    assert (await fire(store)).fired == 1


async def test_ready_runs_stay_and_start_when_the_tenant_is_active_again(store: Store, acme: int) -> None:
    submitted = await submit(store, job(tenant_id=acme), tenant_id=acme)
    (lane,) = [lane.id for lane in await store.claims.lanes() if lane.key.tenant_id == acme]
    await store.tenants.update_tenant(acme, SUSPEND)
    assert await store.claims.paused_lanes() == {lane}
    await store.tenants.update_tenant(acme, RESUME)
    assert await store.claims.paused_lanes() == frozenset()
    (run,) = await store.reads.runs_of_job(acme, submitted.job_id)
    assert run.state is RunState.PENDING


SUBMISSIONS: dict[str, tuple[Schedule, dict[str, Any]]] = {
    "now": (NOW, {}),
    "soon": (Once(delay=timedelta(seconds=5)), {}),
    "later": (Once(delay=MINUTE), {}),
    "recurring": (Every(MINUTE), {}),
    "cron": (Cron("* * * * *"), {}),
    "keyed": (NOW, {"key": "one"}),
    "keyed later": (Once(delay=MINUTE), {"key": "two"}),
    "idempotent": (NOW, {"idempotency_key": "again"}),
}


@pytest.mark.parametrize("how", SUBMISSIONS)
@pytest.mark.parametrize(
    ("state", "error"), [(TenantState.SUSPENDED, TenantSuspended), (TenantState.DELETING, TenantDeleting)]
)
async def test_nothing_of_it_is_stored(
    store: Store, acme: int, how: str, state: TenantState, error: type[TenantSuspended]
) -> None:
    schedule, keys = SUBMISSIONS[how]
    before = await store.reads.counts()
    await store.tenants.update_tenant(acme, TenantChange(state=state))
    for count in (1, 3):
        jobs = [job(schedule, tenant_id=acme, queue=how.replace(" ", "_")) for _ in range(count - 1)]
        with pytest.raises(error, match="nothing can be submitted") as refused:
            await store.intake.submit(acme, [*jobs, job(schedule, tenant_id=acme, **keys)])
        assert type(refused.value) is error
    assert await store.reads.counts() == before
    await submit(store, job(), tenant_id=TENANT)
    await store.tenants.update_tenant(acme, RESUME)
    assert (await submit(store, job(schedule, tenant_id=acme, **keys), tenant_id=acme)).created


async def test_no_graph_of_it_is_stored_and_a_known_lane_does_not_help(store: Store, acme: int) -> None:
    parent = await submit(store, job(Once(delay=MINUTE), tenant_id=acme), tenant_id=acme)
    await store.tenants.update_tenant(acme, SUSPEND)
    nodes = (NewNode("a", job(tenant_id=acme), ()), NewNode("b", job(tenant_id=acme), (0,)))
    with pytest.raises(TenantSuspended):
        await store.graphs.submit_graph(acme, NewGraph(new_id(), nodes, "nightly", None, b"f"))
    with pytest.raises(TenantSuspended):
        await submit(store, job(tenant_id=acme), tenant_id=acme)
    assert (await store.reads.job(acme, parent.job_id)).id == parent.job_id


async def test_it_is_notified(store: Store, acme: int) -> None:
    await store.tenants.update_tenant(acme, SUSPEND)
    assert (await submit(store, job(tenant_id=acme, queue=NOTIFICATIONS), tenant_id=acme)).created


async def _ended(store: Store, tenant_id: int) -> tuple[UUID, UUID]:
    """A recurring job, and a dead letter of another one."""
    (recurring,) = await _submit(store, tenant_id, Every(MINUTE))
    (dead,) = await _submit(store, tenant_id, NOW)
    worker = await hand(store)
    await worker.fail(await worker.claim_one())
    (run,) = await store.reads.runs_of_job(tenant_id, dead)
    return recurring, run.id


CHANGES = ("trigger", "backfill", "retry", "replay", "edit", "graph", "rerun")


async def _change(store: Store, tenant_id: int, how: str, made: tuple[UUID, UUID], graph: NewGraph) -> object:
    job_id, run_id = made
    request = keyed_request(f"key {how}", how)
    match how:
        case "trigger":
            return (await store.control.trigger_job(tenant_id, job_id, b"n", request)).id
        case "backfill":
            backfill = Backfill([START - MINUTE, START], 10.0)
            return await store.control.backfill_job(tenant_id, job_id, backfill, b"n", request)
        case "retry":
            return (await store.replay.retry_run(tenant_id, run_id, b"n", request)).id
        case "replay":
            pace = ReplayPace(10, 10.0, timedelta(0))
            return await store.replay.replay_dead_letters(tenant_id, DeadFilter(), pace, b"n", request)
        case "edit":
            return (await store.control.edit_job(tenant_id, job_id, Changes(args=b'{"a":1}'))).args
        case "graph":
            return (await store.graphs.submit_graph(tenant_id, graph)).item.id
        case _:
            return (await store.graphs.rerun_graph(tenant_id, graph.id, b"n")).item.id


@pytest.mark.parametrize("how", CHANGES)
async def test_nothing_of_it_is_run_again_or_edited(store: Store, acme: int, how: str) -> None:
    made = await _ended(store, acme)
    nodes = (NewNode("a", job(tenant_id=acme), ()),)
    graph = NewGraph(new_id(), nodes, "nightly", "key graph", b"f" * 16)
    if how == "rerun":
        await store.graphs.submit_graph(acme, graph)
        worker = await hand(store)
        await worker.fail(await worker.claim_one())
        while await store.graphs.settle(100):
            pass
    before = await store.reads.counts()
    for state, error in ((TenantState.SUSPENDED, TenantSuspended), (TenantState.DELETING, TenantDeleting)):
        await store.tenants.update_tenant(acme, TenantChange(state=state))
        with pytest.raises(error, match="run again or edited"):
            await _change(store, acme, how, made, graph)
        assert await store.reads.counts() == before
    await store.tenants.update_tenant(acme, RESUME)
    first = await _change(store, acme, how, made, graph)
    if how == "rerun":
        return
    await store.tenants.update_tenant(acme, SUSPEND)
    with pytest.raises(TenantSuspended):  # repeated
        await _change(store, acme, how, made, graph)
    await store.tenants.update_tenant(acme, RESUME)
    assert await _change(store, acme, how, made, graph) == first


async def test_a_repeated_submission_of_it_is_refused_like_a_new_one(store: Store, acme: int) -> None:
    again = job(tenant_id=acme, idempotency_key="again")
    first = await submit(store, again, tenant_id=acme)
    await store.tenants.update_tenant(acme, SUSPEND)
    with pytest.raises(TenantSuspended):
        await submit(store, again, tenant_id=acme)
    await store.tenants.update_tenant(acme, RESUME)
    assert (await submit(store, again, tenant_id=acme)).job_id == first.job_id
