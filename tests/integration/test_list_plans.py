"""Lists on large tables: every page walks indexes to its bound, and reads no more than that, whatever the filter.

Each is asked for with statistics missing, and again when they are there.
"""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from uuid import UUID

import pytest

from duetime.ids import new_id
from duetime.model.lists import DeadFilter, JobFilter, JobStatus, RunFilter
from duetime.model.run import RunState
from duetime.store.postgres import PostgresStore
from duetime.store.rules.list_pages import BOUND, LIVE_BOUND, MOST_WALKED, SPARSE_BOUND
from duetime.store.shared.figure_rows import CAP, COUNTED, LOOKED_AT
from tests.support.plans import PlanLog, Reads, explained_database
from tests.support.postgres import Server
from tests.support.stores import filled

ROWS = 100_000
RECURRING = 200

# Two tenants, the second with a hundredth of everything. A tenth of history is runs of recurring jobs; one run in a
# thousand failed. Jobs and runs go over a few days, so over several partitions.
_FILL = f"""
create function public.id_at(at timestamptz, salt text) returns uuid language sql stable as $$
    select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || substr(md5(salt), 1, 3) || '8'
        || substr(md5(salt), 4, 15))::uuid $$;
insert into duetime.lanes (tenant_id, queue, tier, task)
    values (1, 'default', 1, 'nothing'), (2, 'default', 1, 'nothing'), (1, 'rare', 1, 'nothing'); -- ids 1, 2, 3
insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state, due_at,
        ready_at, started_at, finished_at, args)
    select id_at(at, 'job' || n), -- the own run of a one-off has the bits of its job
        case when n % 10 = 0 then id_at(now() - interval '2 days', 'recurring' || n % {RECURRING})
             else id_at(at, 'job' || n) end,
        tenant, tenant, 1, 1, 0, 1, case when n % 1000 = 1 then 5 else 4 end, at, at, at, at, '{{}}'
    from (select n, case when n % 100 = 7 then 2 else 1 end as tenant,
              now() - interval '1 day' + n * interval '800 milliseconds' as at
          from generate_series(1, {ROWS}) n) x;
insert into duetime.jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, state, created_at)
    select id_at(at, 'stored' || n), case when n % 100 = 7 then 2 else 1 end, 'nothing',
        case when n % 5000 = 0 then 'rare' else 'default' end, 1, '{{"type":"once"}}', false, '{{}}', 0, at
    from (select n, now() - interval '1 day' + n * interval '800 milliseconds' as at
          from generate_series(1, {ROWS}) n) x;
insert into duetime.jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, created_at)
    select id_at(now() - interval '2 days', 'recurring' || n), 1, 'nothing', 'default', 1,
        '{{"type":"every","period":60000000}}', true, '{{}}', now()
    from generate_series(0, {RECURRING - 1}) n;
insert into duetime.cursors (job_id, scan_at, next_fire_at)
    select id, now() + interval '1 day', now() + interval '1 day' from duetime.jobs;
insert into duetime.runs (id, job_id, tenant_id, lane_id, home_lane, due_at, ready_at, args)
    select id_at(at, 'live run' || n), id_at(at, 'live' || n), tenant, tenant, tenant, at, at, '{{}}'
    from (select n, case when n % 100 = 7 then 2 else 1 end as tenant, now() + n * interval '1 millisecond' as at
          from generate_series(1, {ROWS // 2}) n) x;
insert into duetime.labels (tenant_id, kind, value, job_id)
    select tenant_id, 'o', 'u' || right(id::text, 1), id from duetime.jobs where not recurring
    union all select tenant_id, 'n', right(id::text, 8), id from duetime.jobs where not recurring;
insert into duetime.dead_letters (run_id, job_id, tenant_id, lane_id, attempt, lost, due_at, died_at, args, error)
    select run_id, job_id, tenant_id, lane_id, 1, 0, due_at, finished_at, args, 'no' from duetime.history
    where right(run_id::text, 1) = '0';
"""


@pytest.fixture(scope="module")
def full_database(postgres: Server) -> Iterator[str]:
    with explained_database(postgres) as dsn:
        yield dsn


@pytest.fixture
async def store(full_database: str) -> AsyncIterator[PostgresStore]:
    async with filled(full_database, _FILL) as store:
        yield store


LISTS = {
    "jobs": JobFilter(),
    "pending": JobFilter(status=JobStatus.PENDING),
    "succeeded": JobFilter(status=JobStatus.SUCCEEDED),
    "failed": JobFilter(status=JobStatus.FAILED),
    "cancelled": JobFilter(status=JobStatus.CANCELLED),
    "running": JobFilter(status=JobStatus.RUNNING),
    "active": JobFilter(status=JobStatus.ACTIVE),
    "a rare queue": JobFilter(queue="rare"),
    "an unknown task": JobFilter(task="unknown"),
    "an owner": JobFilter(owner="u1"),
    "an owner's failures": JobFilter(owner="u1", status=JobStatus.FAILED),
    "runs": RunFilter(),
    "pending runs": RunFilter(state=RunState.PENDING),
    "failed runs": RunFilter(state=RunState.FAILED),
    "runs of a queue": RunFilter(queue="rare"),
    "dead letters": DeadFilter(),
    "dead letters of an error": DeadFilter(error="yes"),
}


