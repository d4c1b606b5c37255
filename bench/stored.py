"""Stored: the same figures with ten thousand, a million and ten million stored jobs. They must not grow.

Half of the jobs recur, from every minute to monthly. A thousand tenants share them, and one tenant has an eleventh.
Submit: jobs for a distant day, in batches of 1,000. Fire: a sample of all recurring jobs falls due at once. Each round
of each run fires different jobs, which the largest database must read from the system's cache or from disk; then the
same jobs once more, from its own memory. Claim: the fired runs are drained from a thousand lanes. Lag: jobs spread over
time, a few hundred a second. A figure is compared with itself: the worst of all sizes divided by the smallest size.
"""

import random
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from bench.context import Bench
from bench.drain import drain
from bench.filled import make_due, sample, tidy
from bench.goals import Target
from bench.precision import measure
from bench.report import Report
from bench.shares import share
from bench.stores import migrated
from bench.tasks import on_the_loop
from duetime.engine.intake import prepare
from duetime.engine.scanner import Scanner
from duetime.model.job import DEFAULT_TENANT
from duetime.model.schedule import Once
from duetime.store.postgres import PostgresStore
from duetime.worker.task import define

FIRST_TIME = "fire for the first time"
FIGURES = {"submit": "higher", "fire": "higher", FIRST_TIME: "higher", "claim": "higher", "lag p95": "lower"}
TARGETS = {("postgres", f"{name}: worst over fewest"): Target(most=1.25) for name in FIGURES}
RATE = 500


async def run(bench: Bench) -> None:
    report = bench.report("stored", "jobs/s")
    sizes = sorted({10_000, max(10_000, bench.knobs.stored // 10), bench.knobs.stored})
    place = random.randrange(1_000_000)
    report.notes |= {"stored": sizes, "the place from which jobs are drawn": place}
    at_once = min(bench.knobs.scaled(20_000), sizes[0] // 2)
    count = at_once * max(1, bench.knobs.scaled(20_000) // at_once)
    with bench.server_with_many() as filled:
        addresses = {size: await filled.database(size) for size in sizes}
        for number in range(bench.knobs.rounds + 1):
            for size, dsn in addresses.items():
                # The first round warms caches: that of ten million jobs is read from disk.
                await _measure(bench, report if number else None, dsn, size, Fires(number, count, at_once, place))
    for name, better in FIGURES.items():
        fewest, *others = (report.median_of("postgres", f"{name} at {size:,}") for size in sizes)
        grown = max((each / fewest if better == "lower" else fewest / each for each in others), default=1.0)
        report.ours("postgres", f"{name}: worst over fewest", grown, unit="×", better="lower")
    report.finish(TARGETS)


class Fires(msgspec.Struct, frozen=True):
    """How many fires a round has, of how many jobs at once: as many as the smallest of the databases has."""

    round: int
    count: int
    at_once: int
    place: int

    @property
    def offsets(self) -> list[int]:
        """Where the samples of this round begin: one to warm up with, then those that are measured; all of them jobs
        that no other round fires, and no run before this one, where there are enough."""
        samples = 1 + self.count // self.at_once
        return [self.place + (self.round * samples + number) * self.at_once for number in range(samples)]


async def _measure(bench: Bench, report: Report | None, dsn: str, size: int, fires: Fires) -> None:
    connection = await asyncpg.connect(dsn, command_timeout=600)
    try:
        async with migrated(PostgresStore(dsn)) as store:
            await tidy(connection)
            submit = await _submit(store, connection, fires.count)
            first, again = await _fire(store, connection, fires)
            figures = {
                "submit": submit,
                FIRST_TIME: first,
                "fire": again,
                "claim": await _claim(store, connection),
            }
            lags = await measure(store, bench.knobs.scaled(RATE, least=50), min(5.0, bench.knobs.seconds))
    finally:
        await connection.close()
    if report is None:
        return
    for name, figure in figures.items():
        report.ours("postgres", f"{name} at {size:,}", figure)
    report.ours("postgres", f"lag p95 at {size:,}", share(lags, 0.95), unit="ms", better="lower")


async def _submit(store: PostgresStore, connection: "asyncpg.Connection[Any]", count: int) -> float:
    far = Once(at=datetime.now(UTC) + timedelta(days=45))
    made = []
    began = time.perf_counter()
    for _ in range(0, count, 1000):
        jobs = [prepare(task="report", args={"to": "x" * 60}, max_payload=1000, schedule=far) for _ in range(1000)]
        await store.intake.submit(DEFAULT_TENANT, jobs)
        made += [job.id for job in jobs]
    elapsed = time.perf_counter() - began
    for table, column in (("cursors", "job_id"), ("jobs", "id")):
        await connection.execute(f"delete from duetime.{table} where {column} = any($1::uuid[])", made)
    return len(made) / elapsed


async def _claim(store: PostgresStore, connection: "asyncpg.Connection[Any]") -> float:
    """Runs drained a second: as many as there are. Where a minute begins while jobs are fired, those of every minute
    have a run that waits for it, or one run for both moments."""
    await connection.execute("delete from duetime.runs where ready_at > now()")
    runs = await connection.fetchval("select count(*) from duetime.runs")
    return await drain(store, define("report", on_the_loop), runs, name="report")


async def _fire(store: PostgresStore, connection: "asyncpg.Connection[Any]", fires: Fires) -> tuple[float, float]:
    """Jobs fired a second: for the first time, and when all of them were fired just before."""
    scanner = Scanner(store)
    warm, *measured = [await sample(connection, fires.at_once, offset=offset) for offset in fires.offsets]
    await _fire_once(scanner, connection, warm)  # a connection that was just opened prepares its statements
    rates = []
    for _ in range(2):
        await connection.execute("delete from duetime.runs")
        took = [await _fire_once(scanner, connection, jobs) for jobs in measured]
        rates.append(fires.count / sum(took))
    return rates[0], rates[1]


async def _fire_once(scanner: Scanner, connection: "asyncpg.Connection[Any]", jobs: list[UUID]) -> float:
    await make_due(connection, jobs, datetime.now(UTC) - timedelta(seconds=1))
    # Time makes cursors due without writing them: what moving them has left behind is not for the scanner to walk over,
    # and to clear away page by page.
    await connection.execute("vacuum duetime.cursors")
    began = time.perf_counter()
    while await scanner.tick() == 0.0:
        pass
    elapsed = time.perf_counter() - began
    await make_due(connection, jobs, datetime.now(UTC) + timedelta(days=30))  # or some would fire again in a minute
    return elapsed
