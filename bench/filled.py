"""Databases with millions of stored jobs, filled once by set-based statements through the real tables, and kept.

Half of the jobs recur, from every minute to monthly; a thousand tenants share them, of which the first has an eleventh.
None of them fires by itself for a month: what a scenario wants to be due, it moves there. There is as much history as
there are jobs, graphs for one in 200 and entries of the audit log for one in 100.

One that was kept is read once before it is used, so that it lies in the system's memory as one that has just been
filled does, as far as there is room. What a cold disk costs is in docs/decisions/0018-where-the-time-goes.md.
"""

import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import asyncpg

from bench.report import console
from bench.stores import SERVER_OPTIONS
from duetime.engine.intake import prepare
from duetime.ids import new_id
from duetime.model.failure import FailureClass
from duetime.model.fingerprint import fingerprint
from duetime.model.job import DEFAULT_TENANT, Options
from duetime.model.schedule import make_schedule
from duetime.model.schedule.zone_database import zone_database
from duetime.store.postgres import PostgresStore
from duetime.store.postgres.database import SQL as STATEMENTS
from duetime.store.postgres.schema import RELEASE
from duetime.store.rules.cursor_changes import ZONES, Zones, encode_zones
from duetime.store.shared.statements import parse
from tests.support.postgres import Server, installed

ARGS = b'{"to":"' + b"x" * 60 + b'@example.com"}'
KINDS = (
    *((f"*/{minutes} * * * *", 1) for minutes in (1, 5)),
    *((f"{minute} * * * *", 3) for minute in (0, 17, 30)),
    *((f"{minute} {hour} * * *", 2) for minute in (0, 30) for hour in (0, 3, 6, 9, 12, 18)),
    *((f"0 {hour} * * {day}", 1) for hour in (6, 9) for day in ("MON", "WED", "FRI", "SUN")),
    *((f"30 4 {day} * *", 1) for day in (1, 15)),
)
"""Cron lines and how many shares of the recurring jobs each has: mostly daily."""
ERRORS = (
    "ValueError: there is no report for ",
    "TimeoutError: the report was not ready at ",
    "KeyError: no recipient of report ",
)
"""How errors begin; what follows differs."""
LARGEST = "default"
"""The name of the tenant that has an eleventh of all."""
_CHUNK = 250_000
_STALE = timedelta(days=25)
_ROOM = bytearray(1 << 20)

SQL = dict(parse(Path(__file__).with_name("filling.sql").read_text("utf-8")))
_FILLING = ("facts", "tenants", "lanes", "jobs", "cursors", "labels", "history", "graphs", "audit", "dead_letters")


def filling() -> str:
    """What a database was filled by, and into which tables: another one is not used any more."""
    told = repr(([SQL[name] for name in _FILLING], KINDS, ARGS, ERRORS, RELEASE))
    return hashlib.sha256(told.encode()).hexdigest()[:16]


