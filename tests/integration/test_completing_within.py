"""Runs that complete inside the transaction of their effect; on PostgreSQL, if nothing else is said."""

import asyncio
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from duetime import App, Conflict, Context, LeaseLost, RetryPolicy, RunState
from duetime.model.job import DEFAULT_TENANT
from duetime.model.notification import QUEUE, Subscription, Topic, Webhook
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import Counts
from tests.support.caller_connections import DRIVERS, blocking_sqlite, dsn, execute, with_asyncpg
from tests.support.waiting import eventually
from tests.support.working import ended, quick_settings, working

HOOK = Subscription("ops", Webhook("https://example.com/hook"), (Topic.RUN_SUCCEEDED,))


@pytest.fixture
def app(postgres_app: App) -> App:
    return postgres_app


async def counts(app: App) -> Counts:
    return await (await app.store()).reads.counts()


@DRIVERS
async def test_an_effect_and_its_completion_are_one_commit(
    app: App, connect: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "duetime")

    @app.task(retries=0)
    async def pay(ctx: Context) -> None:
        async with connect(app) as connection:
            await execute(connection, "create table paid (token text)")
            ctx.logger.info("paying")
            await ctx.complete(connection, result={"paid": True})

    async with working(app):
        receipt = await pay.submit()
        run = await ended(app, receipt)
    assert (run.state, run.value, run.attempts[0].log_lines) == (RunState.SUCCEEDED, {"paid": True}, ["paying"])
    assert await counts(app) == Counts(0, 0, 1, 0)
    assert not [record for record in caplog.records if "refused" in record.getMessage()]


async def test_a_second_completion_is_told_of_the_first(app: App) -> None:
    told: list[LeaseLost] = []

    @app.task(retries=0)
    async def pay(ctx: Context) -> None:
        async with with_asyncpg(app) as connection:
            await ctx.complete(connection, result=1)
            try:
                await ctx.complete(connection, result=2)
            except LeaseLost as error:
                told.append(error)

    async with working(app):
        run = await ended(app, await pay.submit())
    assert (run.state, run.value) == (RunState.SUCCEEDED, 1)
    assert "has completed its run already" in str(told[0])


