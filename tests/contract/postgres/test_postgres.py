"""What only PostgreSQL has: other connections, other roles, partitions, and plans."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import asyncpg
import pytest

from duetime.engine.notifier import Notifier
from duetime.engine.outbox import Outbox
from duetime.errors import (
    InvalidInput,
    KeyInFlight,
    KeyReused,
    LeaseLost,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
)
from duetime.ids import new_id
from duetime.model.microseconds import EPOCH
from duetime.model.notification import QUEUE, Subscription, Topic, Webhook
from duetime.model.run import RunState
from duetime.model.schedule import Every, Once
from duetime.store.postgres import PostgresStore, partitions
from duetime.store.postgres.database import SQL
from duetime.store.postgres.partitions import table_of
from duetime.store.postgres.schema import VERSION
from duetime.store.postgres.usage_counts import CountedDays
from duetime.store.rules.caller_keys import IDEMPOTENCY
from duetime.store.shared.transaction import Transaction
from tests.contract.hands import TENANT, fire, hand, job, reap, retried, submit
from tests.contract.worlds import PostgresTime, PostgresWorld, execute, query
from tests.support.postgres import Server
from tests.support.waiting import eventually

DAY = timedelta(days=1)
HOOK = Subscription("ops", Webhook("https://example.com/hook"), (Topic.RUN_SUCCEEDED,))


Session = asyncpg.Connection
T = TypeVar("T")
CUT = """select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'duetime'"""


async def test_a_key_that_another_transaction_holds_is_refused_without_waiting(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    item = job(idempotency_key="order-7")
    async with session.transaction():
        await store.caller_transactions.submit_within(session, TENANT, item)
        async with asyncio.timeout(5):
            with pytest.raises(KeyInFlight):
                await submit(store, job(), job(idempotency_key="order-7"))
            assert (await submit(store, job(idempotency_key="order-8"))).created
            asked = [(IDEMPOTENCY, "order-8"), (IDEMPOTENCY, "order-7")]
            assert await store.intake.known_keys(TENANT, asked) == {(IDEMPOTENCY, "order-8")}
            with pytest.raises(KeyInFlight):
                await store.intake.known_keys(TENANT, asked, certain=True)
    assert await store.intake.known_keys(TENANT, asked, certain=True) == set(asked)
    answer = await submit(store, job(idempotency_key="order-7"))
    assert (answer.job_id, answer.created) == (item.id, False)


async def test_a_key_of_a_transaction_that_was_rolled_back_is_free(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    with pytest.raises(RuntimeError):
        async with session.transaction():
            await store.caller_transactions.submit_within(session, TENANT, job(idempotency_key="order-7"))
            raise RuntimeError
    assert (await submit(store, job(idempotency_key="order-7"))).created
    assert (await store.reads.counts()).jobs == 0


async def test_a_job_of_a_guest_commits_with_its_transaction(
    store: PostgresStore, session: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    worker = await hand(store)
    async with session.transaction():
        job_id = await store.caller_transactions.submit_within(
            session, TENANT, job(args=b'{"n": 1}', idempotency_key="i")
        )
        assert (
            await store.caller_transactions.submit_within(session, TENANT, job(args=b'{"n": 1}', idempotency_key="i"))
            == job_id
        )
        assert (await fire(store)).fired == 0
    with pytest.raises(KeyReused):
        async with session.transaction():
            await store.caller_transactions.submit_within(session, TENANT, job(args=b'{"n": 2}', idempotency_key="i"))
    assert (await fire(store)).fired == 1
    claimed = await worker.claim_one()
    assert (claimed.job_id, claimed.args, claimed.due_at) == (job_id, b'{"n": 1}', time.now)


async def test_a_guest_completes_its_run_in_its_own_transaction(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    with pytest.raises(RuntimeError):
        async with session.transaction():
            await store.caller_transactions.complete_within(session, worker.id, run.run_id, run.fence, b"1", None)
            raise RuntimeError
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.RUNNING
    async with session.transaction():
        await store.caller_transactions.complete_within(session, worker.id, run.run_id, run.fence, b"1", None)
    found = await store.reads.run(TENANT, run.run_id)
    assert (found.state, found.result) == (RunState.SUCCEEDED, b"1")
    with pytest.raises(LeaseLost):
        await store.caller_transactions.complete_within(session, worker.id, run.run_id, run.fence, None, None)


async def test_caller_transactions_take_one_offs_on_known_connections(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    with pytest.raises(InvalidInput, match="one-off"):
        await store.caller_transactions.submit_within(session, TENANT, job(Every(DAY)))
    with pytest.raises(InvalidInput, match="not a supported connection"):
        await store.caller_transactions.submit_within(object(), TENANT, job())


async def test_lanes_wake_in_the_order_of_their_turns(store: PostgresStore, session: "Session[asyncpg.Record]") -> None:
    """Those who read changes above a turn must not miss one that was made before it and committed after it."""
    transaction = session.transaction()
    await transaction.start()
    await session.execute(SQL["wake_lanes"], [TENANT], ["first"], [1], ["greet"], [0], [False], None)
    second = asyncio.create_task(submit(store, job(queue="second")))
    async with asyncio.timeout(10):
        while not await session.fetchval("select 1 from pg_locks where locktype = 'advisory' and not granted"):
            pass
    assert await store.claims.lanes() == []
    await transaction.commit()
    await second
    lanes = await store.claims.lanes()
    assert [lane.key.queue for lane in lanes] == ["first", "second"]


async def test_every_connection_of_the_pool_may_need_a_new_lane_at_once(world: PostgresWorld) -> None:
    """Making a lane in the middle of a transaction takes no second connection from the pool."""
    small = PostgresStore(world.dsn, pool_size=2)
    await small.open()
    await small.migrate()
    workers = [await hand(small) for _ in range(4)]
    for number, worker in enumerate(workers):
        await submit(small, job(queue=f"q{number}"))
        await worker.claim_one()
        await small.leases.leave(worker.id)
    async with asyncio.timeout(8):
        assert sum(await asyncio.gather(*(reap(small, 1) for _ in range(4)))) == 4
    await small.close()


async def test_claims_change_no_index(store: PostgresStore, world: PostgresWorld) -> None:
    """Every claim is a heap-only update: no index of `runs` names a column that a claim changes."""
    worker = await hand(store)
    await submit(store, *(job(timeout_ms=60_000) for _ in range(300)))
    async with store.database.transaction() as connection:
        (lane,) = await store.claims.lanes()
        await connection.fetch(SQL["claim"], [lane.id], [300], [store.context.marks[lane.id]], worker.id, 1)
        updated, hot = await connection.fetchrow(
            "select pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c)"
            " from (select 'duetime.runs'::regclass::oid as c) runs"
        ) or (0, 0)
    assert (updated, hot) == (300, 300)


async def test_the_head_of_a_lane_is_found_by_its_index(store: PostgresStore) -> None:
    await submit(store, *(job(queue=f"q{number % 40}") for number in range(2000)))
    lanes = await store.claims.lanes()
    async with store.database.connection() as connection:
        await connection.execute("analyze duetime.runs")
        plan = await connection.fetch(
            "explain select ctid from duetime.runs where lane_id = $1 and ready_at >= $2 and ready_at <= duetime.now()"
            " and worker_id is null order by ready_at, id limit 10 for update skip locked",
            lanes[0].id,
            store.context.marks[lanes[0].id],
        )
    text = "\n".join(row[0] for row in plan)
    assert "runs_ready" in text
    assert "Sort" not in text


async def test_old_code_runs_on_a_schema_that_bears_it(store: PostgresStore, world: PostgresWorld) -> None:
    newer = VERSION + 1
    try:
        execute(world.dsn, f"insert into duetime.schema_versions (version, oldest_code) values ({newer}, {VERSION})")
        assert await store.check_schema() == newer
        assert await store.migrate() == []
        execute(world.dsn, f"update duetime.schema_versions set oldest_code = {newer} where version = {newer}")
        with pytest.raises(SchemaMismatch, match="install a newer duetime"):
            await store.check_schema()
    finally:
        execute(world.dsn, f"delete from duetime.schema_versions where version = {newer}")
    execute(world.dsn, f"update duetime.schema_versions set version = 0 where version = {VERSION}")
    try:
        with pytest.raises(SchemaMismatch, match="duetime migrate"):
            await store.check_schema()
    finally:
        execute(world.dsn, f"update duetime.schema_versions set version = {VERSION} where version = 0")


async def test_room_is_kept_a_week_ahead(store: PostgresStore, world: PostgresWorld, time: PostgresTime) -> None:
    await store.pruning.prune(30 * DAY, 30 * DAY)
    names = _partitions(world)
    for offset in range(-1, 8):
        assert f"history_{time.now + offset * DAY:%Y%m%d}" in names
    time.advance(days=3)
    await store.pruning.prune(30 * DAY, 30 * DAY)
    assert f"history_{time.now + 7 * DAY:%Y%m%d}" in _partitions(world)


async def test_a_day_that_is_over_goes_whole_with_its_retention(
    store: PostgresStore, world: PostgresWorld, time: PostgresTime
) -> None:
    await store.pruning.prune(30 * DAY, 30 * DAY)
    day = f"history_{time.now:%Y%m%d}"
    time.advance(days=2)
    await store.pruning.prune(2 * DAY, 30 * DAY)
    assert day in _partitions(world)
    time.advance(days=1)
    assert await store.pruning.prune(2 * DAY, 30 * DAY) >= 1
    assert day not in _partitions(world)
    assert query(world.dsn, "select to_regclass(%s) is null", f"duetime.{day}") == [(True,)]


_DETACHING = (
    "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    " and query like 'alter table duetime.history detach%%'"
)


async def test_dropping_a_day_that_somebody_reads_never_blocks_completions(
    store: PostgresStore,
    world: PostgresWorld,
    time: PostgresTime,
    session: "Session[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitions, "_LOCK_TIMEOUT", 60.0)
    worker = await hand(store, 30 * DAY)
    await submit(store, job())
    await worker.succeed(await worker.claim_one())
    day = f"history_{time.now:%Y%m%d}"
    time.advance(days=5)
    await store.pruning.prune(30 * DAY, 30 * DAY)
    transaction = session.transaction(isolation="repeatable_read")
    await transaction.start()
    assert await session.fetchval("select count(*) from duetime.history") == 1
    # The first round starts to detach, the second tries to finish that.
    for _ in range(2):
        pruning = asyncio.create_task(store.pruning.prune(DAY, 30 * DAY))
        [(waiting,)] = await eventually(lambda: query(world.dsn, _DETACHING))
        await submit(store, job())
        await asyncio.wait_for(worker.succeed(await worker.claim_one()), 20)
        assert not pruning.done()
        query(world.dsn, "select pg_cancel_backend(%s)", waiting)
        await pruning
    assert query(world.dsn, "select to_regclass(%s) is null", f"duetime.{day}") == [(False,)]
    assert await session.fetchval("select count(*) from duetime.history") == 1
    await transaction.rollback()
    assert await store.pruning.prune(DAY, 30 * DAY) >= 1
    assert query(world.dsn, "select to_regclass(%s) is null", f"duetime.{day}") == [(True,)]


async def test_what_is_given_up_is_over_before_another_has_the_connection(
    store: PostgresStore,
    time: PostgresTime,
    session: "Session[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitions, "_LOCK_TIMEOUT", 0.2)
    await store.pruning.prune(30 * DAY, 30 * DAY)
    time.advance(days=5)
    await store.pruning.prune(30 * DAY, 30 * DAY)
    async with session.transaction(isolation="repeatable_read"):
        await session.fetchval("select count(*) from duetime.history")
        assert await partitions.drop_older(store.database, time.now - DAY, time.now) == 0
        async with store.database.connection() as connection:
            assert not connection._protocol._is_cancelling()
    assert await partitions.drop_older(store.database, time.now - DAY, time.now) > 0


async def test_a_day_that_somebody_detached_is_kept_as_long_as_any_other(
    store: PostgresStore, world: PostgresWorld, time: PostgresTime
) -> None:
    """An operator set a day aside, to archive it: it is not the pruner's half-finished work."""
    await store.pruning.prune(30 * DAY, 30 * DAY)
    day = f"history_{time.now:%Y%m%d}"
    time.advance(days=5)
    execute(world.dsn, f"alter table duetime.history detach partition duetime.{day}")
    await store.pruning.prune(30 * DAY, 30 * DAY)
    assert query(world.dsn, "select to_regclass(%s) is null", f"duetime.{day}") == [(False,)]
    assert day not in _partitions(world)
    time.advance(days=26)
    await store.pruning.prune(30 * DAY, 30 * DAY)
    assert query(world.dsn, "select to_regclass(%s) is null", f"duetime.{day}") == [(True,)]


