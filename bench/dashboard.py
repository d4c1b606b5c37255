"""Dashboard: how long pages, lists and searches take with a million jobs and as much history, on both databases, and
whether the memory of a tab that receives a thousand events a second stays constant.

All jobs have distinct names, and a tag and an owner. Besides the time of a request the CPU time of the server and the
database is reported, which other work on the machine does not change. There is no limit and no peer to compare pages
with. DASHBOARD_JOBS (1,000,000), DASHBOARD_SECONDS (600) and DASHBOARD_STORES (postgres,sqlite) make it smaller. Needs
a Chromium: see CONTRIBUTING.md.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from statistics import quantiles

import asyncpg
from playwright.async_api import Browser, async_playwright

from bench.context import Bench
from bench.goals import Target
from bench.load import Connection
from bench.processes import Process, cpu_of_sessions, duetime_server, root_key
from bench.report import Report, console
from bench.stores import migrated
from duetime.engine.search_indexer import SearchIndexer
from duetime.ids import new_id
from duetime.model.event import EventKind
from duetime.model.job import DEFAULT_TENANT, NewJob, Options, encode_options
from duetime.model.lane import LaneKey, Tier
from duetime.model.schedule import Every, Once, make_cron
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import Store
from duetime.store.sqlite import SqliteStore
from tests.browser.conftest import chromium

JOBS = int(os.environ.get("DASHBOARD_JOBS", "1000000"))
SECONDS = int(os.environ.get("DASHBOARD_SECONDS", "600"))
STORES = os.environ.get("DASHBOARD_STORES", "postgres,sqlite").split(",")
EVENTS = 1000
RARE = (0, 1)
"""The jobs of a task that no other job has: the oldest ones, which a search reaches last."""
ASKS = 20
LISTS = (
    "/v1/jobs",
    "/v1/jobs?status=FAILED",
    "/v1/jobs?queue=q3",
    "/v1/jobs?recurring=true",
    "/v1/jobs?task=bench.seldom",
    "/v1/jobs?order=name",
    "/v1/jobs?order=-name",
    "/v1/jobs?order=name&recurring=true",
    "/v1/runs",
    "/v1/runs?status=FAILED",
    "/v1/runs?start_time={then}&end_time={soon_after}",
    "/v1/dead-letters",
    "/v1/queues",
)
FIGURES = ("/v1/stats", "/v1/fires", "/v1/fires?end={week}&step=1h")
"""Computed once for all readers of some seconds: their p95 is that of the first one. Fires are counted from a sample of
all jobs."""
SEARCHES = {
    "one job by a part of its name": "/v1/jobs?search=customer+77{two}",
    "three characters of many names": "/v1/jobs?search=7{two}",
    "a word of every name": "/v1/jobs?search=customer",
    "a tag": "/v1/jobs?search=team-{two}",
    "a part of an owner": "/v1/jobs?search=user-4{two}",
    "nothing": "/v1/jobs?search=unheard{two}",
    "a part of the task of every job": "/v1/jobs?search=noth",
    "a part of a rare task": "/v1/jobs?search=seldom",
    "two characters": "/v1/jobs?search={two}",
    "a name that failed": "/v1/jobs?search=customer+7{two}&status=FAILED",
    "a schedule": "/v1/jobs?search=customer+77{two}&recurring=true",
}
"""`{two}` is another number each time: what is remembered would flatter the figure."""
SEARCH = "searches, all together"
GROWN = f"a tab with {EVENTS:,} events a second: last over first"
MOST_SEARCH, MOST_LIST, MOST_VIEW = 300.0, 200.0, 1000.0
HISTORY = """
insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state,
    failure, due_at, ready_at, started_at, finished_at, error)
select run.id, run.id, 1, l.id, 1, 1, 0, case when n % 50 = 0 then 2 else 1 end, case when n % 50 = 0 then 5 else 4 end,
    case when n % 50 = 0 then 1 end, run.at, run.at, run.at + interval '20 ms', run.at + interval '50 ms',
    case when n % 50 = 0 then 'ValueError: no ' || n % 7 end
from generate_series(1, $1) n
cross join lateral (select now() - ($1 - n) * interval '70 ms' as at) t
cross join lateral (select t.at, (lpad(to_hex((extract(epoch from t.at) * 1000)::bigint), 12, '0')
    || '8' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 5, 15))::uuid as id) run