async def test_an_error_after_the_commit_is_logged(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(retries=0)
    async def pay(ctx: Context) -> None:
        async with with_asyncpg(app) as connection:
            await ctx.complete(connection, result=1)
        raise ValueError("after the commit")

    async with working(app):
        run = await ended(app, await pay.submit())
        await eventually(lambda: any("the run has succeeded" in record.message for record in caplog.records))
    assert (run.state, run.value) == (RunState.SUCCEEDED, 1)
    [record] = [record for record in caplog.records if "the run has succeeded" in record.message]
    assert record.exc_info is not None and "after the commit" in str(record.exc_info[1])


@pytest.mark.parametrize("commits", [True, False])
async def test_hooks_are_called_when_the_transaction_has_ended(app: App, commits: bool) -> None:
    seen: list[Any] = []
    for add in (app.on_success, app.on_retry, app.on_failure):
        add(seen.append)

    @app.task(retries=0)
    async def pay(ctx: Context) -> None:
        connection = await asyncpg.connect(dsn(app))
        try:
            transaction = connection.transaction()
            await transaction.start()
            await ctx.complete(connection, result={"paid": True})
            await (transaction.commit() if commits else transaction.rollback())
        finally:
            await connection.close()

    async with working(app):
        run = await ended(app, await pay.submit())
    assert run.state is (RunState.SUCCEEDED if commits else RunState.FAILED)
    [attempt] = seen
    if commits:
        assert attempt.result == {"paid": True}
    else:
        assert "a transaction that did not commit" in attempt.message


async def test_hooks_are_called_when_a_transaction_of_the_file_has_ended(tmp_path: Path) -> None:
    seen: list[Any] = []
    async with App(settings=quick_settings(f"sqlite:///{tmp_path / 'duetime.db'}")) as app:
        app.on_success(seen.append)

        @app.task(retries=0)
        async def pay(ctx: Context) -> None:
            with blocking_sqlite(dsn(app)) as connection:
                connection.execute("create table paid (token text)")
                await ctx.complete(connection, result={"paid": True})

        async with working(app):
            assert (await ended(app, await pay.submit())).state is RunState.SUCCEEDED
    assert [attempt.result for attempt in seen] == [{"paid": True}]


async def test_who_wants_to_be_told_of_successes_is_told_of_it(app: App) -> None:
    store = await app.store()
    await store.notifications.put_subscription(DEFAULT_TENANT, HOOK)

    @app.task
    async def pay(ctx: Context) -> None:
        async with with_asyncpg(app) as connection:
            await connection.execute("select pg_sleep(0.01)")
            await ctx.complete(connection)

    async def told() -> int:
        return (await store.queues.queue(DEFAULT_TENANT, QUEUE)).depth.medium

    async with working(app):
        await ended(app, await pay.submit())
        assert await eventually(told) == 1


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
                # Another worker has been given the run meanwhile.
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


async def test_transactions_that_are_left_open_hold_up_no_other_completion(app: App) -> None:
    """Their runs are locked by transactions of the tasks: what the worker tells of them waits, and waits alone. There
    are more of them than the worker has connections."""
    left_open: list[Any] = []

    @app.task(retry=RetryPolicy(retries=1, base=0.01))
    async def forgetful(ctx: Context) -> int:
        if ctx.attempt == 1:
            connection = await asyncpg.connect(dsn(app))
            await connection.execute("begin")
            await ctx.complete(connection)
            left_open.append(connection)
        return ctx.attempt

    @app.task
    async def other() -> str:
        return "done"

    store = await app.store()
    assert isinstance(store, PostgresStore)
    count = store.database.size + 2
    async with working(app):
        receipts = await app.submit_many([forgetful.bind()] * count)
        await eventually(lambda: len(left_open) == count)
        async with asyncio.timeout(5):
            for _ in range(3):
                assert (await ended(app, await other.submit())).value == "done"
        assert {(await app.runs(receipt))[0].state for receipt in receipts} == {RunState.RUNNING}
        for connection in left_open:
            await connection.close()
        runs = [await ended(app, receipt) for receipt in receipts]
    assert {(run.state, run.attempt) for run in runs} == {(RunState.SUCCEEDED, 2)}
    assert all("did not commit" in run.attempts[0].error for run in runs)


async def test_a_checkpoint_does_not_wait_for_the_transaction_that_completes_its_run(app: App) -> None:
    @app.task(retries=0)
    async def pay(ctx: Context) -> str:
        connection = await asyncpg.connect(dsn(app))
        transaction = connection.transaction()
        await transaction.start()
        await ctx.complete(connection)
        with pytest.raises(Conflict, match="completing the run in a transaction"):
            await ctx.checkpoint("too late")
        await transaction.rollback()
        await connection.close()
        await ctx.checkpoint("in time")
        raise ValueError("it did not commit")

    async with working(app):
        run = await ended(app, await pay.submit())
    assert run.state is RunState.FAILED
    assert (run.error or "").startswith("ValueError: it did not commit")


async def test_a_worker_that_stops_hands_back_what_no_transaction_holds(app: App) -> None:
    left_open: list[Any] = []
    begun: list[str] = []

    @app.task
    async def lasting(ctx: Context, complete: bool) -> None:
        if complete:
            connection = await asyncpg.connect(dsn(app))
            await connection.execute("begin")
            await ctx.complete(connection)
            left_open.append(connection)
        begun.append(ctx.run_id)
        await asyncio.sleep(60)

    async with working(app, grace=timedelta(0)):
        receipts = await app.submit_many([lasting.bind(complete=True), lasting.bind(complete=False)])
        await eventually(lambda: len(begun) == 2)
    held, handed_back = [(await app.runs(receipt))[0] for receipt in receipts]
    assert (held.state, handed_back.state) == (RunState.RUNNING, RunState.PENDING)
    assert await (await app.store()).leases.workers() == [], "it said goodbye"
    await left_open[0].close()


async def test_a_transaction_that_lasts_holds_up_no_other_run_and_no_key(app: App) -> None:
    """Runs with its key, with others and without any start and end meanwhile; the next one follows its commit."""
    inside, commit = asyncio.Event(), asyncio.Event()

    @app.task(concurrency_key="account", concurrency=2)
    async def pay(ctx: Context, lasting: bool = False) -> str:
        if lasting:
            async with with_asyncpg(app) as connection:
                await ctx.complete(connection)
                ctx.logger.info("paid")
                inside.set()
                await commit.wait()
        return "paid"

    @app.task
    async def other(ctx: Context) -> str:
        ctx.progress(0.5, "half way")
        return "done"

    @app.task
    async def slow(ctx: Context) -> None:
        ctx.progress(0.5, "half way")
        await commit.wait()

    async with working(app):
        lasting = await pay.submit(lasting=True)
        await asyncio.wait_for(inside.wait(), 20)
        seen = await slow.submit()
        for _ in range(3):
            assert (await ended(app, await other.submit())).value == "done"
            assert (await ended(app, await pay.submit())).value == "paid"

        async def is_told() -> bool:
            return (await app.runs(seen))[0].message == "half way"

        await eventually(is_told, what="progress is not behind that transaction either")
        assert (await app.runs(lasting))[0].state is RunState.RUNNING
        commit.set()
        assert (await ended(app, lasting)).state is RunState.SUCCEEDED


async def test_the_next_run_of_its_key_follows_the_commit(app: App) -> None:
    inside, commit = asyncio.Event(), asyncio.Event()

    @app.task(concurrency_key="account")
    async def pay(ctx: Context, lasting: bool = False) -> str:
        if lasting:
            async with with_asyncpg(app) as connection:
                await ctx.complete(connection)
                inside.set()
                await commit.wait()
        return "paid"

    async with working(app):
        await pay.submit(lasting=True)
        await asyncio.wait_for(inside.wait(), 20)
        following = await pay.submit()
        assert (await app.runs(following))[0].state is RunState.PENDING
        commit.set()
        assert (await ended(app, following)).value == "paid"


async def _raise_fence(app: App) -> None:
    connection = await asyncpg.connect(dsn(app))
    await connection.execute("update duetime.runs set fence = fence + 1")
    await connection.close()
