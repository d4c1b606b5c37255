"""What a run on a stream queue costs, from its submission to its end: the database's CPU for each kind of run, and for
plain ones also WAL, rows, the worker and the broker.

A worker process is up before the first submission. Starts are counted in shared memory, so that waiting for the end
costs the database nothing. The kinds are plain (submitted in bulk, due at once), delayed (due in two seconds), fired
(of recurring jobs) and retried (the first attempt fails, the second comes a second later).
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg

from bench.context import Bench
from bench.peers.tally import Tally
from bench.processes import ENCRYPTION, Process, cpu_of_family, duetime_server, duetime_worker
from bench.report import Report, console
from bench.stores import migrated
from bench.stream_doc import COST, HISTORY, ID, WAITING
from bench.streamed import Publisher, apart, new_job, publishing
from duetime.model.job import DEFAULT_OPTIONS, DEFAULT_TENANT, INTERNAL_TENANT, Options
from duetime.model.retry import RetryPolicy
from duetime.model.schedule import NOW, Once, Schedule, make_cron
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import Store
from tests.support.redis_server import RedisServer

KINDS = ("plain", "delayed", "fired", "retried")
QUEUE = "stream"
RETRIES = Options(retry=RetryPolicy(retries=1, base=1.0))
STILL = 60.0
"""Workers that start nothing for so long, in seconds, will not."""
SETTLED = 1.0
"""Seconds after the last start in which all runs end."""
_DELAY = timedelta(seconds=2)
_DUE = "update duetime.cursors set next_fire_at = now(), scan_at = now()"
ENDED = f"""
select count(distinct run_id), count(*) from duetime.history
where end_state is not null and tenant_id <> {INTERNAL_TENANT}
"""
"""How many runs have ended, and how often; canaries do not count."""
_SIZE = """
select sum(pg_total_relation_size(i.inhrelid)) from pg_catalog.pg_inherits i where i.inhparent = $1::text::regclass
"""


async def worker_cpu(bench: Bench, runs: int, address: str) -> float:
    """Microseconds of a worker's CPU per plain run that comes through this broker."""
    async with _place(bench, address) as place:
        before = place.worker.cpu
        await place.submit_plain(runs)
        await place.ended(runs)
        spent = place.worker.cpu - before
        await place.check(runs)
    return spent / runs * 1e6


async def cost_of(bench: Bench, kind: str, runs: int, address: str | None) -> float:
    """Microseconds of the database's CPU per run, through a broker or the store, with what it takes to clean up."""
    database = bench.databases.server.pid
    needs_server = kind in ("delayed", "fired")  # a worker runs what is ready; a server sees to it that it is
    # With another key than the server's, the worker could not read what the server announces.
    async with _place(bench, address, key=needs_server) as place, _vacuumed_by_hand(place.connection):
        if needs_server:
            place.start(duetime_server(place.dsn))
            await asyncio.sleep(SETTLED)  # what it looks through when it starts for the first time, is empty
            if kind == "fired":
                await place.submit(runs, schedules=_never(1_000))
                await place.connection.execute("vacuum analyze")
        before = cpu_of_family(database)
        match kind:
            case "fired":
                await place.connection.execute(_DUE)
            case "delayed":
                await place.submit(runs, schedules=[Once(at=datetime.now(UTC) + _DELAY)])
            case "retried":
                await place.submit_plain(runs, "fails_once", RETRIES)
            case _:
                await place.submit_plain(runs)
        await place.ended(runs)
        await place.connection.execute("vacuum analyze")
        spent = cpu_of_family(database) - before
        await place.check(runs)
    return spent / runs * 1e6


@asynccontextmanager
async def _vacuumed_by_hand(connection: "asyncpg.Connection[Any]") -> AsyncIterator[None]:
    """Autovacuum comes once a minute: without this it would count for some measurements and not for others."""

    async def change(how: str) -> None:
        await connection.execute(f"alter system {how}")
        await connection.execute("select pg_reload_conf()")

    await change("set autovacuum = off")
    try:
        yield
    finally:
        await change("reset autovacuum")


