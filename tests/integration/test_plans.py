"""The hot statements at a million rows: claims are heap-only, and fire and claim read only what they take.

Each is run on tables whose statistics are missing, and again when they are misleading, which is what the planner has to
work with in real life.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

import pytest

from duetime.engine import scanner
from duetime.engine.intake import prepare
from duetime.engine.scanner import plan_fires
from duetime.ids import new_id
from duetime.model.attempt import AttemptState, Claimed, Completion
from duetime.model.failure import FailureClass
from duetime.model.job import DEFAULT_TENANT
from duetime.model.retry import Verdict
from duetime.model.run import Event, RunState
from duetime.model.worker import Seat, WorkerInfo
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.ready import Announcement
from tests.support.databases import FOR_EVER
from tests.support.plans import PlanLog, Reads, explained_database
from tests.support.postgres import Server
from tests.support.stores import filled
from tests.support.unclaimed import unclaimed

ROWS = 200_000
BATCH = 500
DONE = Verdict(Event.SUCCEED)

_RUNS = f"""
insert into duetime.lanes (tenant_id, queue, tier, task) values (1, 'default', 1, 'nothing');
insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args)
select gen_random_uuid(), gen_random_uuid(), 1, 1, 1, now(),
    now() - interval '1 hour' + number * interval '1 microsecond', '{{}}'::bytea
from generate_series(1, {ROWS}) as number;
"""

_JOBS = f"""
insert into duetime.jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, created_at)
select md5(number::text)::uuid, 1, 'nothing', 'default', 1,
    case when number % 2 = 0 then '{{"type":"cron","line":"0 9 * * *"}}'::bytea else '{{"type":"once"}}'::bytea end,
    number % 2 = 0, '{{}}'::bytea, now() from generate_series(1, {ROWS}) as number;
insert into duetime.cursors (job_id, scan_at, next_fire_at)
select md5(number::text)::uuid, at, at from generate_series(1, {ROWS}) as number,
    lateral (select now() - interval '1 minute' + number * interval '1 millisecond' as at) as moment;
"""


@pytest.fixture(scope="module")
def full_database(postgres: Server) -> Iterator[str]:
    """A million runs and a million jobs; made once."""
    with explained_database(postgres) as dsn:
        yield dsn


@pytest.fixture
async def store(full_database: str) -> AsyncIterator[PostgresStore]:
    async with filled(full_database, _RUNS, _JOBS) as store:
        yield store


@pytest.fixture
def plan_log(postgres: Server) -> PlanLog:
    return PlanLog(postgres.folder / "log")


@pytest.mark.parametrize("statistics", ["missing", "misleading"])
@pytest.mark.timeout(300)
async def test_claims_are_heap_only_and_read_what_they_take(
    store: PostgresStore, plan_log: PlanLog, statistics: str
) -> None:
    if statistics == "misleading":
        await _analyze(store)
    worker = WorkerInfo(new_id(), "test", ("nothing",), (), BATCH)
    await store.leases.register(worker, FOR_EVER)
    reads = Reads(store)
    before = await reads.now()
    for claim_no in range(1, 5):
        await store.claims.look([1], 10)
        claimed = await store.claims.claim(worker.id, claim_no, [(1, BATCH)])
        assert len(claimed) == BATCH
        done = [Completion(run.run_id, run.fence, DONE, AttemptState.SUCCEEDED) for run in claimed]
        assert not (await store.completions.complete(worker.id, done, [claim_no])).refused
    delta = await reads.since(before, "runs updated")
    assert delta["runs heap-only"] == delta["runs updated"] == 4 * BATCH
    assert delta["runs scanned"] == 0
    # Dead entries of earlier claims are read once more at most, while the mark is still settling.
    assert delta["runs_ready read"] <= 12 * BATCH
    assert delta["runs_pkey read"] <= 5 * BATCH
    plans = plan_log.plans()
    claim = next(plan for plan in plans if "FOR UPDATE" in plan.upper() and "picked" in plan)
    assert "Index Scan using runs_ready" in claim
    assert "Tid Scan on runs" in claim
    ending = next(plan for plan in plans if "Delete on runs" in plan)
    assert "Index Scan using runs_pkey" in ending
    for plan in plans:
        assert "Seq Scan on runs" not in plan, plan
        assert "Sort" not in plan or " on runs" not in plan, plan


async def test_nothing_is_compiled_because_a_way_was_forbidden(store: PostgresStore) -> None:
    """Up to PostgreSQL 17 a forbidden step that is taken all the same costs 10,000,000,000: enough to have the
    statement compiled, which takes half a second each time."""
    async with store.database.connection() as connection:
        functions = await connection.fetch(
            "select proname, proconfig from pg_proc"
            " where pronamespace = 'duetime'::regnamespace and proconfig is not null"
        )
    steered = {name: settings for name, settings in functions if any(each.startswith("enable_") for each in settings)}
    assert len(steered) > 10
    assert [name for name, settings in steered.items() if "jit=off" not in settings] == []


@pytest.mark.parametrize("statistics", ["missing", "misleading"])
@pytest.mark.timeout(300)
async def test_firing_reads_what_it_fires(
    store: PostgresStore, plan_log: PlanLog, statistics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "_PLAN_FOR", 60.0)
    if statistics == "misleading":
        await _analyze(store)
    reads = Reads(store)
    before = await reads.now()
    for _ in range(4):
        scan = await store.firing.fire_due(BATCH, plan_fires)
        assert scan.fired == BATCH
    delta = await reads.since(before, "cursors updated")
    assert delta["cursors scanned"] == delta["jobs scanned"] == delta["runs scanned"] == 0
    assert delta["cursors_in_view read"] <= 16 * BATCH
    assert delta["jobs_pkey read"] <= 20 * BATCH
    plans = plan_log.plans()
    due = next(plan for plan in plans if "cursors_in_view" in plan and "LockRows" in plan)
    _, _, held = due.partition("CTE due")
    assert "Index Scan using cursors_in_view" in held, due
    assert "Sort" not in held, due
    assert "Hash Join" in due, due
    assert any("Bitmap Heap Scan on jobs" in plan for plan in plans), "jobs are not asked for many at a time"
    for plan in plans:
        # A table of one row, and one of which the first is enough.
        rest = plan.replace("Seq Scan on listening", "").replace("Seq Scan on suspects", "")
        assert "Seq Scan" not in rest, plan


_BACKLOG = """
insert into duetime.tenants (id, name, state) overriding system value values (77, 'suspended', 1), (78, 'rated', 0);
update duetime.tenants set fires_per_second = 0.001 where id = 78;
insert into duetime.fire_rates values (78, now());
insert into duetime.jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, created_at)
select md5(number::text || 'held')::uuid, 77 + number % 2, 'nothing', 'default', 1, '{"type":"once"}'::bytea, false,
    '{}'::bytea, now() from generate_series(1, 20000) as number;
