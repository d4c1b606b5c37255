"""Jobs that commit or roll back with the caller's own data (PostgreSQL)."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine

from duetime import (
    App,
    Context,
    InvalidInput,
    KeyInFlight,
    KeyReused,
    NotFound,
    QuotaExceeded,
    Receipt,
    RetryPolicy,
    RunState,
    SchemaMismatch,
    Task,
)
from duetime.errors import TenantSuspended
from duetime.model.job import DEFAULT_TENANT
from duetime.model.tenant import TenantChange, TenantState
from duetime.store.protocol.store import Counts
from tests.support.caller_connections import (
    BLOCKING,
    BLOCKING_BY_STORE,
    DRIVERS,
    OF_FILES,
    dsn,
    execute,
    with_asyncpg,
    with_pool,
    with_psycopg,
)
from tests.support.databases import sqlite_file
from tests.support.working import ended, quick_settings, working

NOTHING = Counts(0, 0, 0, 0)


class RolledBack(Exception):
    pass


@pytest.fixture
def app(postgres_app: App) -> App:
    return postgres_app


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return f"sqlite:///{sqlite_file(tmp_path / 'duetime.db')}"


@pytest.fixture
def send(app: App) -> Task[..., Any]:
    @app.task(name="send")
    async def send(to: str) -> str:
        return f"sent to {to}"

    return send


async def counts(app: App) -> Counts:
    return await (await app.store()).reads.counts()


@DRIVERS
async def test_a_job_commits_with_the_callers_data(app: App, send: Task[..., Any], connect: Any) -> None:
    async with connect(app) as connection:
        await execute(connection, "create table orders (id integer)")
        receipt = await send.options(connection=connection).submit(to="ops")
        with pytest.raises(NotFound):
            await app.job(receipt)
    async with working(app):
        run = await ended(app, receipt)
    assert (run.state, run.value) == (RunState.SUCCEEDED, "sent to ops")
    assert receipt.next_run is None


@DRIVERS
async def test_a_job_rolls_back_with_the_callers_data(app: App, send: Task[..., Any], connect: Any) -> None:
    with pytest.raises(RolledBack):
        async with connect(app) as connection:
            receipt = await send.options(connection=connection, idempotency_key="order-7").submit(to="ops")
            raise RolledBack
    with pytest.raises(NotFound):
        await app.job(receipt)
    assert await counts(app) == NOTHING
    assert (await send.options(idempotency_key="order-7").submit(to="else")).created, "the key was not kept either"


@pytest.mark.parametrize("state", [TenantState.SUSPENDED, TenantState.DELETING])
@pytest.mark.parametrize(
    ("database_url", "kind"), [("postgres", "psycopg"), ("sqlite", "sqlite3")], indirect=["database_url"]
)
def test_a_tenant_that_is_not_active_submits_nothing(database_url: str, kind: str, state: TenantState) -> None:
    app = App(settings=quick_settings(database_url))

    @app.task(name="send")
    async def send(to: str) -> str:
        return to

    async def change() -> None:
        operator = App(settings=quick_settings(database_url))
        await (await operator.store()).tenants.update_tenant(DEFAULT_TENANT, TenantChange(state=state))
        await operator.close()

    asyncio.run(change())
    everything: list[dict[str, Any]] = [{}, {"run_in": "1h"}, {"key": "one"}]
    for options in everything:
        with pytest.raises(TenantSuspended, match="nothing can be submitted"):
            app.sync.submit(send.bind(to="ops"), **options)
    with BLOCKING[kind](database_url) as connection:
        for options in everything[:2]:
            with pytest.raises(TenantSuspended, match="nothing can be submitted"):
                app.sync.submit(send.bind(to="ops"), connection=connection, **options)
            connection.rollback()
    app.stop()


@pytest.mark.parametrize(
    ("database_url", "kind"),
    [(store, kind) for store, kinds in BLOCKING_BY_STORE.items() for kind in kinds],
    indirect=["database_url"],
)
def test_a_blocking_connection(database_url: str, kind: str) -> None:
    connect = BLOCKING[kind]
    app = App(settings=quick_settings(database_url))

    @app.task(name="send")
    async def send(to: str) -> str:
        return to

    with connect(database_url) as connection:
        later = app.sync.submit(send.bind(to="ops"), run_in="1h", connection=connection)
        now = app.sync.submit(send.bind(to="ops"), idempotency_key="order-7", connection=connection)
    with pytest.raises(RolledBack), connect(database_url) as connection:
        lost = app.sync.submit(send.bind(to="ops"), run_at=datetime(2100, 1, 1, tzinfo=UTC), connection=connection)
        again = app.sync.submit(send.bind(to="ops"), idempotency_key="order-7", connection=connection)
        with pytest.raises(KeyReused, match=r"^idempotency_key: "):
            app.sync.submit(send.bind(to="else"), idempotency_key="order-7", connection=connection)
        raise RolledBack
    assert again.job_id == now.job_id
    assert app.sync.job(later).task == "send"
    with pytest.raises(NotFound):
        app.sync.job(lost)
    app.start()
    assert app.sync.wait(now, "20s").value == "ops"
    app.stop()
    app.sync.close()


@pytest.mark.parametrize("connect", [with_asyncpg, with_pool, with_psycopg])
async def test_an_async_connection_is_refused_by_the_blocking_side(
    app: App, send: Task[..., Any], connect: Any
) -> None:
    async with connect(app) as connection:
        with pytest.raises(InvalidInput, match=r"^connection: this connection is async \(use `await app.submit"):
            app.sync.submit(send.bind(to="ops"), connection=connection)
        assert await send.options(connection=connection).submit(to="ops"), "and can still be used"


async def test_a_blocking_connection_works_from_async_code_too(app: App, send: Task[..., Any]) -> None:
    with psycopg.connect(dsn(app)) as connection:
        receipt = await send.options(connection=connection).submit(to="ops")
    async with working(app):
        assert (await ended(app, receipt)).value == "sent to ops"


async def test_options_hold_inside_a_transaction(app: App) -> None:
    @app.task(name="sure", retry=RetryPolicy(retries=7), queue="mail", timeout="5m")
    async def sure() -> None: ...

    async with with_asyncpg(app) as connection:
        receipt = await sure.options(
            connection=connection, run_in="1h", priority="HIGH", tags=["a"], name="Sure"
        ).submit()
    job = await app.job(receipt)
    assert (job.queue, job.tier.name, job.timeout_ms) == ("mail", "HIGH", 300_000)
    assert (job.options.retry.retries, job.options.tags, job.options.name) == (7, ("a",), "Sure")
    assert (job.next_run - job.created_at).total_seconds() == pytest.approx(3600, abs=60)


async def test_an_idempotency_key_in_a_transaction(app: App, send: Task[..., Any]) -> None:
    async def submit(connection: Any, to: str = "ops") -> Receipt:
        return await send.options(connection=connection, idempotency_key="order-7").submit(to=to)

    async with with_asyncpg(app) as first, with_psycopg(app) as second:
        receipt = await submit(first)
        assert (await submit(first)).job_id == receipt.job_id
        with pytest.raises(KeyInFlight, match=r"^idempotency_key: "):
            await submit(second)
        await second.rollback()
        with pytest.raises(KeyInFlight):
            await submit(None)
    async with with_psycopg(app) as later:
        assert (await submit(later)).job_id == receipt.job_id
        with pytest.raises(KeyReused, match=r"^idempotency_key: "):
            await submit(later, to="somebody else")
        await later.rollback()
    assert (await submit(None)).job_id == receipt.job_id
    assert (await counts(app)).jobs == 1


async def test_a_role_without_rights_on_the_tables_can_submit(app: App, send: Task[..., Any]) -> None:
    role = f"guest_{dsn(app)[-8:]}"
    admin = await asyncpg.connect(dsn(app))
    await admin.execute(f"create role {role} login; grant usage on schema duetime to {role}")
    guest = await asyncpg.connect(dsn(app), user=role)
    try:
        for table in ("jobs", "runs", "keys", "history", "tenants"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await guest.fetch(f"select * from duetime.{table}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await send.options(connection=guest).submit(to="ops")
        await admin.execute(f"grant execute on function duetime.submit_job, duetime.tenant_defaults to {role}")
        receipt = await send.options(connection=guest, idempotency_key="k").submit(to="ops")
    finally:
        await guest.close()
    async with working(app):
        assert (await ended(app, receipt)).value == "sent to ops"
    await admin.execute(f"drop owned by {role}; drop role {role}")
    await admin.close()


async def test_what_cannot_be_submitted_inside_a_transaction(app: App, send: Task[..., Any], tmp_path: Path) -> None:
    async with with_asyncpg(app) as connection:
        with pytest.raises(InvalidInput, match=r"^connection: only one-off jobs without key="):
            await send.options(connection=connection, key="daily").submit(to="ops")
        with pytest.raises(InvalidInput, match=r"^connection: `connection` is not an option here"):
            await send.bind(to="ops").schedule(connection=connection, every="1h")
        with pytest.raises(InvalidInput, match=r"^args: "):
            await send.options(connection=connection).submit()
    pool = asyncpg.create_pool(dsn(app), min_size=0)
    for wrong in ("postgresql://…", pool, create_engine("sqlite://"), object(), psycopg):
        with pytest.raises(InvalidInput, match=r"^connection: .* is not a supported connection .*asyncpg.*Django"):
            await send.options(connection=wrong).submit(to="ops")
        with pytest.raises(InvalidInput, match="is not a supported connection"):
            await asyncio.to_thread(app.sync.submit, send.bind(to="ops"), connection=wrong)
    with closing(sqlite3.connect(":memory:")) as memory, pytest.raises(InvalidInput, match="in PostgreSQL"):
        await send.options(connection=memory).submit(to="ops")
    assert await counts(app) == NOTHING


async def test_a_connection_to_another_database(app: App, send: Task[..., Any], database: str, tmp_path: Path) -> None:
    other = await asyncpg.connect(database)
    with pytest.raises(InvalidInput, match=r"^connection: its database has no duetime schema.*duetime migrate"):
        await send.options(connection=other).submit(to="ops")
    await other.close()
    on_file = App(data_dir=tmp_path)
    on_file.task(name="send")(send.function)
    async with with_asyncpg(app) as connection:
        with pytest.raises(InvalidInput, match=r"^connection: this is a connection to PostgreSQL, .* in SQLite"):
            await on_file.submit("send", {"to": "ops"}, connection=connection)
    another_file = pytest.raises(InvalidInput, match=r"^connection: .*mine\.db, and the jobs are stored in .*same file")
    with closing(sqlite3.connect(tmp_path / "mine.db")) as mine, another_file:
        await on_file.submit("send", {"to": "ops"}, connection=mine)
    file = on_file.settings.sqlite_file
    assert file is not None
    with closing(sqlite3.connect(file)) as empty, pytest.raises(SchemaMismatch, match="duetime migrate"):
        await on_file.submit("send", {"to": "ops"}, connection=empty)
    server = App(url="http://127.0.0.1:1", key="x")
    server.task(name="send")(send.function)
    with pytest.raises(InvalidInput, match=r"^connection: this app uses the server http://127\.0\.0\.1:1, not a"):
        await server.submit("send", {"to": "ops"}, connection=mine)


@pytest.mark.parametrize("connect", OF_FILES.values(), ids=list(OF_FILES))
async def test_async_connections_to_a_file(file_url: str, tmp_path: Path, connect: Any) -> None:
    app = App(settings=quick_settings(file_url))

    @app.task(name="pay")
    async def pay(ctx: Context, amount: int) -> None:
        async with connect(app) as connection:
            await execute(connection, "insert into paid values ('x')")
            await ctx.complete(connection, amount)
            if ctx.attempt == 1:
                raise RolledBack

    with closing(sqlite3.connect(tmp_path / "duetime.db")) as connection:
        connection.execute("create table paid (token text)")
        async with app.running():
            async with connect(app) as mine:
                receipt = await pay.options(connection=mine, retry=RetryPolicy(base=0.01)).submit(amount=3)
                seen = connection.execute("select count(*) from runs").fetchone()
            assert seen == (0,), "not before the commit"
            with pytest.raises(RolledBack):
                async with connect(app) as mine:
                    lost = await pay.options(connection=mine).submit(amount=4)
                    raise RolledBack
            run = await ended(app, receipt)
            with pytest.raises(NotFound):
                await app.job(lost)
        assert (run.state, run.value, run.attempt) == (RunState.SUCCEEDED, 3, 2)
        assert connection.execute("select count(*) from paid").fetchone() == (1,), "the effect happened once"


def test_a_file_without_a_transaction(file_url: str, tmp_path: Path) -> None:
    """A connection that commits each statement commits the job; what is refused leaves nothing in a transaction."""
    app = App(settings=quick_settings(file_url))

    @app.task(name="send")
    async def send(to: str) -> None: ...

    with closing(sqlite3.connect(tmp_path / "duetime.db", isolation_level=None)) as connection:
        receipt = app.sync.submit(send.bind(to="ops"), run_in="1h", connection=connection)
        assert not connection.in_transaction
        assert app.sync.job(receipt).task == "send"
        connection.execute("update tenants set stored_jobs = 1")
        with pytest.raises(QuotaExceeded):
            app.sync.submit(send.bind(to="ops"), connection=connection)
        assert not connection.in_transaction
        connection.execute("update tenants set stored_jobs = null, encrypt_args = 1")
        with pytest.raises(InvalidInput, match="encrypted"):
            app.sync.submit(send.bind(to="ops"), connection=connection)
    app.sync.close()
