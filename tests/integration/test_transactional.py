"""Jobs that commit or roll back with the caller's own data (PostgreSQL)."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from duetime import (
    App,
    InvalidInput,
    KeyInFlight,
    KeyReused,
    NotFound,
    Receipt,
    RetryPolicy,
    RunState,
    Task,
)
from duetime.store.protocol.store import Counts
from tests.support.caller_connections import DRIVERS, dsn, with_asyncpg, with_pool, with_psycopg
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


async def counts(app: App) -> Counts:
    return await (await app.store()).reads.counts()


@DRIVERS
async def test_a_job_commits_with_the_callers_data(app: App, send: Task[..., Any], connect: Any) -> None:
    async with connect(app) as connection:
        await connection.execute("create table orders (id integer)")
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


def test_a_blocking_connection(migrated: str) -> None:
    app = App(database_url=migrated)

    @app.task(name="send")
    async def send(to: str) -> None: ...

    with psycopg.connect(migrated) as connection:
        kept = app.sync.submit(send.bind(to="ops"), run_in="1h", connection=connection)
    with psycopg.connect(migrated) as connection:
        lost = app.sync.submit(send.bind(to="ops"), run_at=datetime(2100, 1, 1, tzinfo=UTC), connection=connection)
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
        await admin.execute(f"grant execute on function duetime.submit_job to {role}")
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
    with pytest.raises(InvalidInput, match=r"^connection: builtins.str is not a supported connection"):
        await send.options(connection="postgresql://…").submit(to="ops")
    on_file = App(data_dir=tmp_path)
    on_file.task(name="send")(send.function)
    with pytest.raises(InvalidInput, match=r"^connection: .* needs PostgreSQL"):
        await on_file.submit("send", {"to": "ops"}, connection=object())
    assert await counts(app) == NOTHING