cross join lateral (select id from duetime.lanes order by id limit 1) l
where t.at > date_trunc('day', now()) - interval '1 day'
"""
HISTORY_SQLITE = """
insert into history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state, failure,
    due_at, ready_at, started_at, finished_at, error)
select :id, :id, 1, (select id from lanes order by id limit 1), 1, 1, 0, :failed + 1, :failed + 4,
    case when :failed then 1 end, :at, :at, :at + 20000, :at + 50000, case when :failed then 'ValueError: no' end
"""


async def run(bench: Bench) -> None:
    report = bench.report("dashboard", "ms, p95", better="lower")
    targets: dict[tuple[str, str], Target] = {}
    for kind in STORES:
        file = bench.databases.file()
        dsn = bench.databases.postgres() if kind == "postgres" else f"sqlite:///{file}"
        store: Store = PostgresStore(dsn) if kind == "postgres" else SqliteStore(file)
        async with migrated(store):
            await _fill(store, dsn)
            key = await root_key(store)
        with duetime_server(dsn) as server:
            pid = bench.databases.server.pid if kind == "postgres" else None
            await _measure(report, targets, kind, server, pid, key)
            if kind == "postgres":
                async with migrated(PostgresStore(dsn)) as again:
                    await _watch(report, targets, again, server.url, key)
    report.finish(targets)


async def _measure(
    report: Report, targets: dict[tuple[str, str], Target], kind: str, server: Process, database: int | None, key: str
) -> None:
    connection = await Connection(server.url, key).open()
    cpu = lambda: server.cpu + (0 if database is None else cpu_of_sessions(database))  # noqa: E731
    for path in (*LISTS, *FIGURES):
        targets[kind, path] = Target(most=MOST_LIST if path in LISTS else MOST_VIEW)
        report.ours(kind, path, _p95(await _asked(connection, path, report, kind, path, cpu)))
    together: list[float] = []
    for name, path in SEARCHES.items():
        targets[kind, f"search: {name}"] = Target(most=MOST_SEARCH)
        took = await _asked(connection, path, report, kind, f"search: {name}", cpu)
        report.ours(kind, f"search: {name}", _p95(took))
        together += took
    targets[kind, SEARCH] = Target(most=MOST_SEARCH)
    report.ours(kind, SEARCH, _p95(together))
    connection.close()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for path, shown in (
            ("/", ".figures"),
            ("/jobs", "main tbody tr a"),
            ("/schedules", "main tbody tr a"),
            ("/runs", "main tbody tr a"),
            ("/calendar", ".heat"),
        ):
            targets[kind, f"first view of {path}"] = Target(most=MOST_VIEW)
            for _ in range(3):
                report.ours(kind, f"first view of {path}", await _viewed(browser, server.url, key, path, shown))
        await browser.close()


async def _watch(report: Report, targets: dict[tuple[str, str], Target], store: Store, url: str, key: str) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        targets["postgres", GROWN] = Target(most=1.1)
        report.ours("postgres", GROWN, await _grown(browser, store, url, key), unit="×")
        await browser.close()


async def _fill(store: Store, dsn: str) -> None:
    began = time.perf_counter()
    await store.pruning.prune(timedelta(days=30), timedelta(days=90))
    schedules = [make_cron(f"{n % 60} {n % 24} * * *", "UTC") for n in range(97)]
    for start in range(0, JOBS, 5000):
        jobs = []
        for number in range(start, min(start + 5000, JOBS)):
            task = "bench.seldom" if number in RARE else "bench.nothing"
            lane = LaneKey(DEFAULT_TENANT, f"q{number % 8}", Tier.MEDIUM, task)
            kind = number % 10
            schedule = (
                Every(timedelta(hours=1))
                if kind == 0
                else schedules[number % 97]
                if kind < 6
                else Once(delay=timedelta(minutes=20 + number % 10_000))
            )
            options = Options(
                name=f"Bill customer {number * 7919 % JOBS}",
                tags=(f"team-{number % 100}",),
                owner=f"user-{number % 9973}",
            )
            jobs.append(NewJob(new_id(), lane, schedule, b"{}", encode_options(options), None, None, None, b""))
        await store.intake.submit(DEFAULT_TENANT, jobs)
    indexer = SearchIndexer(store)
    while not await indexer.tick():
        pass
    if isinstance(store, PostgresStore):
        connection = await asyncpg.connect(dsn)
        await connection.execute(HISTORY.replace("$1", str(JOBS)), timeout=3600)
        await connection.execute("analyze", timeout=600)
        await connection.close()
    else:
        _fill_history(dsn.removeprefix("sqlite:///"))
    console.print(f"  {JOBS:,} jobs and as much history in {time.perf_counter() - began:.0f} s", style="dim")


def _fill_history(path: str) -> None:
    """As much as PostgreSQL gets, over the same time."""
    now = time.time_ns() // 1000
    with sqlite3.connect(path) as file:
        rows = ((number, now - (JOBS - number) * 70_000) for number in range(JOBS))
        since = now - 86_400_000_000
        file.executemany(
            HISTORY_SQLITE,
            (
                {
                    "id": (at // 1000 << 80 | 8 << 76 | 2 << 62 | number).to_bytes(16, "big"),
                    "at": at,
                    "failed": number % 50 == 0,
                }
                for number, at in rows
                if at > since
            ),
        )


def _p95(took: list[float]) -> float:
    return quantiles(took, n=20)[-1]


async def _asked(
    connection: Connection, path: str, report: Report, kind: str, name: str, cpu: Callable[[], float]
) -> list[float]:
    now = datetime.now(UTC)
    moments = {
        "week": now + timedelta(days=7, minutes=-1),
        "then": now - timedelta(hours=9),
        "soon_after": now - timedelta(hours=8),
    }
    took = []
    before = cpu()
    for number in range(ASKS):
        given = {each: f"{moment:%Y-%m-%dT%H:%M:%SZ}" for each, moment in moments.items()} | {"two": str(10 + number)}
        # What is remembered for a moment would flatter the figure.
        fresh = path.format(**given) + (f"?window={60 + number}" if path == "/v1/stats" else "")
        began = time.perf_counter()
        await connection.get(fresh, {})
        took.append((time.perf_counter() - began) * 1000)
    report.ours(kind, f"{name}, CPU", (cpu() - before) / ASKS * 1000, unit="ms of CPU")
    return took


async def _viewed(browser: Browser, url: str, key: str, path: str, shown: str) -> float:
    """From an empty cache to figures on the screen."""
    context = await browser.new_context()
    await context.request.post(f"{url}/login", data={"key": key})
    page = await context.new_page()
    began = time.perf_counter()
    await page.goto(url + path, wait_until="commit")
    # Looked for in every frame: waiting for a selector looks again after half a second.
    await page.wait_for_function("shown => document.querySelector(shown)", arg=shown, polling="raf")
    took = (time.perf_counter() - began) * 1000
    await context.close()
    return took


async def _grown(browser: Browser, store: Store, url: str, key: str) -> float:
    """By how much a tab grows while events arrive, after its garbage was collected, from a fifth of the time on."""
    context = await browser.new_context()
    await context.request.post(f"{url}/login", data={"key": key})
    page = await context.new_page()
    await page.goto(url + "/jobs")
    await page.wait_for_selector("main tbody tr")
    session = await context.new_cdp_session(page)
    telling = asyncio.create_task(_tell(store))
    sizes: list[float] = []
    for _ in range(10):
        await asyncio.sleep(SECONDS / 10)
        await session.send("HeapProfiler.collectGarbage")
        sizes.append((await session.send("Runtime.getHeapUsage"))["usedSize"] / 1e6)
        console.print(f"  a tab with {EVENTS} events/s: {sizes[-1]:.1f} MB", style="dim")
    telling.cancel()
    told = await asyncio.gather(telling, return_exceptions=True)
    console.print(f"  from {sizes[1]:.1f} to {sizes[-1]:.1f} MB in {SECONDS} s ({told})")
    await context.close()
    return sizes[-1] / sizes[1]


async def _tell(store: Store) -> None:
    """So many events a second, each of a transaction of its own."""
    began, told = time.perf_counter(), 0
    while True:
        due = int((time.perf_counter() - began) * EVENTS) - told
        for _ in range(0, due, 8):
            await asyncio.gather(
                *(store.events.append_events(EventKind.SUCCEEDED, DEFAULT_TENANT, [new_id()]) for _ in range(8))
            )
        told += due
        await asyncio.sleep(0.01)
