"""Remote: workers over HTTP on one server process. 2,000 connected with 200 of them busy; and 20 at full speed.

No peer serves workers over HTTP; `submit` shows what HTTP itself allows.
"""

import asyncio
import random
import time
from datetime import UTC, datetime
from typing import Any

from bench.context import Bench
from bench.goals import Target
from bench.load import Connection, allow_many_connections
from bench.processes import Process, duetime_server, root_key
from bench.report import Report, console
from bench.shares import share
from bench.stores import migrated
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.store.postgres import PostgresStore

CONNECTED, BUSY, SECONDS = 2_000, 200, 15
FLAT_OUT, ROOM, RUNS = 20, 100, 30_000
TARGETS = {
    ("postgres", "2,000 connected: p95"): Target(most=100.0),
    ("postgres", "2,000 connected: CPU"): Target(most=100.0),
    ("postgres", "2,000 connected: memory"): Target(most=500.0),
    ("postgres", "20 flat out"): Target(least=3_000.0),
}


async def run(bench: Bench) -> None:
    allow_many_connections()
    report = bench.report("remote", "runs/s")
    connected, seconds = bench.knobs.scaled(CONNECTED, least=20), min(SECONDS, bench.knobs.seconds * 1.5)
    for measure in (_connected, _flat_out):
        dsn = bench.databases.postgres()
        async with migrated(PostgresStore(dsn)) as store:
            key = await root_key(store)
            with duetime_server(dsn) as server:
                if measure is _connected:
                    await _connected(store, server, key, report, connected, seconds)
                else:
                    for _ in range(bench.knobs.rounds):
                        await _flat_out(store, server, key, report, bench.knobs.scaled(RUNS))
    report.finish(TARGETS)


class RawWorker:
    """A worker by the protocol alone."""

    def __init__(self, url: str, key: str) -> None:
        self._connection = Connection(url, key)
        self._beats = Connection(url, key)
        self._path = ""
        self._session: dict[str, str] = {}
        self._number = 0

    async def register(self) -> None:
        await self._connection.open()
        body = {"name": "bench", "tasks": ["nothing"], "slots": ROOM, "lease": 60}
        registered = await self._connection.post("/v1/workers", body)
        self._path = f"/v1/workers/{registered['worker_id']}"
        self._session = {"Duetime-Worker-Token": registered["token"]}

    async def claim(self, room: int, wait: float) -> list[dict[str, Any]]:
        self._number += 1
        body = {"claim_no": self._number, "room": room, "wait": wait}
        runs: list[dict[str, Any]] = (await self._connection.post(f"{self._path}/claim", body, self._session))["runs"]
        return runs

    async def complete(self, runs: list[dict[str, Any]]) -> None:
        done = [{"run_id": run["run_id"], "fence": run["fence"], "state": "SUCCEEDED"} for run in runs]
        body = {"completions": done, "closed_claims": [self._number]}
        answer = await self._connection.post(f"{self._path}/complete", body, self._session)
        assert not answer["refused"], answer

    async def beat(self) -> None:
        """Every 20 seconds or sooner, on a connection that is opened for it: polls keep the other one busy. In a fleet
        that has been up for a while, everyone has a rhythm of its own."""
        await asyncio.sleep(random.uniform(0.0, 20.0))
        while True:
            await asyncio.sleep(random.uniform(16.0, 20.0))
            await self._beats.open()
            body = {"open_claims": [self._number or 1], "lease": 60}
            await self._beats.post(f"{self._path}/heartbeat", body, self._session)
            self._beats.close()

    def close(self) -> None:
        self._connection.close()


async def _connected(
    store: PostgresStore, server: Process, key: str, report: Report, connected: int, seconds: float
) -> None:
    """Each run takes a second. As many runs come each second as workers are to be busy."""
    workers = [RawWorker(server.url, key) for _ in range(connected)]
    for start in range(0, connected, 50):
        await asyncio.gather(*(worker.register() for worker in workers[start : start + 50]))
    waits: list[float] = []

    async def work(worker: RawWorker) -> None:
        while True:
            for run in await worker.claim(1, 30):
                ready = datetime.fromisoformat(run["ready_at"])
                waits.append((datetime.now(UTC) - ready).total_seconds() * 1000)
                await asyncio.sleep(1)
                await worker.complete([run])

    tasks = [asyncio.create_task(each) for worker in workers for each in (work(worker), worker.beat())]
    await asyncio.sleep(3)
    await _submit_steadily(store, connected // 10, 3)
    waits.clear()
    before, began = server.cpu, time.perf_counter()
    await _submit_steadily(store, connected // 10, seconds)
    busy = (server.cpu - before) / (time.perf_counter() - began) * 100
    report.ours("postgres", "2,000 connected: CPU", busy, unit="% of a core", better="lower")
    report.ours("postgres", "2,000 connected: memory", server.memory, unit="MB", better="lower")
    waits.sort()
    for name, part in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
        report.ours("postgres", f"2,000 connected: {name}", share(waits, part), unit="ms", better="lower")
    console.print(f"    {len(waits) / seconds:.0f} runs/s were dealt", style="dim")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for worker in workers:
        worker.close()


async def _submit_steadily(store: PostgresStore, busy: int, seconds: float) -> None:
    began = time.perf_counter()
    for step in range(int(seconds * 10)):
        await store.intake.submit(DEFAULT_TENANT, [_job() for _ in range(max(1, busy // 10))])
        await asyncio.sleep(max(0.0, began + (step + 1) / 10 - time.perf_counter()))


async def _flat_out(store: PostgresStore, server: Process, key: str, report: Report, runs: int) -> None:
    for _ in range(0, runs, 1000):
        await store.intake.submit(DEFAULT_TENANT, [_job() for _ in range(1000)])
    workers = [RawWorker(server.url, key) for _ in range(FLAT_OUT)]
    for worker in workers:
        await worker.register()
    done = 0

    async def work(worker: RawWorker) -> None:
        nonlocal done
        while done < runs:
            claimed = await worker.claim(ROOM, 1)
            if claimed:
                await worker.complete(claimed)
                done += len(claimed)

    before, began = server.cpu, time.perf_counter()
    await asyncio.gather(*map(work, workers))
    report.ours("postgres", "20 flat out", runs / (time.perf_counter() - began))
    console.print(f"    {(server.cpu - before) / runs * 1e6:.0f} µs of the server's CPU for each", style="dim")
    for worker in workers:
        worker.close()


def _job() -> Any:
    return prepare(task="nothing", args={"to": "x" * 190}, max_payload=1000)