async def weigh(bench: Bench, report: Report, redis: RedisServer) -> None:
    """What a plain run costs in all: for the model of larger installations."""
    runs = bench.knobs.scaled(100_000, least=1_000)
    own: dict[str, float] = {}
    async with _place(bench, redis.address) as place:
        pids = {"database": bench.databases.server.pid, "worker": place.worker.pid, "broker": redis.pid}
        await place.connection.execute("checkpoint")
        with redis.client() as client:
            began, empty = await place.written(), int(client.info("memory")["used_memory"])
            spent = {name: cpu_of_family(pid) for name, pid in pids.items()}
            await place.pause()
            await place.submit_plain(runs)
            own[WAITING] = (client.info("memory")["used_memory"] - empty) / runs
        await place.resume()
        await place.ended(runs)
        for name, pid in pids.items():
            own[f"{name}, µs of CPU"] = (cpu_of_family(pid) - spent[name]) / runs * 1e6
        own["WAL, bytes"] = (await place.written() - began) / runs
        await place.check(runs)
        for name, table in ((HISTORY, "duetime.history"), (ID, "duetime.spent")):
            own[name] = float(await place.connection.fetchval(_SIZE, table)) / runs
    report.notes[COST] = own
    for name, figure in own.items():
        console.print(f"  {name}: {figure:,.1f}", style="dim")


@asynccontextmanager
async def _place(bench: Bench, address: str | None, *, key: bool = False) -> AsyncIterator["_Place"]:
    """An empty database, whose queue goes through a broker if there is one, and a worker that has nothing to do yet."""
    dsn = bench.databases.postgres()
    async with AsyncExitStack() as stack:
        tally = Tally(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="duetime-tally-"))))
        store = await stack.enter_async_context(migrated(PostgresStore(dsn)))
        publisher = None
        if address is not None:
            publisher = await stack.enter_async_context(publishing(store, QUEUE, apart(address)))
        connection = await asyncpg.connect(dsn)
        stack.push_async_callback(connection.close)
        worker = stack.enter_context(duetime_worker(dsn, tally.folder, 1000, **(ENCRYPTION if key else {})))
        await asyncio.sleep(SETTLED)  # it has read its queues
        yield _Place(dsn, store, publisher, connection, worker, tally, stack)


class _Place(NamedTuple):
    dsn: str
    store: Store
    publisher: Publisher | None
    connection: "asyncpg.Connection[Any]"
    worker: Process
    tally: Tally
    stack: AsyncExitStack

    def start(self, process: AbstractContextManager[Process]) -> None:
        self.stack.enter_context(process)

    async def submit_plain(self, runs: int, task: str = "nothing", options: Options = DEFAULT_OPTIONS) -> None:
        if self.publisher is not None:
            await self.publisher.publish(runs, task, options)
        else:
            await self.submit(runs, task, options)

    async def submit(
        self,
        runs: int,
        task: str = "nothing",
        options: Options = DEFAULT_OPTIONS,
        schedules: Sequence[Schedule] = (NOW,),
    ) -> None:
        """To the store, in bulk."""
        for start in range(0, runs, 1000):
            jobs = [
                new_job(QUEUE, task, options, schedules[number % len(schedules)])
                for number in range(start, min(runs, start + 1000))
            ]
            await self.store.intake.submit(DEFAULT_TENANT, jobs)

    async def ended(self, runs: int) -> None:
        """Wait until so many have ended."""
        await started(self.tally, runs)
        await asyncio.sleep(SETTLED)

    async def check(self, runs: int) -> None:
        ((ended, ends),) = await self.connection.fetch(ENDED)
        if (ended, ends) != (runs, runs):
            raise RuntimeError(f"{ended:,} of {runs:,} runs have ended, {ends - ended:,} of them twice")

    async def written(self) -> int:
        """Bytes of WAL so far."""
        return int(await self.connection.fetchval("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))

    async def pause(self) -> None:
        await self.store.queues.pause_queue(DEFAULT_TENANT, QUEUE)
        await asyncio.sleep(SETTLED)  # workers notice it twice a second

    async def resume(self) -> None:
        await self.store.queues.resume_queue(DEFAULT_TENANT, QUEUE)


async def started(tally: Tally, runs: int) -> None:
    """Wait for so many starts, for as long as there are any."""
    seen, last = 0, time.monotonic()
    while (now := tally.count()) < runs:
        if now > seen:
            seen, last = now, time.monotonic()
        elif time.monotonic() - last > STILL:
            raise RuntimeError(f"{now:,} of {runs:,} runs started, and none in the last {STILL:g} s")
        await asyncio.sleep(0.05)


def _never(count: int) -> list[Schedule]:
    """As many different schedules, none of which is due soon."""
    return [make_cron(f"{number % 60} {number // 60} 29 2 *", "UTC") for number in range(count)]
