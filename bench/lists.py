"""List: the lists of the API and their filters with ten million jobs and ten million rows of history; p95 of each page,
and of scrapes of the metrics.

The requests use a root key and a header that names a different tenant each time, and different tenants in each round
and each run: the first page, and later pages. Then the same for the largest tenant, which has an eleventh of all jobs
and of all history, each time further down the list. Meanwhile a few thousand runs are running, and as many jobs fire
within the hour. One request at a time. The tables are in the operating system's cache as far as they fit, and few of
them in the database's. No limit and no peers: the peers have no such lists, and plain SQL would be these statements
again.
"""

import random
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import asyncpg
import msgspec

from bench.context import Bench
from bench.filled import LARGEST, make_due, running, sample
from bench.goals import Target
from bench.load import Connection
from bench.processes import duetime_server, root_key
from bench.report import Report
from bench.shares import share
from bench.stores import migrated
from duetime.store.postgres import PostgresStore

PAGES = 5
MOST = 50.0
LISTS = {
    "jobs": "/v1/jobs?page_size=50",
    "jobs, 200 a page": "/v1/jobs?page_size=200",
    "jobs by status": "/v1/jobs?status=PENDING",
    "jobs that failed": "/v1/jobs?status=FAILED",
    "jobs that succeeded": "/v1/jobs?status=SUCCEEDED",
    "jobs by owner": "/v1/jobs?owner=user-3",
    "jobs by tag": "/v1/jobs?tag=nightly",
    "jobs by owner and tag": "/v1/jobs?owner=user-3&tag=team-3",
    "jobs by name": "/v1/jobs?name=name-3",
    "jobs by key": "/v1/jobs?key=key-3",
    "jobs by queue": "/v1/jobs?queue=default",
    "jobs by an unknown queue": "/v1/jobs?queue=unheard_of",
    "jobs by task": "/v1/jobs?task=digest",
    "jobs by an unknown task": "/v1/jobs?task=unheard_of",
    "recurring jobs": "/v1/jobs?recurring=true",
    "jobs due in a week": "/v1/jobs?start_time={week}&end_time={after_it}",
    "runs": "/v1/runs?page_size=50",
    "runs, 200 a page": "/v1/runs?page_size=200",
    "runs that failed": "/v1/runs?status=FAILED",
    "runs that succeeded": "/v1/runs?status=SUCCEEDED",
    "runs under way": "/v1/runs?status=RUNNING",
    "runs by task": "/v1/runs?task=digest",
    "runs by queue": "/v1/runs?queue=default",
    "runs of a day": "/v1/runs?start_time={day}&end_time={after_that}",
    "runs of a job": "/v1/jobs/{job}/runs",
    "a job": "/v1/jobs/{job}",
    "a job's status": "/v1/jobs/{job}/status",
    "dead letters": "/v1/dead-letters",
    "dead letters by error": "/v1/dead-letters?error=report",
    "dead letters by task": "/v1/dead-letters?task=report",
    "dead letters by failure": "/v1/dead-letters?failure=error",
    "dead letters of a day": "/v1/dead-letters?start_time={day}&end_time={after_that}",
    "groups of dead letters": "/v1/dead-letters/groups",
    "graphs": "/v1/graphs",
    "the audit log": "/v1/audit",
    "recent runs of a job": "/v1/recent-runs?job_ids={job}",
    "queues": "/v1/queues",
    "tenants": "/v1/admin/tenants",
}
EMPTY = {"jobs by an unknown queue", "jobs by an unknown task"}
"""All others find something: a list of nothing is no measurement."""
FIGURES = {"figures": "/v1/stats", "fires of the next hour": "/v1/fires"}
"""No lists: what the dashboard draws, whose bounds are those of `dashboard`."""
SLOWEST = "the slowest of them"
OF_LARGEST = {name: f"{name}, largest tenant" for name, path in LISTS.items() if "/admin/" not in path}
SLOWEST_OF_LARGEST = f"{SLOWEST}, largest tenant"
UNDER_WAY = 5_000
SCRAPE = "/metrics"
TARGETS = {("postgres", name): Target(most=MOST) for name in (SLOWEST, SLOWEST_OF_LARGEST, SCRAPE)}


