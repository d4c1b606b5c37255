"""Dashboard: how long pages take with a million jobs and as much history, and whether the memory of a tab that receives
a thousand events a second stays constant.

There is no limit and no peer to compare pages with. DASHBOARD_JOBS (1,000,000) and DASHBOARD_SECONDS (600) make it
smaller. Needs a Chromium: see CONTRIBUTING.md.
"""

import asyncio
import os
import time
from datetime import timedelta
from statistics import quantiles

import asyncpg
from playwright.async_api import Browser, async_playwright

from bench.context import Bench
from bench.goals import Target
from bench.load import Connection
from bench.processes import duetime_server, root_key
from bench.report import console
from duetime.ids import new_id
from duetime.model.event import EventKind
from duetime.model.job import DEFAULT_TENANT, NewJob
from duetime.model.lane import LaneKey, Tier
from duetime.model.schedule import Every, Once, make_cron
from duetime.store.postgres import PostgresStore
from tests.browser.conftest import chromium

JOBS = int(os.environ.get("DASHBOARD_JOBS", "1000000"))
SECONDS = int(os.environ.get("DASHBOARD_SECONDS", "600"))
EVENTS = 1000
ASKS = 20
LISTS = (
    "/v1/jobs",
    "/v1/jobs?status=FAILED",
    "/v1/jobs?queue=q3",
    "/v1/runs",
    "/v1/runs?status=FAILED",
    "/v1/dead-letters",
    "/v1/queues",
)
GROWN = f"a tab with {EVENTS:,} events a second: last over first"
FIGURES = ("/v1/stats", "/v1/fires", "/v1/fires?end={week}&step=1h")
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


async def run(bench: Bench) -> None:
    store = PostgresStore(dsn := bench.databases.postgres())
    await store.open()
    await store.migrate()
    await store.pruning.prune(timedelta(days=30), timedelta(days=90))
    await _fill(store, dsn)
    key = await root_key(store)
    report = bench.report("dashboard", "ms, p95", better="lower")
    targets = {GROWN: 1.1}
    with duetime_server(dsn) as server:
        connection = await Connection(server.url, key).open()
        for path in (*LISTS, *FIGURES):
            targets[path] = 200.0
            report.ours("postgres", path, await _asked(connection, path))
        connection.close()
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            for path, shown in (("/", ".figures"), ("/jobs", "main tbody tr"), ("/calendar", ".heat")):
                targets[f"first view of {path}"] = 1000.0
                for _ in range(3):
                    report.ours(
                        "postgres", f"first view of {path}", await _viewed(browser, server.url, key, path, shown)
                    )
            report.ours("postgres", GROWN, await _grown(browser, store, server.url, key), unit="×")
            await browser.close()
    await store.close()
    report.finish({("postgres", name): Target(most=most) for name, most in targets.items()})


async def _fill(store: PostgresStore, dsn: str) -> None:
    began = time.perf_counter()
    schedules = [make_cron(f"{n % 60} {n % 24} * * *", "UTC") for n in range(97)]
    for start in range(0, JOBS, 5000):
        jobs = []
        for number in range(start, min(start + 5000, JOBS)):
            lane = LaneKey(DEFAULT_TENANT, f"q{number % 8}", Tier.MEDIUM, "bench.nothing")
            kind = number % 10
            schedule = (
                Every(timedelta(hours=1))
                if kind == 0
                else schedules[number % 97]
                if kind < 6
                else Once(delay=timedelta(minutes=20 + number % 10_000))
            )
            jobs.append(NewJob(new_id(), lane, schedule, b"{}", None, None, None, None, b""))
        await store.intake.submit(DEFAULT_TENANT, jobs)
    connection = await asyncpg.connect(dsn)
    await connection.execute(HISTORY.replace("$1", str(JOBS)), timeout=600)
    await connection.execute("analyze")
    await connection.close()
    console.print(f"  {JOBS:,} jobs and as much history in {time.perf_counter() - began:.0f} s", style="dim")


async def _asked(connection: Connection, path: str) -> float:
    week = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 7 * 86_400 - 60))
    took = []
    for number in range(ASKS):
        # What is remembered for a moment would flatter the figure.
        fresh = path.format(week=week) + (f"?window={60 + number}" if path == "/v1/stats" else "")
        began = time.perf_counter()
        await connection.ask("GET", fresh, b"", "application/json")
        took.append((time.perf_counter() - began) * 1000)
    return quantiles(took, n=20)[-1]


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


async def _grown(browser: Browser, store: PostgresStore, url: str, key: str) -> float:
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


async def _tell(store: PostgresStore) -> None:
    """So many events a second, each of a transaction of its own."""
    began, told = time.perf_counter(), 0
    while True:
        due = int((time.perf_counter() - began) * EVENTS) - told
        for _ in range(0, due, 8):
            await asyncio.gather(
                *(store.events.tell(EventKind.SUCCEEDED, DEFAULT_TENANT, [new_id()]) for _ in range(8))
            )
        told += due
        await asyncio.sleep(0.01)