async def test_two_nodes_may_prune_at_once(world: PostgresWorld, store: PostgresStore, time: PostgresTime) -> None:
    async with contextlib.AsyncExitStack() as stack:
        other = world.another()
        await other.open()
        stack.push_async_callback(other.close)
        await store.pruning.prune(30 * DAY, 30 * DAY)
        time.advance(days=6)
        for _ in range(2):
            await asyncio.gather(*(place.pruning.prune(DAY, 30 * DAY) for place in (store, other, store, other)))
        assert f"history_{time.now - 3 * DAY:%Y%m%d}" not in _partitions(world)


async def test_a_count_gives_way_to_a_node_that_detaches_the_day(
    world: PostgresWorld, store: PostgresStore, time: PostgresTime
) -> None:
    """`detach partition … finalize` holds the table and waits for older transactions; here it waits for a lock."""
    day = (time.now - EPOCH).days
    async with (
        store.database.connection() as counting,
        store.database.connection() as detaching,
        detaching.transaction(),
    ):
        await detaching.execute(f"lock table {table_of(day)} in access exclusive mode")
        await counting.execute("set deadlock_timeout = '10ms'; begin; select pg_advisory_xact_lock(7)")
        waiting = asyncio.create_task(detaching.execute("select pg_advisory_xact_lock(7)"))
        waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        await eventually(lambda: query(world.dsn, waits) == [(1,)])
        assert not await CountedDays(time.now, None).may_detach(counting, day)
        await counting.execute("rollback; reset deadlock_timeout")
        await waiting