@pytest.mark.parametrize("tenant_id", [1, 2])
@pytest.mark.parametrize("statistics", ["missing", "there"])
@pytest.mark.timeout(300)
async def test_a_page_reads_no_more_than_its_bound(
    store: PostgresStore, postgres: Server, statistics: str, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.store.shared.lists.MOST_SECONDS", -1.0)  # one window: an empty one reads on otherwise
    if statistics == "there":
        async with store.database.connection() as connection:
            await connection.execute("analyze", timeout=120)
    reads = Reads(store)
    for name, filter in LISTS.items():
        log = PlanLog(postgres.folder / "log")
        before = await reads.now()
        if isinstance(filter, JobFilter):
            jobs = await store.lists.list_jobs(tenant_id, filter)
            assert len(jobs.items) == 50 or filter.status or filter.queue or filter.task, name
        elif isinstance(filter, RunFilter):
            await store.lists.list_runs(tenant_id, filter)
        else:
            await store.lists.list_dead_letters(tenant_id, filter)
        after = await reads.now()
        delta = {key: value - before.get(key, 0) for key, value in after.items()}
        for table in ("jobs", "runs", "labels", "dead_letters", "cursors"):
            assert delta[f"{table} scanned"] == 0, (name, table)
        assert all(value == 0 for key, value in delta.items() if key.startswith("history_") and "scanned" in key), name
        history = sum(value for key, value in delta.items() if key.startswith("history_") and key.endswith("read"))
        assert history <= MOST_WALKED + 3 * BOUND, (name, history)
        assert delta["jobs_of_tenant read"] <= 3 * BOUND, name
        assert delta["runs_of_job read"] <= LIVE_BOUND + 3 * BOUND, name
        assert delta["runs_pkey read"] <= 3 * SPARSE_BOUND, name
        for plan in log.plans():
            assert "JIT" not in plan, (name, plan)
            if "select h.job_id, h.run_id from duetime.history" in plan:
                assert "Index Scan" not in plan, (name, plan)
                assert "Index Only Scan" in plan, (name, plan)


@pytest.mark.parametrize("tenant_id", [1, 2])
async def test_a_page_by_name_reads_no_more_than_its_bound(store: PostgresStore, tenant_id: int) -> None:
    reads = Reads(store)
    for down in (False, True):
        place = None
        for _ in range(3):
            before = await reads.now()
            page = await store.lists.list_jobs_by_name(tenant_id, JobFilter(), place, 50, down=down)
            after = await reads.now()
            delta = {key: value - before.get(key, 0) for key, value in after.items()}
            assert len(page.items) == 50
            assert delta["labels scanned"] == delta["jobs scanned"] == 0
            assert delta["labels_pkey read"] <= 3 * BOUND
            place = page.next


async def test_ended_jobs_are_asked_for_in_the_days_of_their_runs(store: PostgresStore, postgres: Server) -> None:
    async with store.database.connection() as connection:
        ended = await connection.fetch(
            "select job_id, run_id from duetime.history where tenant_id = 1 and end_state is not null limit 50"
        )
        await connection.execute("set auto_explain.log_analyze = on")
        log = PlanLog(postgres.folder / "log")
        known = [[row["job_id"] for row in ended], [row["run_id"] for row in ended]]
        assert await connection.fetchval("select count(*) from duetime.soon_ended(1, $1, $2)", *known) == 50
    (plan,) = [plan for plan in log.plans() if "h.run_id = w.run_id" in plan]
    assert "never executed" in plan  # partitions of other days
    assert len((await store.lists.list_jobs(1, JobFilter(status=JobStatus.SUCCEEDED))).items) == 50


async def test_a_job_of_many_runs_costs_one_look(store: PostgresStore) -> None:
    """Two hundred recurring jobs stand at the end of history with a hundred runs each: none takes a page of its own."""
    async with store.database.connection() as connection:
        place: UUID | None = await connection.fetchval("select id_at(now() - interval '36 hours', '')")
    pages = 0
    while place is not None:
        page = await store.lists.list_jobs(1, JobFilter(status=JobStatus.SUCCEEDED), place, 50)
        assert page.items == ()
        place = page.next
        pages += 1
    assert pages <= RECURRING // 10 + 1


async def test_figures_read_no_more_than_their_bound(store: PostgresStore, postgres: Server) -> None:
    """Of history the newest blocks by their number; of everything else so many entries of an index."""
    reads, log = Reads(store), PlanLog(postgres.folder / "log")
    before = await reads.now()
    for tenant_id in (1, 2):
        await store.figures.recent(tenant_id, timedelta(hours=1), timedelta(minutes=1))
        standing = await store.figures.standing(tenant_id)
        assert standing.jobs.kind == ("estimate" if tenant_id == 1 else "exact")
        await store.figures.ahead(tenant_id, await store.now(), timedelta(hours=1), 48)
        await store.figures.recent_runs(tenant_id, [new_id() for _ in range(50)], 12)
    after = await reads.now()
    delta = {key: value - before.get(key, 0) for key, value in after.items()}
    assert {key for key, value in delta.items() if value and "scanned" in key} <= {"lanes scanned", "workers scanned"}
    assert delta["jobs_of_tenant read"] <= 2 * (CAP + 1 + LOOKED_AT + 1 + COUNTED)
    assert delta["jobs_pkey read"] + delta["cursors_pkey read"] <= 6 * LOOKED_AT
    assert not delta["cursors_in_view read"]
    tails = [plan for plan in log.plans() if "lags as materialized" in plan]
    assert tails and all("Tid Range Scan" in plan for plan in tails)