async def run(bench: Bench) -> None:
    report = bench.report("list", "ms p95", better="lower")
    asks = bench.knobs.scaled(40, least=5)
    seed = random.randrange(1_000_000)
    report.notes |= {"jobs and rows of history": bench.knobs.stored, "pages asked for, each list": asks * PAGES}
    report.notes |= {"tenants are drawn by": seed, "runs under way": UNDER_WAY}
    with bench.server_with_many() as filled:
        dsn = await filled.database(bench.knobs.stored)
        async with migrated(PostgresStore(dsn)) as store:
            key = await root_key(store)
        database = await asyncpg.connect(dsn, command_timeout=600)
        try:
            async with running(database, UNDER_WAY):
                await _let_some_fire_soon(database)
                with duetime_server(dsn) as server:
                    connection = await Connection(server.url, key).open()
                    try:
                        await _ask_all(report, connection, bench.knobs.rounds, asks, seed)
                    finally:
                        connection.close()
                    report.ours("postgres", "server's memory", server.most_memory, unit="MB")
        finally:
            await database.close()
    for slowest, names in ((SLOWEST, LISTS), (SLOWEST_OF_LARGEST, OF_LARGEST.values())):
        report.ours("postgres", slowest, max(report.median_of("postgres", name) for name in names))
    report.finish(TARGETS)


async def _let_some_fire_soon(database: "asyncpg.Connection[Any]") -> None:
    """Within the hour, and not before all is asked for: by themselves they fire in a month."""
    soon, now = await sample(database, UNDER_WAY, offset=UNDER_WAY), datetime.now(UTC)
    for number, minutes in enumerate(range(30, 60)):
        await make_due(database, soon[number::30], now + timedelta(minutes=minutes))


async def _ask_all(report: Report, connection: Connection, rounds: int, asks: int, seed: int) -> None:
    for path in (LISTS | FIGURES).values():  # what was just started has nothing in its caches
        with suppress(AssertionError, IndexError):
            await _ask(connection, path, 3, random.Random(seed))
    found: Counter[str] = Counter()
    for number in range(1, rounds + 1):
        dice = random.Random(seed + number)
        for name, path in (LISTS | FIGURES).items():
            took, with_rows = await _ask(connection, path, asks, dice)
            report.ours("postgres", name, share(took, 0.95))
            found[name] += with_rows
        for name, variant in OF_LARGEST.items():
            took, with_rows = await _ask(connection, LISTS[name], asks, dice, tenant=LARGEST)
            report.ours("postgres", variant, share(took, 0.95))
            found[variant] += with_rows
        report.ours("postgres", SCRAPE, share(await _scrape(connection, asks * PAGES), 0.95))
    report.notes["share of asks that found rows"] = {name: found[name] / (rounds * asks) for name in found}
    # Of few stored jobs not every tenant has all; the largest one has.
    nothing = [name for name in (LISTS | FIGURES).keys() - EMPTY if not found[name] + found[OF_LARGEST.get(name, "")]]
    assert not nothing, f"there was nothing on the pages of: {', '.join(nothing)}"


async def _ask(
    connection: Connection, path: str, asks: int, dice: random.Random, *, tenant: str | None = None
) -> tuple[list[float], int]:
    """Milliseconds, sorted, and how many times there were rows: the first page and a few more, each time for another
    tenant; or where one is named, from where the last time ended."""
    took: list[float] = []
    with_rows, cursor = 0, ""
    for _ in range(asks):
        about = {"duetime-tenant": tenant or f"tenant-{dice.randrange(2, 1000)}"}
        wanted = path if "/admin/" in path else await _filled_in(connection, path, about, dice)
        if tenant is None or wanted != path:
            cursor = ""
        rows = False
        for _ in range(PAGES):
            began = time.perf_counter()
            answer = msgspec.json.decode(await connection.get(wanted + cursor, about))
            took.append((time.perf_counter() - began) * 1000)
            rows = rows or bool(answer.get("items", answer))
            further = answer.get("next_cursor")
            cursor = f"{'&' if '?' in wanted else '?'}cursor={quote(further)}" if further else ""
            if not further:
                break
        with_rows += rows
    return sorted(took), with_rows


async def _scrape(connection: Connection, asks: int) -> list[float]:
    took = []
    for _ in range(asks):
        began = time.perf_counter()
        page = await connection.get(SCRAPE, {})
        took.append((time.perf_counter() - began) * 1000)
        assert b'duetime_table_rows{table="jobs"}' in page, "the node has not looked at the database yet"
    return sorted(took)


async def _filled_in(connection: Connection, path: str, about: dict[str, str], dice: random.Random) -> str:
    if "{job}" in path:
        page: dict[str, Any] = msgspec.json.decode(await connection.get("/v1/runs?page_size=50", about))
        path = path.replace("{job}", dice.choice(page["items"])["job_id"])
    # A week in the month in which what is stored falls due.
    week = datetime.now(UTC) + timedelta(days=35)
    # A day of those over which history is spread.
    day = datetime.now(UTC) - timedelta(days=dice.randrange(2, 15))
    moments = {
        "{week}": week,
        "{after_it}": week + timedelta(days=7),
        "{day}": day,
        "{after_that}": day + timedelta(days=1),
    }
    for name, moment in moments.items():
        path = path.replace(name, f"{moment:%Y-%m-%dT%H:%M:%SZ}")
    return path
