"""A network that freezes: connections stay open, nothing gets through, and neither side is told."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn
from uuid import UUID

import asyncpg
import pytest

from duetime.engine.intake import prepare
from duetime.engine.reaper import judge
from duetime.engine.scanner import plan_fires
from duetime.errors import StoreUnavailable
from duetime.ids import new_id
from duetime.model.attempt import AttemptState
from duetime.model.firing import Decided, DueJob
from duetime.model.job import DEFAULT_TENANT
from duetime.model.schedule import Every
from duetime.model.worker import WorkerInfo
from duetime.store.postgres import database as database_module
from duetime.store.postgres import reaping
from duetime.store.postgres.database import SQL
from duetime.worker.capacity import WorkerLimits
from duetime.worker.context import Context
from duetime.worker.store_source import StoreSource
from duetime.worker.task import define
from duetime.worker.worker import Worker
from tests.support.proxy import Proxy, proxy_to
from tests.support.stores import opened
from tests.support.waiting import eventually

LEASE = timedelta(seconds=3)
ENDS_SOON = database_module._ENDS_BY_ITSELF.replace("'30s'", "'5s'")


@pytest.fixture
async def proxy(database: str) -> AsyncIterator[Proxy]:
    async with proxy_to(database) as proxy:
        yield proxy


async def test_a_worker_that_is_cut_off_stops_its_runs_before_anyone_else_can_start_them(
    database: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It may be cut off in the middle of a heartbeat: what that holds is free when the server ends its transaction.
    monkeypatch.setattr(database_module, "_ENDS_BY_ITSELF", ENDS_SOON)
    begun, stopped = asyncio.Event(), asyncio.Event()
    sessions: list[UUID] = []

    async def hold(ctx: Context) -> None:
        if ctx.lost:
            return
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with opened(database) as direct:
        await direct.migrate()
        async with opened(proxy.dsn) as store:
            limits = WorkerLimits(lease=LEASE, heartbeat=LEASE / 10, poll=timedelta(milliseconds=50))
            worker = Worker(StoreSource(store), {"hold": define("hold", hold)}, limits)
            working = asyncio.create_task(worker.run())
            (answer,) = await direct.intake.submit(DEFAULT_TENANT, [prepare(task="hold", args={}, max_payload=1000)])
            assert answer.run_id is not None
            await asyncio.wait_for(begun.wait(), 20)
            assert worker.id is not None
            sessions.append(worker.id)
            proxy.freeze()
            await eventually(lambda: direct.reaping.reap(10, judge, LEASE))
            assert stopped.is_set(), "it stopped before it was reaped"
            proxy.thaw()

            async def over() -> bool:
                return (await direct.reads.counts()).runs == 0

            await eventually(over)
            assert worker.id not in (None, sessions[0]), "it goes on, under another id"
            run = await direct.reads.run(DEFAULT_TENANT, answer.run_id)
            assert [attempt.state for attempt in run.attempts] == [AttemptState.LOST, AttemptState.SUCCEEDED]
            worker.stop()
            await working


async def test_what_a_node_held_when_it_vanished_is_free_again(
    database: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node loses its network in the middle of a scan: the server ends its transaction by itself."""
    monkeypatch.setattr(database_module, "_ENDS_BY_ITSELF", ENDS_SOON)

    def freeze(due: Sequence[DueJob], now: datetime) -> list[Decided]:
        proxy.freeze()
        return plan_fires(due, now)

    async with opened(database) as direct:
        await direct.migrate()
        jobs = [prepare(task="tick", args={}, max_payload=10, schedule=Every(timedelta(seconds=1))) for _ in range(5)]
        await direct.intake.submit(DEFAULT_TENANT, jobs)
        async with opened(proxy.dsn) as store:
            vanished = asyncio.create_task(store.firing.fire_due(100, freeze))
            await eventually(lambda: not proxy.flowing)
            assert (await direct.firing.fire_due(100, plan_fires)).seen == 0, "they are held"

            async def fired() -> int:
                return (await direct.firing.fire_due(100, plan_fires)).fired

            assert await eventually(fired) == 5
            proxy.thaw()
            with pytest.raises(StoreUnavailable):
                await vanished


async def test_a_transaction_may_not_be_idle_for_ever_and_leaves_no_trace_on_its_session(database: str) -> None:
    shown = "select current_setting('idle_in_transaction_session_timeout')"
    async with opened(database) as store:
        async with store.database.transaction() as connection:
            assert await connection.fetchval(shown) == "30s"
        async with store.database.connection() as connection:
            assert await connection.fetchval(shown) == "0"


_FROZEN = """
import asyncio, os, signal, sys
import asyncpg

async def main():
    connection = await asyncpg.connect(sys.argv[1], server_settings={"application_name": "duetime"})
    await connection.execute(f"begin; {sys.argv[2]}")
    await connection.execute("select from duetime.workers for update")
    await connection._protocol.prepare("next", sys.argv[3], timeout=5, record_class=asyncpg.Record)
    os.kill(os.getpid(), signal.SIGSTOP)

asyncio.run(main())
"""


async def test_what_a_frozen_process_holds_between_two_statements_is_free_again(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has prepared its next statement and not run it: to the server it is busy, and no timeout counts."""
    monkeypatch.setattr(reaping, "ABANDONED_AFTER", timedelta(seconds=2))
    monkeypatch.setattr(reaping, "_ABANDONED_EVERY", 0.0)
    async with opened(database) as store:
        await store.migrate()
        await store.leases.register(WorkerInfo(new_id(), "frozen", (), (), 1), timedelta(milliseconds=1))
        stranger = await asyncpg.connect(database)
        await stranger.execute("begin; select 1")  # a transaction of another session, which takes its time
        frozen = await asyncio.create_subprocess_exec(sys.executable, "-c", _FROZEN, database, ENDS_SOON, SQL["clock"])
        try:
            await eventually(lambda: Path(f"/proc/{frozen.pid}/stat").read_text().split()[2] == "T")
            await store.reaping.reap(10, judge, timedelta(seconds=1))
            assert await store.leases.workers(), "no other session can lock what it holds"

            async def reaped() -> bool:
                await store.reaping.reap(10, judge, timedelta(seconds=1))
                return not await store.leases.workers()

            await eventually(reaped)
            assert await stranger.fetchval("select 1") == 1, "sessions of others are theirs"
        finally:
            await stranger.close()
            frozen.kill()
            await frozen.wait()


async def test_a_renewal_holds_the_lease_for_no_longer_than_one_statement(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that freezes between two statements of a transaction keeps its locks: here it would lock its own lease,
    and no reaper could free its runs."""
    async with opened(database) as store:
        await store.migrate()
        worker = WorkerInfo(new_id(), "one", (), (), 1)
        await store.leases.register(worker, LEASE)

        def refused(*_: object, **__: object) -> NoReturn:
            raise AssertionError("a transaction of several statements")

        monkeypatch.setattr(store.database, "transaction", refused)
        assert (await store.leases.renew(worker.id, LEASE, [1])).freed == 0
        assert (await store.leases.renew_many([(worker.id, [1])], LEASE))[worker.id] is not None


async def test_a_transaction_is_ended_by_the_server_when_it_waits_too_long(database: str) -> None:
    """For its next statement, or for what another holds."""
    async with opened(database) as store, store.database.transaction() as connection:
        for setting in ("idle_in_transaction_session_timeout", "statement_timeout"):
            assert await connection.fetchval(f"show {setting}") == "30s"
