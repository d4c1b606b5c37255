"""Lanes and other sessions: transactions that are under way, and databases that went back."""

import asyncpg
import pytest

from duetime.errors import QuotaExceeded
from duetime.ids import new_id
from duetime.model.job import Options, encode_options
from duetime.model.lane import NO_TURN
from duetime.model.schedule import NOW, Every, Once
from duetime.model.worker import Seat, WorkerInfo
from duetime.store.postgres import PostgresStore
from duetime.store.postgres.database import SQL
from duetime.store.shared.awake_lanes import LaneFollower
from tests.contract.hands import LEASE, STRANGER, TENANT, fire, hand, job, submit
from tests.contract.test_lanes import DAY, awake, rest
from tests.contract.worlds import PostgresTime, PostgresWorld, execute, query

Session = asyncpg.Connection
INSERT = """insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args)
    values ($1, $2, $3, $4, $4, duetime.clock(), duetime.clock(), '{}')"""


async def test_a_lane_stays_awake_until_every_transaction_has_ended_that_may_use_it(
    store: PostgresStore, session: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    """Another process asked whether the lane holds before it was marked, and has not committed its run."""
    worker = await hand(store, DAY)
    await submit(store, job())
    (lane,) = await store.claims.lanes()
    await worker.succeed(await worker.claim_one())
    run_id = new_id()
    async with session.transaction():
        assert await session.fetchval(SQL["unusable_lanes"], *store.context.lane_book.stamped([lane.id])) == []
        assert await rest(store, time) == 0
        await session.execute(INSERT, run_id, new_id(), TENANT, lane.id)
        assert await rest(store, time) == 0
    assert await rest(store, time) == 0
    assert (await worker.claim_one()).run_id == run_id


async def test_a_statement_that_asks_after_the_mark_does_not_use_the_lane(
    store: PostgresStore, session: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    worker = await hand(store, DAY)
    await submit(store, job())
    (lane,) = await store.claims.lanes()
    await worker.succeed(await worker.claim_one())
    time.advance(seconds=11)
    await store.claims.tidy_lanes()
    assert await session.fetchval(SQL["unusable_lanes"], *store.context.lane_book.stamped([lane.id])) == [lane.id]
    assert await awake(store) == ["default"], "it is looked at until it is asleep"
    await submit(store, job())  # takes the mark back
    assert await rest(store, time) == 0
    assert await worker.claim_one()


async def test_a_mark_is_taken_back_within_a_transaction_too(store: PostgresStore, time: PostgresTime) -> None:
    worker = await hand(store, 9 * DAY)
    await submit(store, job(Every(DAY)))
    time.advance(days=1)
    for _ in range(2):
        await store.claims.tidy_lanes()
    await fire(store)
    await rest(store, time)
    assert await worker.claim_one()


def rewind(world: PostgresWorld, lane_id: int, queue: str | None = None, tenant_id: int = STRANGER) -> None:
    """The database lost a lane; with a queue, another process has made one of the same number since."""
    execute(world.dsn, "delete from duetime.lane_changes where lane_id = %s", lane_id)
    execute(world.dsn, "delete from duetime.runs where lane_id = %s", lane_id)
    execute(world.dsn, "delete from duetime.lanes where id = %s", lane_id)
    if queue is not None:
        execute(
            world.dsn,
            "insert into duetime.lanes (id, tenant_id, queue, tier, task, awake) overriding system value"
            " values (%s, %s, %s, 1, 'greet', true)",
            lane_id,
            tenant_id,
            queue,
        )


@pytest.mark.parametrize(
    ("queue", "tenant_id"), [(None, STRANGER), ("other", STRANGER), ("lost", STRANGER), ("other", TENANT)]
)
@pytest.mark.parametrize("way", ["for now", "at a time", "with a key"])
async def test_runs_are_stored_in_lanes_of_their_own_after_a_rewind(
    store: PostgresStore, world: PostgresWorld, time: PostgresTime, queue: str | None, tenant_id: int, way: str
) -> None:
    """On the connections that were open before: a pooler keeps them while the database behind it is replaced."""
    await submit(store, job(queue="lost"))
    (lane,) = await store.claims.lanes()
    rewind(world, lane.id, queue, tenant_id)
    schedule = Once(at=time.now) if way == "at a time" else NOW
    answer = await submit(store, job(schedule, queue="lost", idempotency_key="k" if way == "with a key" else None))
    [found] = query(
        world.dsn,
        "select l.tenant_id, l.queue, l.awake from duetime.runs r join duetime.lanes l on l.id = r.lane_id"
        " where r.id = %s",
        answer.run_id,
    )
    assert found == (TENANT, "lost", True)
    worker = await hand(store)
    assert answer.run_id in [run.run_id for run in await worker.claim()]


@pytest.mark.parametrize("way", ["for now", "at a time", "with a key"])
async def test_runs_are_stored_in_lanes_of_their_own_when_the_new_owner_of_an_id_is_known(
    store: PostgresStore, world: PostgresWorld, time: PostgresTime, way: str
) -> None:
    """After a reset this process has used the lane that got the id of an earlier one."""
    await submit(store, job(queue="lost"))
    (lane,) = await store.claims.lanes()
    rewind(world, lane.id, "other", TENANT)
    await submit(store, job(queue="other"))
    schedule = Once(at=time.now) if way == "at a time" else NOW
    for number in range(3):
        key = f"k{number}" if way == "with a key" else None
        answer = await submit(store, job(schedule, queue="lost", idempotency_key=key))
        [found] = query(
            world.dsn,
            "select l.queue from duetime.runs r join duetime.lanes l on l.id = r.lane_id where r.id = %s",
            answer.run_id,
        )
        assert found == ("lost",)


async def test_who_serves_lanes_hears_of_a_rewind_on_an_open_connection(
    store: PostgresStore, world: PostgresWorld
) -> None:
    follower = LaneFollower(store.claims)
    await submit(store, job(queue="kept"))
    await submit(store, job(queue="lost"))
    await follower.read()
    lost = max(follower.by_id)
    [(turn,)] = query(world.dsn, "select turn from duetime.lane_changes where lane_id = %s", lost)
    rewind(world, lost)
    # Another process has woken a lane since, in the same turn.
    execute(
        world.dsn,
        "insert into duetime.lane_changes (turn, lane_id, awake, at) overriding system value"
        " select %s, min(id), true, now() from duetime.lanes",
        turn,
    )
    known = set(follower.by_id)
    fresh, gone, rewound = await follower.read()
    assert rewound
    assert set(gone) == known
    assert [lane.key.queue for lane in fresh] == ["kept"]
    assert await follower.read() == ([], [], False)


async def test_who_serves_lanes_hears_of_a_rewind_before_anything_else_happened(
    store: PostgresStore, world: PostgresWorld
) -> None:
    follower = LaneFollower(store.claims)
    await submit(store, job(queue="kept"))
    await submit(store, job(queue="lost"))
    await follower.read()
    rewind(world, max(follower.by_id))
    assert (await follower.read()).rewound
    assert [lane.key.queue for lane in follower.by_id.values()] == ["kept"]


async def test_no_claim_hands_a_run_to_the_tenant_of_another(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    """Whatever has put the run there: one of the lane's own tenant is claimed, the other is not."""
    keyed = encode_options(Options(concurrency_key="k", concurrency=9))
    await submit(store, job(), job(options=keyed))
    for lane in await store.claims.lanes():
        await session.execute(INSERT, new_id(), new_id(), STRANGER, lane.id)
    plain, limited = (lane.id for lane in await store.claims.lanes())
    bound = WorkerInfo(new_id(), "w", ("greet",), (), 10, TENANT)
    for info in (bound, WorkerInfo(new_id(), "w", ("greet",), (), 10)):
        await store.leases.register(info, LEASE)
        for number, lane in enumerate((plain, limited), start=1):
            claimed = await store.claims.claim(info.id, number, [(lane, 10)])
            await store.claims.release(info.id, [number])
            dealt = (await store.claims.claim_many([Seat(info.id, 10 + number, 10)], [(lane, 10)]))[info.id]
            await store.claims.release(info.id, [10 + number])
            ids = [run.run_id for run in (*claimed, *dealt)]
            tenants = await session.fetch("select distinct tenant_id from duetime.runs where id = any($1)", ids)
            assert [row[0] for row in tenants] == [TENANT]
            assert (len(claimed), len(dealt)) == (1, 1)


async def test_jobs_in_a_callers_transaction_are_refused_one_lane_too_many(
    store: PostgresStore, session: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    store.caller_transactions.lanes_per_tenant = 3  # type: ignore[attr-defined]
    await submit(store, job())
    for queue in ("default", "a", "a", "b"):
        async with session.transaction():
            await store.caller_transactions.submit_within(session, TENANT, job(queue=queue))
    with pytest.raises(QuotaExceeded, match="3 lanes within a day") as refused:
        await store.caller_transactions.submit_within(session, TENANT, job(queue="c"))
    assert refused.value.remedy is not None and "lanes_per_tenant" in refused.value.remedy
    await fire(store)
    await store.claims.tidy_lanes()
    assert sorted(await awake(store)) == ["a", "b", "default"]
    with pytest.raises(QuotaExceeded):
        await store.caller_transactions.submit_within(session, TENANT, job(queue="c"))
    time.advance(days=2)
    worker = await hand(store, DAY)
    await worker.succeed(*await worker.claim())
    await rest(store, time)
    time.advance(days=2)
    await store.caller_transactions.submit_within(session, TENANT, job(queue="c"))


async def test_lanes_that_are_asleep_are_not_looked_at(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    await submit(store, job())
    await session.execute(
        "insert into duetime.lanes (tenant_id, queue, tier, task)"
        " select 1, 'q' || g, 1, 'greet' from generate_series(1, 20000) g"
    )
    assert await awake(store) == ["default"]
    assert [lane.key.queue for lane in (await store.claims.lane_changes(NO_TURN)).awake] == ["default"]


async def test_a_lane_that_wakes_uses_up_no_ids(store: PostgresStore, time: PostgresTime) -> None:
    """There are two thousand million of them, and lanes may wake a hundred times a second."""
    worker = await hand(store, DAY)
    for _ in range(5):
        await submit(store, job())
        await worker.succeed(await worker.claim_one())
        assert await rest(store, time) == 1
    await submit(store, job(), job(queue="mail"))
    first, second = (lane.id for lane in await store.claims.lanes())
    assert second == first + 1