insert into duetime.cursors (job_id, scan_at, next_fire_at, backlog_of)
select md5(number::text || 'held')::uuid, now() - interval '1 hour', now(), 77 + number % 2
from generate_series(1, 20000) as number;
"""


async def test_firing_passes_over_no_backlog(
    store: PostgresStore, plan_log: PlanLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither that of a suspended tenant nor that of one which has used up its rate."""
    monkeypatch.setattr(scanner, "_PLAN_FOR", 60.0)
    async with store.database.connection() as connection:
        await connection.execute(_BACKLOG)
    reads = Reads(store)
    before = await reads.now()
    for _ in range(4):
        scan = await store.firing.fire_due(BATCH, plan_fires)
        assert (scan.fired, scan.held_back) == (BATCH, 0)
    delta = await reads.since(before, "cursors updated")
    assert delta["cursors scanned"] == delta["jobs scanned"] == 0
    assert delta["cursors_in_backlogs read"] <= 4 * 10, "the heads of both"
    for plan in plan_log.plans():
        rest = plan.replace("Seq Scan on listening", "").replace("Seq Scan on suspects", "")
        assert "Seq Scan" not in rest, plan


@asynccontextmanager
async def _quiet_night(
    postgres: Server, how: str = "truncate duetime.runs; vacuum analyze duetime.runs"
) -> AsyncIterator[tuple[PostgresStore, UUID]]:
    """A store with one connection, whose table of runs is known to be empty, and a worker."""
    name = f"plans_{new_id().hex}"
    store = PostgresStore(postgres.create_database(name), pool_size=1)
    await store.open()
    try:
        await store.migrate()
        worker = WorkerInfo(new_id(), "test", ("nothing",), (), BATCH)
        await store.leases.register(worker, FOR_EVER)
        # Its lane is known to the process: one that is not may have limits.
        await store.intake.submit(DEFAULT_TENANT, [prepare(task="nothing", args={}, max_payload=100)])
        async with store.database.connection() as connection:
            await connection.execute("alter table duetime.runs set (autovacuum_enabled = false)")
            for statement in how.split(";"):
                await connection.execute(statement)
        yield store, worker.id
    finally:
        await store.close()
        postgres.drop_database(name)


async def _herd(store: PostgresStore) -> None:
    """All at one moment, so that no mark leaves any of them out."""
    async with store.database.connection() as connection:
        await connection.execute(_RUNS.split(";")[1].replace(str(ROWS), "20000").replace("number *", "0 *"))


_Claim = Callable[[PostgresStore, UUID, int, Sequence[Announcement]], Awaitable[Sequence[Claimed]]]


async def _from_lanes(
    store: PostgresStore, worker: UUID, number: int, runs: Sequence[Announcement]
) -> Sequence[Claimed]:
    return await store.claims.claim(worker, number, [(1, BATCH)])


