"""Row-level security (PostgreSQL): whatever a statement forgets, a tenant's transaction sees its own rows only."""

import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import date, timedelta
from urllib.parse import urlsplit

import psycopg
import pytest

from duetime.errors import StoreError
from duetime.ids import new_id, show
from duetime.model.access import NewKey, Role
from duetime.model.alert import AlertRule, Figure
from duetime.model.audit import AuditEntry
from duetime.model.breaker import BreakerPolicy, Tally
from duetime.model.bulk import BulkPlan, JobsWork, NewBulk
from duetime.model.checkin import CheckIn
from duetime.model.graph import NewGraph, NewNode
from duetime.model.issuer import Issuer
from duetime.model.job import Options, encode_options
from duetime.model.lists import JobFilter, JobStatus
from duetime.model.notification import Subscription, Webhook
from duetime.model.schedule import Cron, Every, make_after, make_exclusion
from duetime.model.source import RedisSource, Source
from duetime.store.postgres import PostgresStore
from tests.conftest import INSTALLED
from tests.contract.hands import STRANGER, TENANT, hand, job, submit
from tests.contract.worlds import PostgresWorld, query
from tests.support.postgres import Server

HOUR = timedelta(hours=1)
# What names a tenant but holds nothing of one, or is not for a tenant's transaction at all.
NOT_FOR_TENANTS = {
    *("claims", "secrets", "data_keys", "schema_versions", "meta", "notifying", "event_places", "clock_watch"),
    "search_index",
    "function_files",
    *("spent", "stream_queues", "archive_days", "usage", "usage_days", "erasures"),
    *("lane_changes", "lane_requests", "sessions", "login_links", "fire_rates", "token_buckets"),
}


@pytest.fixture(params=INSTALLED, ids=str)
def world(request: pytest.FixtureRequest) -> PostgresWorld:
    return PostgresWorld(request.param)


@pytest.fixture
async def store(world: PostgresWorld) -> AsyncIterator[PostgresStore]:
    await world.store.open()
    await _fill(world.store)
    yield world.store
    await world.store.close()


async def _fill(store: PostgresStore) -> None:
    """Something of one tenant in every table that a tenant may see."""
    payload_id = new_id()
    await store.payloads.put_payload(TENANT, payload_id, b"sealed")
    said = encode_options(Options(owner="u1", payload_ref=show("pay", payload_id)))
    await store.events.keep_listening(HOUR)
    await store.calendars.set_calendar(TENANT, "holidays", [date(2026, 12, 25)])
    resting = make_exclusion(calendars=["holidays"])
    await submit(
        store,
        job(Cron("0 9 * * *", exclude=resting)),
        job(Every(HOUR)),
        job(options=said, key="k"),
        job(),
        job(),
        job(),
    )
    await store.replay.delete_job(TENANT, (await submit(store, job())).job_id)
    worker = await hand(store)
    one, two, running, *_ = await worker.claim()
    await worker.succeed(one)
    await worker.fail(two)
    await store.control.cancel_run(TENANT, running.run_id)
    await store.queues.pause_queue(TENANT, "mail")
    await store.access.create_key(NewKey(new_id(), TENANT, Role.ADMIN, "k", uuid.uuid4().bytes, "…"))
    (recurring, *_) = [item.id for item in (await store.lists.list_jobs(TENANT, JobFilter(recurring=True))).items]
    await submit(store, job(make_after(recurring, "any")))
    parent = NewNode("a", job())
    graph = NewGraph(new_id(), (parent, NewNode("b", job(), (0,))))
    await store.graphs.submit_graph(TENANT, graph)
    await store.graphs.cancel_graph(TENANT, graph.id)
    await store.audit.record([AuditEntry(new_id(), TENANT, None, "x", "y", "z")])
    await store.notifications.put_subscription(TENANT, Subscription("ops", Webhook("https://example.com/"), ("*",)))
    place = RedisSource(address="r.example.com:1", stream="s")
    await store.sources.put_source(TENANT, Source("orders", place, {"task": "t"}), paused=False)
    await store.issuers.put_issuer(TENANT, Issuer("app", "https://app.example.com", "duetime:default"))
    await store.search.index_labels(uuid.UUID(int=0), uuid.UUID(int=(1 << 128) - 1), 100)
    plan = BulkPlan(JobsWork("pause", JobFilter()), {})
    await store.bulk.put_bulk(NewBulk(new_id(), TENANT, plan, None, "k"))
    await store.notifications.put_alert(TENANT, AlertRule("many", Figure.BACKLOG, 1))
    await store.checkins.put_checkin(TENANT, CheckIn("backup", every=60), b"hash", paused=False)
    tally = Tally(TENANT, "t", tried=30, failed=30)
    await store.breakers.report_attempts([tally], BreakerPolicy())
    async with store.database.connection() as connection:
        for statement in _RARE:
            await connection.execute(statement.format(tenant=TENANT))


