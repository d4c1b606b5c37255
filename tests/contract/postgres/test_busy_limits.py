"""Limits that a transaction holds: no claim and no completion waits for one, no run stays parked, and no limit is ever
exceeded."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from random import Random

import asyncpg
import pytest

from duetime.model.attempt import AttemptState, Claimed, Completion
from duetime.model.job import Options, decode_options, encode_options
from duetime.model.limits import QueueLimits
from duetime.model.retry import RetryPolicy, Verdict
from duetime.model.run import Event
from duetime.model.tenant import NewTenant, TenantChange, TenantLimits
from duetime.model.worker import Lost, Seat
from duetime.store.postgres import PostgresStore
from tests.contract.hands import STRANGER, TENANT, Hand, fire, hand, job, reap, submit, succeeded
from tests.contract.test_limits import free_slot, keyed, rated
from tests.contract.worlds import PostgresTime, PostgresWorld, execute, query
from tests.support.waiting import eventually

DAY = timedelta(days=1)
AT_ONCE = 10
"""Seconds within which something happens that waits for no transaction, on a machine with much else to do."""
ONCE = encode_options(Options(concurrency_key="k", retry=RetryPolicy(retries=0, lost_retries=0)))
HOLD_ALL = "select 1 from duetime.limits for update"
HOLD_KEY = """
select id from duetime.hold_limits(array[1], array[3]::smallint[], array[$1], array[1], array[null]::int[],
    array[null]::interval[])"""
IN_LANES = "select count(*) from duetime.runs where lane_id > 0 and worker_id is null"

Session = asyncpg.Connection
Way = Callable[[PostgresStore, Hand], Awaitable[Sequence[Claimed]]]


@pytest.fixture
async def other(world: PostgresWorld, store: PostgresStore) -> AsyncIterator[PostgresStore]:
    """The store of another node."""
    other = world.another()
    await other.open()
    yield other
    await other.close()


async def _claim(store: PostgresStore, worker: Hand) -> Sequence[Claimed]:
    return await worker.claim()


async def _claim_many(store: PostgresStore, worker: Hand) -> Sequence[Claimed]:
    worker.claim_no += 1
    lanes = [(lane.id, 100) for lane in await store.claims.lanes()]
    return (await store.claims.claim_many([Seat(worker.id, worker.claim_no, 100)], lanes))[worker.id]


CLAIMS: dict[str, Way] = {"claim": _claim, "claim_many": _claim_many}


async def _limit(store: PostgresStore, kind: str) -> None:
    """A run under a limit of this kind that is known already, beside one that has none."""
    match kind:
        case "tenant":
            await store.tenants.create_tenant(NewTenant("stranger"))
            await store.tenants.update_tenant(STRANGER, TenantChange(limits=TenantLimits(running_runs=5)))
            await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)
        case "queue":
            await store.queues.limit_queue(TENANT, "slow", QueueLimits(running=5))
            await submit(store, job(queue="slow"))
        case "key":
            await submit(store, job(options=keyed("k", 5)))
        case "rate":
            await submit(store, job(options=rated("k", "5/m")))
    worker = await hand(store, DAY)
    await worker.succeed(await worker.claim_one())


async def _submit_under(store: PostgresStore, kind: str) -> None:
    match kind:
        case "tenant":
            await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)
        case "queue":
            await submit(store, job(queue="slow"))
        case "key":
            await submit(store, job(options=keyed("k", 5)))
        case "rate":
            await submit(store, job(options=rated("k", "5/m")))


@pytest.mark.parametrize("way", CLAIMS)
@pytest.mark.parametrize("kind", ["tenant", "queue", "key", "rate"])
async def test_a_claim_leaves_what_is_under_a_held_limit_and_takes_the_rest(
    store: PostgresStore, world: PostgresWorld, session: "Session[asyncpg.Record]", kind: str, way: str
) -> None:
    await _limit(store, kind)
    worker = await hand(store, DAY)
    await _submit_under(store, kind)
    plain = await submit(store, job(task="count"))
    async with session.transaction():
        assert await session.fetch(HOLD_ALL)
        async with asyncio.timeout(AT_ONCE):
            assert [run.job_id for run in await CLAIMS[way](store, worker)] == [plain.job_id]
            assert await CLAIMS[way](store, worker) == []
        assert query(world.dsn, IN_LANES) == [(1,)], "it waits in its lane, and not for those who would free it"
    assert len(await CLAIMS[way](store, worker)) == 1


async def test_a_claim_does_not_wait_for_a_key_that_another_is_making(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    await submit(store, job(options=keyed("new")))
    plain = await submit(store, job())
    worker = await hand(store, DAY)
    async with session.transaction():
        assert await session.fetch(HOLD_KEY, "new")
        async with asyncio.timeout(AT_ONCE):
            assert [run.job_id for run in await worker.claim()] == [plain.job_id]
    assert len(await worker.claim()) == 1


async def _complete_many(store: PostgresStore, worker: Hand, run: Claimed) -> None:
    await store.completions.complete_many([(worker.id, [succeeded(run)], []), (worker.id, [succeeded(run, b"1")], [])])


async def _finish(store: PostgresStore, worker: Hand, run: Claimed) -> None:
    over = Verdict(Event.HAND_OVER, timedelta(hours=1))
    await worker.complete(Completion(run.run_id, run.fence, over, AttemptState.HANDED_OVER))

    def judge(lost: Sequence[Lost]) -> list[Completion]:
        return [Completion(item.run_id, item.fence, Verdict(Event.SUCCEED), AttemptState.SUCCEEDED) for item in lost]

    assert await store.completions.finish(run.run_id, run.fence, judge)


WAYS = ["succeed", "result", "fail", "retry", "hand_back", "release", "reap", "renew", "cancel", "many", "finish"]


@pytest.mark.parametrize("way", WAYS)
async def test_what_ends_a_run_waits_for_no_limit_and_the_next_one_follows(
    store: PostgresStore, session: "Session[asyncpg.Record]", time: PostgresTime, way: str
) -> None:
    """A claimer holds the limit, and may have counted before: the lane is given back once it has let go."""
    for _ in range(2):
        await submit(store, job(options=ONCE))
    worker = await hand(store)
    run = await worker.claim_one()
    assert await worker.claim() == [], "the second is parked"
    worker.claim_no -= 1
    async with session.transaction():
        assert await session.fetch(HOLD_ALL)
        async with asyncio.timeout(AT_ONCE):
            match way:
                case "many":
                    await _complete_many(store, worker, run)
                case "finish":
                    await _finish(store, worker, run)
                case _:
                    await free_slot(store, time, worker, run, way)
    follower = await hand(store, DAY)
    (following,) = await eventually(follower.claim)
    assert (following.run_id == run.run_id) is (way in ("hand_back", "release", "renew"))
    assert await (await hand(store, DAY)).claim() == [], "one at a time"


async def test_one_that_counts_and_parks_while_another_completes_leaves_nothing_parked(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    await submit(store, job(options=keyed("k")))
    worker = await hand(store, DAY)
    run = await worker.claim_one()
    following = await submit(store, job(options=keyed("k")))
    async with session.transaction():
        limit_id = await session.fetchval(HOLD_KEY, "k")
        assert await session.fetchval("select live from duetime.count_limits(array[$1::bigint])", limit_id) == 1
        async with asyncio.timeout(AT_ONCE):
            await worker.succeed(run)
        await session.execute(
            "update duetime.runs set lane_id = -lane_id, parked_by = $1 where id = $2", limit_id, following.run_id
        )
    (claimed,) = await eventually(worker.claim)
    assert claimed.run_id == following.run_id


async def test_what_a_process_left_behind_is_found_by_the_scanners_of_others(
    store: PostgresStore, other: PostgresStore, world: PostgresWorld, session: "Session[asyncpg.Record]"
) -> None:
    await submit(store, job(options=keyed("k")), job(options=keyed("k")))
    worker = await hand(store, DAY)
    dying = world.another()
    await dying.open()
    run = await worker.claim_one()
    async with session.transaction():
        await session.fetch(HOLD_ALL)
        await dying.completions.complete(worker.id, [succeeded(run)])
        await dying.close()
        assert await other.firing.unblock(100) == 0, "it does not wait either"
    assert await worker.claim() == []
    assert await eventually(lambda: other.firing.unblock(100)) == 1
    assert await other.firing.unblock(100) == 0
    assert len(await worker.claim()) == 1


async def test_what_is_parked_by_a_limit_that_is_gone_is_found(store: PostgresStore, world: PostgresWorld) -> None:
    await submit(store, job(options=keyed("k")), job(options=keyed("k")))
    worker = await hand(store, DAY)
    run = await worker.claim_one()
    execute(world.dsn, "delete from duetime.limits")
    await worker.succeed(run)
    assert await eventually(lambda: store.firing.unblock(100)) == 1
    assert len(await worker.claim()) == 1


async def test_a_lane_is_given_back_for_each_slot_and_no_more(
    store: PostgresStore, world: PostgresWorld, time: PostgresTime
) -> None:
    await submit(store, *(job(options=keyed("k", 3)) for _ in range(10)))
    worker = await hand(store, DAY)
    runs = await worker.claim()
    assert len(runs) == 3
    for number, run in enumerate(runs, 1):
        await worker.succeed(run)
        assert await store.firing.unblock(100) == 0
        assert query(world.dsn, IN_LANES) == [(number,)]
    time.advance(seconds=3)
    assert await eventually(lambda: store.firing.unblock(100)) == 3, (
        "those may be of a task that no worker has: others may try"
    )
    assert len(await worker.claim()) == 3


@pytest.mark.parametrize("reported", [True, False], ids=["reported", "its worker died"])
async def test_a_users_transaction_holds_up_nobody_and_the_next_run_follows_its_commit(
    store: PostgresStore, other: PostgresStore, session: "Session[asyncpg.Record]", reported: bool
) -> None:
    await submit(store, *(job(options=keyed("k", 2)) for _ in range(4)))
    await submit(store, job())
    worker, another = await hand(store, DAY), await hand(other, DAY)
    runs = await worker.claim()
    assert len(runs) == 3
    run, *rest = [run for run in runs if decode_options(run.options).concurrency_key] + [
        run for run in runs if run.options is None
    ]
    async with session.transaction():
        await store.caller_transactions.complete_within(session, worker.id, run.run_id, run.fence, None, None)
        async with asyncio.timeout(AT_ONCE):
            assert (await worker.succeed(*rest)).refused == frozenset()
            assert len(await another.claim()) == 1, "the slot of the other run; that of this one is not free yet"
            await submit(other, job(), job(options=keyed("l")))
            assert len(await another.claim()) == 2
            assert await other.firing.unblock(100) == 0
            assert await another.claim() == []
    if reported:
        answer = await worker.retry(run)
        assert (answer.refused, answer.over) == ({run.run_id}, {run.run_id})
    else:
        assert await eventually(lambda: other.firing.unblock(100)) == 1
    assert len(await another.claim()) == 1


async def test_a_users_transaction_that_is_rolled_back_gives_nothing_away(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    await submit(store, job(options=keyed("k")), job(options=keyed("k")))
    worker = await hand(store, DAY)
    run = await worker.claim_one()
    transaction = session.transaction()
    await transaction.start()
    await store.caller_transactions.complete_within(session, worker.id, run.run_id, run.fence, None, None)
    await transaction.rollback()
    assert await store.firing.unblock(100) == 0
    assert await worker.claim() == []
    assert (await worker.succeed(run)).refused == frozenset()
    assert len(await worker.claim()) == 1


async def test_a_report_of_another_worker_frees_nothing(store: PostgresStore) -> None:
    await submit(store, job(options=keyed("k")), job(options=keyed("k")))
    worker, stranger = await hand(store, DAY), await hand(store, DAY)
    run = await worker.claim_one()
    for again in (succeeded(run), succeeded(run, b"1")):
        answer = await store.completions.complete(stranger.id, [again])
        assert (answer.refused, answer.over) == ({run.run_id}, frozenset())
    assert await stranger.claim() == []


async def test_what_runs_in_a_users_transaction_locks_nothing_that_others_need(
    store: PostgresStore, other: PostgresStore, session: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    await store.queues.limit_queue(TENANT, "default", QueueLimits(running=50))
    await submit(store, *(job(options=keyed(key)) for key in "aabb"))
    worker, another = await hand(store, DAY), await hand(other, DAY)
    run, second = await worker.claim()
    async with session.transaction():
        await store.caller_transactions.complete_within(session, worker.id, run.run_id, run.fence, b"1", None)
        await store.caller_transactions.submit_within(session, TENANT, job(idempotency_key="mine", options=keyed("a")))
        async with asyncio.timeout(4 * AT_ONCE):
            await submit(other, job(), job(options=keyed("a")), job(idempotency_key="theirs", options=keyed("c")))
            assert len(await another.claim()) == 2
            await worker.succeed(second)
            assert len(await another.claim()) == 1
            await store.queues.limit_queue(TENANT, "default", QueueLimits(running=60))
            await store.tenants.update_tenant(TENANT, TenantChange(limits=TenantLimits(running_runs=70)))
            await fire(other)
            await other.firing.unblock(100)
            await other.claims.rules()
            await other.leases.renew_many([(worker.id, [1]), (another.id, [1, 2, 3])], DAY)
            time.advance(days=2)
            assert await reap(other) >= 3
            await other.pruning.prune(365 * DAY, 365 * DAY)
            assert len(await (await hand(other, DAY)).claim()) >= 3
    assert (await fire(store)).fired == 1


async def test_a_claim_does_not_rewrite_a_limit_that_says_what_it_said(
    store: PostgresStore, world: PostgresWorld, time: PostgresTime
) -> None:
    """Under a snapshot that is held open, each version of the row would be passed by at each claim."""
    worker = await hand(store, 9 * DAY)
    await store.queues.limit_queue(TENANT, "default", QueueLimits(running=50))
    version = "select ctid::text, xmin::text from duetime.limits order by kind"

    async def use(most: int = 2) -> list[tuple[object, ...]]:
        await submit(store, *(job(options=keyed("k", most)) for _ in range(3)))
        while runs := await worker.claim():
            await worker.succeed(*runs)
        return query(world.dsn, version)

    await use()
    time.advance(seconds=5)
    first = await use()
    assert [await use() for _ in range(5)] == [first] * 5
    assert (await use(3))[1] != first[1], "it says something else"
    for _ in range(6):
        time.advance(minutes=25)
        await use()
        await store.pruning.prune(30 * DAY, 30 * DAY)
        assert await world.rows_of("limits") == 2, "it is in use"
    time.advance(hours=2)
    await store.pruning.prune(30 * DAY, 30 * DAY)
    assert await world.rows_of("limits") == 1


async def test_a_count_passes_by_what_is_gone_and_nothing_that_is_held(
    store: PostgresStore, world: PostgresWorld, time: PostgresTime
) -> None:
    """A mark for each limit: no hold is older. It moves now and then; a clock that is put back hides none."""
    worker = await hand(store, 9 * DAY)
    mark = "select counted_from from duetime.limits"
    await submit(store, *(job(options=keyed("k", 2)) for _ in range(40)))
    begun = time.now
    lasting, run = await worker.claim()
    for _ in range(6):
        time.advance(seconds=15)
        await worker.succeed(run)
        (run,) = await worker.claim()
    assert query(world.dsn, mark) == [(begun,)], "one of them is held still"
    await worker.succeed(lasting, run)
    time.advance(seconds=15)
    runs = await worker.claim()
    assert len(runs) == 2
    assert query(world.dsn, mark) == [(time.now - timedelta(seconds=15),)], "the first was given its lane back then"
    for _ in range(4):
        time.advance(minutes=-5)
        assert await worker.claim() == []
        await worker.succeed(runs[0])
        runs = [runs[1], *await eventually(worker.claim)]
        assert len(runs) == 2
    [(oldest, marked)] = query(world.dsn, "select min(since), max(counted_from) from duetime.holds, duetime.limits")
    assert oldest >= marked


async def test_no_limit_is_exceeded_and_all_runs_end_whoever_claims_and_completes(
    store: PostgresStore, other: PostgresStore, world: PostgresWorld
) -> None:
    """Two nodes, and tasks that complete their runs in transactions of their own."""
    allowed = {"a": 1, "b": 1, "c": 2, "d": 3}
    jobs = [job(options=keyed(key, most)) for key, most in allowed.items() for _ in range(15)]
    Random(7).shuffle(jobs)
    await submit(store, *jobs, *(job() for _ in range(10)))
    running: Counter[str] = Counter()
    left = len(jobs) + 10

    async def work(node: PostgresStore, seed: int) -> None:
        nonlocal left
        random, worker = Random(seed), await hand(node, DAY)
        own = await asyncpg.connect(world.dsn)
        try:
            while left:
                runs = await worker.claim(random.randint(1, 4))
                keys = {run.run_id: decode_options(run.options).concurrency_key or "" for run in runs}
                running.update(key for key in keys.values() if key)
                assert all(running[key] <= most for key, most in allowed.items()), running
                for run in runs:
                    async with own.transaction():
                        inside = random.random() < 0.3
                        if inside:
                            await node.caller_transactions.complete_within(
                                own, worker.id, run.run_id, run.fence, None, None
                            )
                        # What is over is not counted from here on; in the database it is a moment later.
                        running[keys[run.run_id]] -= 1
                    if random.random() < 0.7 or not inside:
                        refused = (await worker.succeed(run)).refused
                        assert refused == ({run.run_id} if inside else frozenset())
                    left -= 1
                if not runs:
                    await node.firing.unblock(100)
                    await asyncio.sleep(0.002)
        finally:
            await own.close()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for seed, node in enumerate((store, other, store, other)):
            group.create_task(work(node, seed))
    assert await world.rows_of("runs") == 0