async def _announced(
    store: PostgresStore, worker: UUID, number: int, runs: Sequence[Announcement]
) -> Sequence[Claimed]:
    return await store.claims.claim_announced(worker, number, runs)


async def _dealt(store: PostgresStore, worker: UUID, number: int, runs: Sequence[Announcement]) -> Sequence[Claimed]:
    dealt = await store.claims.claim_many([Seat(worker, number, BATCH)], [(1, BATCH)])
    return dealt.get(worker, [])


@pytest.mark.parametrize(
    "how",
    [
        "delete from duetime.runs; vacuum analyze duetime.runs",
        "truncate duetime.runs; vacuum analyze duetime.runs",  # no pages either, as after VACUUM FULL
    ],
)
@pytest.mark.parametrize("claim", [_from_lanes, _announced, _dealt])
async def test_claims_read_what_they_take_where_statistics_say_that_there_is_nothing(
    postgres: Server, claim: _Claim, how: str
) -> None:
    async with _quiet_night(postgres, how) as (store, worker):
        assert not await claim(store, worker, 1, [Announcement(new_id(), 1)])  # the plan of this connection is made
        await _herd(store)
        runs = [Announcement(run.run_id, run.lane_id) for run in (await unclaimed(store))[:BATCH]]
        reads = Reads(store)
        before = await reads.now()
        assert len(await claim(store, worker, 2, runs)) == BATCH
        delta = await reads.since(before, "runs updated")
        assert delta["runs scanned"] == delta["runs_of_job read"] == 0
        assert delta["runs_pkey read"] + delta["runs_ready read"] <= 4 * BATCH


async def test_completions_find_their_runs_where_statistics_say_that_there_are_none(postgres: Server) -> None:
    """After a quiet night the table is empty, and known to be: a plan made then has to hold for the herd at nine."""
    async with _quiet_night(postgres) as (store, worker):
        await _end_in_every_way(store, worker, [])  # the plans of this connection are made now
        await _herd(store)
        claimed = await store.claims.claim(worker, 1, [(1, BATCH)])
        assert len(claimed) == BATCH
        reads = Reads(store)
        before = await reads.now()
        await _end_in_every_way(store, worker, claimed)
        delta = await reads.since(before, "runs_pkey read")
        assert delta["runs scanned"] == 0
        assert delta["runs_pkey read"] <= 8 * BATCH


_ENDED = f"""
insert into duetime.history (run_id, job_id, tenant_id, lane_id, attempt, fence, lost, attempt_state, end_state, due_at,
    started_at, first_started_at, finished_at)
select gen_random_uuid(), gen_random_uuid(), 1, 1 + number % 200, 1, 1, 0, {AttemptState.SUCCEEDED.value},
    {RunState.SUCCEEDED.value}, now(), now(), now(), now() from generate_series(1, 3000) as number
"""


async def test_what_ended_lately_is_not_compared_with_all_lanes(postgres: Server, plan_log: PlanLog) -> None:
    """Scans of tables and indexes are forbidden where the end of history is read: each row may not look up its lane."""
    with explained_database(postgres) as dsn:
        async with filled(dsn) as store:
            jobs = [prepare(task="nothing", args={}, max_payload=100, queue=f"q{number}") for number in range(200)]
            await store.intake.submit(DEFAULT_TENANT, jobs)
            async with store.database.connection() as connection:
                await connection.execute(_ENDED)
            activity = await store.demand.activity(timedelta(hours=1))
            assert sum(queue.ended for queue in activity.queues.values()) == 3000
            await store.figures.recent(DEFAULT_TENANT, timedelta(hours=1), timedelta(minutes=1))
            plans = [plan for plan in plan_log.plans() if "CTE tail" in plan and "on lanes n" in plan]
            assert len(plans) == 2
            for plan in plans:
                assert not re.search(r"Join Filter: .*lane_id", plan), plan


WAYS = (
    (DONE, AttemptState.SUCCEEDED, None),
    (Verdict(Event.FAIL), AttemptState.FAILED, FailureClass.ERROR),
    (Verdict(Event.RETRY, delay=timedelta(seconds=60)), AttemptState.FAILED, FailureClass.ERROR),
)


async def _end_in_every_way(store: PostgresStore, worker_id: UUID, claimed: list[Claimed]) -> None:
    """A third of them succeeds, a third fails, a third waits for its next try; without any, it is said of one that
    there is not."""
    for number, (verdict, state, failure) in enumerate(WAYS):
        told = [(run.run_id, run.fence) for run in claimed[number::3]] or [(new_id(), 1)]
        answer = await store.completions.complete(
            worker_id, [Completion(*run, verdict, state, failure) for run in told]
        )
        assert len(answer.refused) == (0 if claimed else 1)


async def _analyze(store: PostgresStore) -> None:
    async with store.database.connection() as connection:
        await connection.execute("analyze duetime.runs, duetime.jobs, duetime.cursors", timeout=120)