# What is there only for a moment, or takes a long way to come about.
_RARE = (
    "insert into duetime.limits (tenant_id, kind, name, used_at) values ({tenant}, 3, 'k', now())",
    "insert into duetime.holds select id, gen_random_uuid(), 1, now() from duetime.limits"
    " where tenant_id = {tenant} limit 1",
    "insert into duetime.starts select id, now(), 1 from duetime.limits where tenant_id = {tenant} limit 1",
    "insert into duetime.attempts values ({tenant}, 't2', now(), 1, 0, 0)",
    "insert into duetime.handovers values (gen_random_uuid(), {tenant}, 1, now(), now())",
    "insert into duetime.live_logs values (gen_random_uuid(), {tenant}, 1, '', now())",
    "insert into duetime.archive_parts (tenant_id, day, name, rows, read, bytes, checksum, first_run, last_run,"
    " pass_no, expires, keys) values ({tenant}, 1, 'a', 1, 1, 1, '', gen_random_uuid(), gen_random_uuid(), 1, 1, '')",
    "insert into duetime.suspects values ({tenant}, 'greet', gen_random_uuid(), 1, now(), now())",
    "insert into duetime.trends values ({tenant}, 60, now(), '')",
    "insert into duetime.past_workers values (gen_random_uuid(), {tenant}, 'w', '{{}}', '{{}}', 1, now(), now(), '',"
    " now(), true, 0, '{{}}')",
    "insert into duetime.tasks (tenant_id, name, told_at, seen_at) values ({tenant}, 'greet', now(), now())",
    "insert into duetime.tenant_secrets values ({tenant}, 'token', '', '{{}}', '{{}}', now(), now())",
    "insert into duetime.signing_secrets values ({tenant}, gen_random_uuid(), '', now())",
)


def _tables(world: PostgresWorld) -> list[str]:
    rows = query(
        world.dsn,
        "select relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where nspname = 'duetime' and relkind in ('r', 'p') and not relispartition order by 1",
    )
    return [row[0] for row in rows]


async def test_a_query_that_forgets_the_tenant_returns_nothing(world: PostgresWorld, store: PostgresStore) -> None:
    for table in _tables(world):
        if table in NOT_FOR_TENANTS:
            continue
        statement = f"select count(*) from duetime.{table}"
        filled = query(world.dsn, statement)[0][0]
        assert filled > 0, f"the test has nothing in {table}"
        if table == "listening":
            continue  # one row, of no tenant
        async with store.database.acting_for(STRANGER, snapshot=True) as connection:
            seen = await connection.fetchval(statement)
            assert seen == (1 if table == "workers" else 0), table
        async with store.database.acting_for(TENANT, snapshot=True) as connection:
            assert await connection.fetchval(statement) > 0, table
        async with store.database.transaction() as connection:
            await connection.execute("set local role duetime_tenant")
            assert await connection.fetchval(statement) == 0, table