class Filled:
    """The server that keeps them: running inside a `with`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: Server | None = None

    def __enter__(self) -> Self:
        binaries = installed()[0]
        self._server = Server(binaries, keep=self._folder / f"postgres-{binaries.origin}", settings=SERVER_OPTIONS)
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._server = None

    async def database(self, stored: int) -> str:
        """The address of a database with so many jobs, filled now if it is not there."""
        assert self._server is not None
        name = f"filled_{stored}"
        if not await self._is_usable(name):
            self._server.drop_database(name)
            dsn = self._server.create_database(name)
            await _fill(dsn, stored)
        await _is_by_these_zones(self._server.dsn(name))
        await _read(self._server.dsn(name))
        return self._server.dsn(name)

    async def _is_usable(self, name: str) -> bool:
        assert self._server is not None
        try:
            connection = await asyncpg.connect(self._server.dsn(name))
        except asyncpg.InvalidCatalogNameError:
            return False
        try:
            filled_at = await connection.fetchval("select filled_at from filled.facts where filling = $1", filling())
        except asyncpg.PostgresError:
            return False
        finally:
            await connection.close()
        if filled_at is None or filled_at < datetime.now(UTC) - _STALE:
            return False
        store = PostgresStore(self._server.dsn(name))
        await store.open()
        try:
            await store.migrate()  # it may have been filled by older code
        except Exception as error:  # whatever it is: it is filled again
            console.print(f"  {name} is of no use any more: {error}", style="dim", markup=False)
            return False
        finally:
            await store.close()
        return True


async def _read(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        console.print("  the tables are read once", style="dim")
        found = await connection.fetchrow(
            "select current_setting('data_directory'), oid from pg_database where datname = current_database()"
        )
    finally:
        await connection.close()
    assert found is not None
    folder, oid = found
    for file in sorted(Path(folder, "base", str(oid)).iterdir()):
        with suppress(FileNotFoundError), file.open("rb", buffering=0) as opened:
            while opened.readinto(_ROOM):
                pass


async def _is_by_these_zones(dsn: str) -> None:
    """Say that cursors were computed with this time zone database: else a server would put those right that a scenario
    moves, and be busy with all the others for an hour."""
    connection = await asyncpg.connect(dsn)
    try:
        zones = encode_zones(Zones(zone_database()))
        await connection.execute(STATEMENTS["put_meta"], ZONES, zones)
    finally:
        await connection.close()


async def _fill(dsn: str, stored: int) -> None:
    began = time.perf_counter()
    store = PostgresStore(dsn)
    await store.open()
    await store.migrate()
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(SQL["facts"])
        await _kinds(store, connection)
        now = datetime.now(UTC)
        first = int(now.timestamp() * 1000) - stored // 10 - 1000
        await connection.execute("insert into filled.facts values ($1, $2, $3, null)", stored, first, now)
        await connection.execute(SQL["tenants"])
        await connection.execute(SQL["lanes"])
        await _days(connection, now)
        for start in range(0, stored, _CHUNK):
            end = min(stored, start + _CHUNK) - 1
            await connection.execute(SQL["jobs"], start, end, ARGS)
            await connection.execute(SQL["cursors"], start, end)
            await connection.execute(SQL["labels"], start, end)
            await connection.execute(SQL["history"], start, end, ARGS, stored, ERRORS)
            await connection.execute(SQL["graphs"], start, end)
            await connection.execute(SQL["audit"], start, end)
            took = time.perf_counter() - began
            console.print(f"  stored {end + 1:,} of {stored:,} jobs in {took:.0f} s", style="dim")
        prints = [fingerprint(FailureClass.ERROR, f"{error}1") for error in ERRORS]
        await connection.execute(SQL["dead_letters"], ERRORS, prints)
        console.print("  vacuum analyze", style="dim")
        await connection.execute("vacuum analyze")
        await connection.execute("checkpoint")
        await connection.execute(SQL["done"], filling())
    finally:
        await connection.close()
        await store.close()


async def _kinds(store: PostgresStore, connection: "asyncpg.Connection[Any]") -> None:
    """Schedules and options as intake writes them: each is submitted once, kept, and taken back."""
    rows = []
    for number, (line, shares) in enumerate(KINDS):
        options = Options(owner=f"user-{number % 7}", tags=("nightly", f"team-{number % 5}"))
        schedule = make_schedule(cron=line, tz="Europe/Berlin" if number % 2 else "UTC")
        job = prepare(task="report", args={}, max_payload=1000, schedule=schedule, options=options)
        await store.intake.submit(DEFAULT_TENANT, [job])
        found = await connection.fetch("select schedule, options from duetime.jobs where id = $1", job.id)
        await store.replay.delete_job(DEFAULT_TENANT, job.id)
        rows += [tuple(found[0])] * shares
    await connection.executemany("insert into filled.kinds (schedule, options) values ($1, $2)", rows)


async def _days(connection: "asyncpg.Connection[Any]", now: datetime) -> None:
    """The partitions of the days before."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for back in range(22):
        day = today - timedelta(days=back)
        name = f"history_{day:%Y%m%d}"
        if not await connection.fetchval("select to_regclass($1) is not null", f"duetime.{name}"):
            await connection.execute(
                f"create table duetime.{name} partition of duetime.history"
                f" for values from ('{day.isoformat()}') to ('{(day + timedelta(days=1)).isoformat()}')"
            )


async def tidy(connection: "asyncpg.Connection[Any]") -> None:
    """Put back all jobs that fire soon, also those that a run that was broken off has left behind, and forget the runs
    that are there."""
    await connection.execute(SQL["undue"])
    await connection.execute("delete from duetime.runs")
    await connection.execute("delete from duetime.claims")


async def sample(connection: "asyncpg.Connection[Any]", count: int, *, offset: int = 0) -> list[UUID]:
    """Recurring jobs out of all that are stored; with other offsets others, until all have had their turn."""
    return [row[0] for row in await connection.fetch(SQL["sample"], count, offset)]


async def make_due(connection: "asyncpg.Connection[Any]", jobs: list[UUID], at: datetime) -> None:
    """Let these jobs be due at a moment."""
    for start in range(0, len(jobs), 10_000):
        await connection.execute(SQL["due"], jobs[start : start + 10_000], at)


@asynccontextmanager
async def with_jitter(connection: "asyncpg.Connection[Any]", jobs: list[UUID], seconds: float) -> AsyncIterator[None]:
    """These jobs have jitter as long as the block lasts; what else they say stays, for scenarios that look for it.
    Where none is wanted nothing is written."""
    await connection.execute(SQL["make_aside"])
    await connection.execute(SQL["put_back"])
    if not seconds:
        yield
        return
    await connection.execute(SQL["set_aside"], jobs)
    try:
        await connection.execute(SQL["add_jitter"], jobs, seconds)
        yield
    finally:
        await connection.execute(SQL["put_back"])


@asynccontextmanager
async def running(connection: "asyncpg.Connection[Any]", count: int) -> AsyncIterator[None]:
    """So many jobs run as long as the block lasts, by a worker that only has them."""
    await tidy(connection)
    worker = new_id()
    await connection.execute(SQL["hire"], worker)
    try:
        await connection.execute(SQL["run"], worker, await sample(connection, count))
        yield
    finally:
        await tidy(connection)
        await connection.execute(SQL["dismiss"], worker)
