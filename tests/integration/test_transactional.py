"""Jobs that commit or roll back with the caller's own data, and runs that complete with their effect (PostgreSQL)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row, scalar_row

from duetime import (
    App,
    Context,
    InvalidInput,
    KeyInFlight,
    KeyReused,
    LeaseLost,
    NotFound,
    Receipt,
    RetryPolicy,
    RunState,
    Task,
)
from duetime.store.protocol import Counts
from tests.support.working import ended, working

NOTHING = Counts(0, 0, 0, 0)


class RolledBack(Exception):
    pass


@pytest.fixture
def app(postgres_app: App) -> App:
    return postgres_app


@pytest.fixture
def send(app: App) -> Task[..., Any]:
    @app.task(name="send")
    async def send(to: str) -> str:
        return f"sent to {to}"

    return send


def dsn(app: App) -> str:
    assert app.settings.database_url is not None
    return app.settings.database_url


async def counts(app: App) -> Counts:
    return await (await app.store()).counts()


@asynccontextmanager
async def with_asyncpg(app: App) -> AsyncIterator[Any]:
    """A connection with an open transaction; commits, or rolls back if the block raises."""
    connection = await asyncpg.connect(dsn(app))
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def with_pool(app: App) -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(dsn(app), min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


@asynccontextmanager
async def with_psycopg(app: App) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(dsn(app)) as connection:
        yield connection


def rows_as(factory: Any) -> Any:
    @asynccontextmanager
    async def connect(app: App) -> AsyncIterator[Any]:
        async with await psycopg.AsyncConnection.connect(dsn(app), row_factory=factory) as connection:
            yield connection

    return connect


DRIVERS = pytest.mark.parametrize(
    "connect",
    [
        with_asyncpg,
        with_pool,
        with_psycopg,
        rows_as(dict_row),
        rows_as(namedtuple_row),
        rows_as(scalar_row),
    ],
    ids=["asyncpg", "asyncpg pool", "psycopg", "psycopg dicts", "psycopg named tuples", "psycopg scalars"],
)


@DRIVERS
async def test_a_job_commits_with_the_callers_data(app: App, send: Task[..., Any], connect: Any) -> None:
    async with connect(app) as connection:
        await connection.execute("create table orders (id integer)")
        receipt = await send.submit(to="ops", connection=connection)
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
            receipt = await send.submit(to="ops", connection=connection, idempotency_key="order-7")
            raise RolledBack
    with pytest.raises(NotFound):
        await app.job(receipt)
    assert await counts(app) == NOTHING
    assert (await send.submit(to="else", idempotency_key="order-7")).created, "the key was not kept either"


def test_a_blocking_connection(migrated: str) -> None:
    app = App(database_url=migrated)

    @app.task(name="send")
    async def send(to: str) -> None: ...

    with psycopg.connect(migrated) as connection:
        kept = app.sync.submit(send, to="ops", run_in="1h", connection=connection)
    with psycopg.connect(migrated) as connection:
        lost = app.sync.submit(send, to="ops", run_at=datetime(2100, 1, 1, tzinfo=UTC), connection=connection)
        connection.rollback()
    assert app.sync.job(kept).task == "send"
    with pytest.raises(NotFound):
        app.sync.job(lost)
    app.sync.close()


@pytest.mark.parametrize("connect", [with_asyncpg, with_pool, with_psycopg])
async def test_an_async_connection_is_refused_by_the_blocking_side(
    app: App, send: Task[..., Any], connect: Any
) -> None:
    async with connect(app) as connection:
        with pytest.raises(InvalidInput, match=r"^connection: this connection is async \(use `await app.submit"):
            app.sync.submit(send, to="ops", connection=connection)
        assert await send.submit(to="ops", connection=connection), "and can still be used"


async def test_a_blocking_connection_works_from_async_code_too(app: App, send: Task[..., Any]) -> None:
    with psycopg.connect(dsn(app)) as connection:
        receipt = await send.submit(to="ops", connection=connection)
    async with working(app):
        assert (await ended(app, receipt)).value == "sent to ops"


async def test_options_hold_inside_a_transaction(app: App) -> None:
    @app.task(name="sure", retry=RetryPolicy(retries=7), queue="mail", timeout="5m")
    async def sure() -> None: ...

    async with with_asyncpg(app) as connection:
        receipt = await sure.submit(connection=connection, run_in="1h", priority="HIGH", tags=["a"], job_name="Sure")
    job = await app.job(receipt)
    assert (job.queue, job.tier.name, job.timeout_ms) == ("mail", "HIGH", 300_000)
    assert (job.options.retry.retries, job.options.tags, job.options.name) == (7, ("a",), "Sure")
    assert (job.next_run - job.created_at).total_seconds() == pytest.approx(3600, abs=60)


async def test_an_idempotency_key_in_a_transaction(app: App, send: Task[..., Any]) -> None:
    async def submit(connection: Any, to: str = "ops") -> Receipt:
        return await send.submit(to=to, connection=connection, idempotency_key="order-7")

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
        receipt = await send.submit(to="ops", connection=guest, idempotency_key="k")
    finally:
        await guest.close()
    async with working(app):
        assert (await ended(app, receipt)).value == "sent to ops"
    await admin.execute(f"revoke usage on schema duetime from {role}; drop role {role}")
    await admin.close()


async def test_what_cannot_be_submitted_inside_a_transaction(app: App, send: Task[..., Any], tmp_path: Path) -> None:
    async with with_asyncpg(app) as connection:
        with pytest.raises(InvalidInput, match=r"^connection: only one-off jobs without key="):
            await send.submit(to="ops", connection=connection, key="daily")
        with pytest.raises(InvalidInput, match=r"^connection: cannot be given here"):
            await send.schedule(to="ops", connection=connection, every="1h")
        with pytest.raises(InvalidInput, match=r"^args: "):
            await send.submit(connection=connection)
    with pytest.raises(InvalidInput, match=r"^connection: builtins.str is not a connection"):
        await send.submit(to="ops", connection="postgresql://…")
    on_file = App(data_dir=tmp_path)
    on_file.task(name="send")(send.function)
    with pytest.raises(InvalidInput, match=r"^connection: .* needs PostgreSQL"):
        await on_file.submit("send", to="ops", connection=object())
    assert await counts(app) == NOTHING


@DRIVERS
async def test_an_effect_and_its_completion_are_one_commit(app: App, connect: Any) -> None:
    @app.task(retries=0)
    async def pay(ctx: Context) -> None:
        async with connect(app) as connection:
            await connection.execute("create table paid (token text)")
            ctx.logger.info("paying")
            await ctx.complete(connection, result={"paid": True})

    async with working(app):
        receipt = await pay.submit()
        run = await ended(app, receipt)
    assert (run.state, run.value, run.attempts[0].log_lines) == (RunState.SUCCEEDED, {"paid": True}, ["paying"])
    assert await counts(app) == Counts(0, 0, 1, 0)


async def test_a_completion_that_is_rolled_back_is_tried_again(app: App) -> None:
    @app.task(retry=RetryPolicy(retries=3, base=0.01))
    async def pay(ctx: Context) -> None:
        connection = await asyncpg.connect(dsn(app))
        try:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute("create table if not exists paid (token text)")
            await connection.execute("insert into paid values ($1)", ctx.token)
            await ctx.complete(connection)
            if ctx.attempt == 1:
                await transaction.rollback()  # and the task does not even notice
            elif ctx.attempt == 2:
                raise ConnectionError("before the commit")
            else:
                await transaction.commit()
        finally:
            await connection.close()

    async with working(app):
        receipt = await pay.submit()
        run = await ended(app, receipt)
    connection = await asyncpg.connect(dsn(app))
    paid = [row[0] for row in await connection.fetch("select token from paid")]
    await connection.close()
    assert (run.state, run.attempt) == (RunState.SUCCEEDED, 3)
    assert paid == [receipt.run_id], "the effect happened once"
    assert "did not commit" in run.attempts[0].error
    assert run.attempts[1].error.startswith("ConnectionError: before the commit")


async def test_a_run_that_was_lost_cannot_complete_itself(app: App) -> None:
    refused = asyncio.Event()

    @app.task(retries=0)
    async def pay(ctx: Context) -> None:
        if refused.is_set():
            return
        try:
            async with with_asyncpg(app) as connection:
                await connection.execute("create table paid (token text)")
                # Somebody else has been given the run meanwhile.
                await _raise_fence(app)
                await ctx.complete(connection)
        except LeaseLost:
            refused.set()
            raise

    async with working(app):
        receipt = await pay.submit()
        await asyncio.wait_for(refused.wait(), 20)
    connection = await asyncpg.connect(dsn(app))
    assert await connection.fetchval("select to_regclass('public.paid')") is None, "its effect was rolled back"
    await connection.close()
    assert (await app.runs(receipt))[0].state is RunState.RUNNING, "its new owner decides"


async def _raise_fence(app: App) -> None:
    connection = await asyncpg.connect(dsn(app))
    await connection.execute("update duetime.runs set fence = fence + 1")
    await connection.close()
