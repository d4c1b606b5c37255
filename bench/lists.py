"""List: the lists of the API and their filters with ten million jobs and ten million rows of history; p95 of each page,
and of scrapes of the metrics.

Asked for with a root key and a header that names another tenant each time, others in each round and each run: the first
page, and pages further down. One request at a time. No limit and no peers: the peers have no such lists, and plain SQL
would be these statements again.
"""

import random
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import msgspec

from bench.context import Bench
from bench.goals import Target
from bench.load import Connection
from bench.processes import duetime_server, root_key
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
    "jobs by key": "/v1/jobs?key=key-17",
    "jobs by queue": "/v1/jobs?queue=default",
    "jobs by a queue that nobody has": "/v1/jobs?queue=unheard_of",
    "jobs by task": "/v1/jobs?task=digest",
    "jobs by a task that nobody has": "/v1/jobs?task=unheard_of",
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
FIGURES = {"figures": "/v1/stats", "fires of the next hour": "/v1/fires"}
"""No lists: what the dashboard draws, whose bounds are those of `dashboard`."""
SLOWEST = "the slowest of them"
SCRAPE = "/metrics"
TARGETS = {("postgres", SLOWEST): Target(most=MOST), ("postgres", SCRAPE): Target(most=MOST)}


async def run(bench: Bench) -> None:
    report = bench.report("list", "ms p95", better="lower")
    asks = bench.knobs.scaled(40, least=5)
    seed = random.randrange(1_000_000)
    report.notes |= {"jobs and rows of history": bench.knobs.stored, "pages asked for, each list": asks * PAGES}
    report.notes["tenants are drawn by"] = seed
    with bench.server_with_many() as filled:
        dsn = await filled.database(bench.knobs.stored)
        async with migrated(PostgresStore(dsn)) as store:
            key = await root_key(store)
        with duetime_server(dsn) as server:
            connection = await Connection(server.url, key).open()
            for path in (LISTS | FIGURES).values():  # what was just started has nothing in its caches
                with suppress(AssertionError):
                    await _ask(connection, path, 3, random.Random(seed))
            for number in range(1, bench.knobs.rounds + 1):
                for name, path in (LISTS | FIGURES).items():
                    took = await _ask(connection, path, asks, random.Random(seed + number))
                    report.ours("postgres", name, share(took, 0.95))
                report.ours("postgres", SCRAPE, share(await _scrape(connection, asks * PAGES), 0.95))
            connection.close()
            report.ours("postgres", "server's memory", server.most_memory, unit="MB")
    report.ours("postgres", SLOWEST, max(report.median_of("postgres", name) for name in LISTS))
    report.finish(TARGETS)


async def _ask(connection: Connection, path: str, asks: int, dice: random.Random) -> list[float]:
    """Milliseconds, sorted: the first page and a few more, each time for another tenant."""
    took: list[float] = []
    for _ in range(asks):
        tenant = dice.randrange(2, 1000)
        about = {"duetime-tenant": f"tenant-{tenant}"}
        wanted = path if "/admin/" in path else await _filled_in(connection, path, about, dice)
        cursor = ""
        for _ in range(PAGES):
            began = time.perf_counter()
            answer = msgspec.json.decode(await connection.get(wanted + cursor, about))
            took.append((time.perf_counter() - began) * 1000)
            if not (found := answer.get("next_cursor")):
                break
            cursor = f"{'&' if '?' in wanted else '?'}cursor={quote(found)}"
    return sorted(took)


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