async def test_completions_without_room_ask_to_be_tried_again(store: PostgresStore, time: PostgresTime) -> None:
    """A missing partition is not a bad row of the caller, and must not look like one."""
    worker = await hand(store, 400 * DAY)
    await submit(store, job())
    run = await worker.claim_one()
    time.advance(days=300)
    with pytest.raises(StoreUnavailable, match="history"):
        await worker.succeed(run)
    with pytest.raises(StoreUnavailable, match="history"):
        await worker.complete(retried(run))
    await store.pruning.prune(400 * DAY, 400 * DAY)
    assert (await worker.succeed(run)).refused == frozenset()


async def test_a_full_look_finds_what_a_rolled_back_claim_left_below_the_mark(
    store: PostgresStore,
    session: "Session[asyncpg.Record]",
    time: PostgresTime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, other = await hand(store, DAY), await hand(store, DAY)
    submitted = await submit(store, job())
    (lane,) = await store.claims.lanes()
    for _ in range(3):
        time.advance(seconds=5)
        await store.claims.look([lane.id], 1)
    transaction = session.transaction()
    await transaction.start()
    assert await session.fetch(SQL["claim"], [lane.id], [10], [store.context.marks[lane.id]], other.id, 1)
    await submit(store, job())
    assert len(await worker.claim()) == 1
    assert submitted.next_run is not None
    assert store.context.marks[lane.id] > submitted.next_run
    await transaction.rollback()
    assert await worker.claim() == []
    monkeypatch.setattr(store.context.marks, "_full_look_at", 0.0)
    (sight,) = (await store.claims.look([lane.id], 10)).sights
    assert sight.run_ids == (submitted.run_id,)
    assert [run.run_id for run in await worker.claim()] == [submitted.run_id]


async def test_an_address_that_does_not_answer_is_named_without_its_password() -> None:
    store = PostgresStore("postgresql://someone:secret@127.0.0.1:1/nowhere")
    with pytest.raises(StoreUnavailable) as caught:
        await store.open()
    assert "127.0.0.1:1/nowhere" in str(caught.value)
    assert "secret" not in str(caught.value)
    await store.close()


async def test_a_database_that_does_not_exist_is_named(postgres: Server) -> None:
    store = PostgresStore(postgres.dsn("nowhere"))
    with pytest.raises(StoreError, match="nowhere"):
        await store.open()


async def test_connections_that_are_cut_are_replaced(store: PostgresStore, world: PostgresWorld) -> None:
    await submit(store, job())
    query(world.dsn, CUT)
    assert (await when_back(store.reads.counts)).runs == 1


async def when_back(ask: Callable[[], Awaitable[T]]) -> T:
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(StoreUnavailable):
                return await ask()


async def test_a_pooled_proxy_finds_no_session_state(world: PostgresWorld) -> None:
    """Without prepared statements everything works on whatever connection comes."""
    store = PostgresStore(world.dsn, prepared=False)
    await store.open()
    try:
        worker = await hand(store)
        await submit(store, job(key="k"), job(Once(delay=DAY)))
        run = await worker.claim_one()
        await worker.retry(run)
        await worker.succeed(await worker.claim_one(), result=b"1")
        assert (await store.reads.run(TENANT, run.run_id)).state is RunState.SUCCEEDED
        assert query(world.dsn, "select count(*) from pg_locks where locktype = 'advisory'") == [(0,)]
    finally:
        await store.close()


def _partitions(world: PostgresWorld) -> list[str]:
    rows = query(
        world.dsn,
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = 'duetime.history'::regclass and not i.inhdetachpending",
    )
    return [row[0] for row in rows]


async def test_a_subscription_that_is_put_while_the_last_one_is_deleted(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    await store.notifications.put_subscription(TENANT, HOOK)
    async with session.transaction():
        for name, given in (
            ("lock_notifying", ()),
            ("delete_subscription", (TENANT, "ops")),
            ("listen_no_more", (DAY,)),
        ):
            await session.execute(SQL[name], *given)
        putting = asyncio.create_task(store.notifications.put_subscription(TENANT, HOOK))
        await asyncio.sleep(0.1)
    await putting
    assert await store.notifications.take_notifying(new_id(), DAY) is not None


async def test_who_was_restored_into_another_cluster_is_told_again(store: PostgresStore, world: PostgresWorld) -> None:
    """Its transactions are counted anew: what is told of would be in the past for ever."""
    await store.notifications.put_subscription(TENANT, HOOK)
    execute(world.dsn, "update duetime.event_places set seen = '1000000000000:1000000000000:'")
    worker = await hand(store)
    await submit(store, job())
    await worker.succeed(await worker.claim_one())
    notifier = Notifier(store, Outbox(store))
    await notifier.tick()
    await notifier.tick()
    assert (await store.queues.queue(TENANT, QUEUE)).depth.medium == 1


async def test_a_transaction_that_the_database_ended_for_another_is_made_again(store: PostgresStore) -> None:
    tries = 0

    async def work(transaction: Transaction) -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise asyncpg.DeadlockDetectedError("deadlock detected")
        return tries

    assert await store.context.transactions.of(TENANT).run(work) == 3