async def test_every_table_is_covered(world: PostgresWorld, store: PostgresStore) -> None:
    """So that a table which is added later is not forgotten: with a policy, or out of reach."""
    rows = query(
        world.dsn,
        "select c.relname, c.relrowsecurity, has_table_privilege('duetime_tenant', c.oid, 'select')"
        " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where nspname = 'duetime' and relkind in ('r', 'p')",
    )
    open_to_all = {name for name, secured, granted in rows if granted and not secured}
    assert open_to_all == {"listening"}
    for name, _, granted in rows:
        assert granted != (name in NOT_FOR_TENANTS or name.startswith(("history_", "spent_"))), name


async def test_what_runs_with_the_rights_of_the_owner_is_for_those_who_are_named(
    store: PostgresStore, world: PostgresWorld
) -> None:
    open_to_all = """select p.proname from pg_proc p where p.pronamespace = 'duetime'::regnamespace and p.prosecdef
        and has_function_privilege('public', p.oid, 'execute')"""
    assert query(world.dsn, open_to_all) == []


async def test_a_statement_cannot_write_into_another_tenant(store: PostgresStore) -> None:
    with pytest.raises(StoreError):
        async with store.database.acting_for(STRANGER) as connection:
            await connection.execute("insert into duetime.queues (tenant_id, name) values (1, 'x')")
    async with store.database.acting_for(STRANGER) as connection:
        assert await connection.execute("update duetime.jobs set state = 3") == "UPDATE 0"
        assert await connection.execute("delete from duetime.runs") == "DELETE 0"


async def test_nothing_of_the_role_is_left_on_the_connection(world: PostgresWorld) -> None:
    store = PostgresStore(world.dsn, pool_size=1)
    await store.open()
    await store.lists.list_jobs(STRANGER, JobFilter())
    with pytest.raises(ZeroDivisionError):
        async with store.database.acting_for(STRANGER):
            raise ZeroDivisionError
    async with store.database.connection() as connection:
        assert await connection.fetchval("select current_user") != "duetime_tenant"
        assert not connection.is_in_transaction()
    await store.close()


@pytest.fixture
def modest(each_postgres: Server) -> Iterator[tuple[str, str]]:
    """A database whose owner has no special privileges, and the owner's name."""
    name, role = f"modest_{uuid.uuid4().hex}", f"app_{uuid.uuid4().hex}"
    dsn = each_postgres.create_database(name)
    with psycopg.connect(each_postgres.dsn(), autocommit=True) as connection:
        connection.execute(f"create role {role} login")
        connection.execute(f"alter database {name} owner to {role}")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("do $$ begin create role duetime_tenant nologin; exception when others then null; end $$")
    parts = urlsplit(dsn)
    yield parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}").geturl(), role
    each_postgres.drop_database(name)
    with psycopg.connect(each_postgres.dsn(), autocommit=True) as connection:
        connection.execute(f"drop role {role}")


async def test_an_owner_without_rights_is_told_what_to_ask_for(modest: tuple[str, str], each_postgres: Server) -> None:
    dsn, role = modest
    store = PostgresStore(dsn)
    await store.open()
    with pytest.raises(StoreError, match="may not act as duetime_tenant") as refused:
        await store.migrate()
    assert refused.value.remedy == f"as an administrator: grant duetime_tenant to {role}"
    with psycopg.connect(each_postgres.dsn(), autocommit=True) as connection:
        connection.execute(f"grant duetime_tenant to {role}")
    assert await store.migrate()
    submitted = await submit(store, job())
    worker = await hand(store)
    await worker.succeed(await worker.claim_one())
    (item,) = (await store.lists.list_jobs(TENANT, JobFilter())).items
    assert (item.id, item.status) == (submitted.job_id, JobStatus.SUCCEEDED)
    await store.replay.delete_job(TENANT, submitted.job_id)
    await store.close()
