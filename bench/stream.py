"""Stream: ready no-op runs through Redis and one worker process, with history and one completion per run id.

The runs are in the stream before the worker starts. The limit is a pinned loop of the raw clients (`limits/stream.py`).
Both go from the first read to the last completion. The same worker drains the same number of runs from the store's own
lanes for comparison. Latency is the time from publishing to an idle worker until the task begins. The notes have the
CPU time of the database per run, from the submission in bulk to the end, both ways.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

from bench import drain, limits
from bench.context import Bench
from bench.ended import ended_rate
from bench.goals import Target
from bench.processes import cpu_of_family
from bench.shares import share
from bench.stores import migrated
from duetime.crypto.sealer import Sealer
from duetime.engine.intake import prepare
from duetime.model.carried import StreamSettings
from duetime.model.job import DEFAULT_TENANT
from duetime.model.lane import Tier
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import Store
from duetime.streams.address import broker_at
from duetime.streams.message import MessageCodec
from duetime.streams.names import StreamName, streams_of
from duetime.streams.protocol import Broker
from duetime.worker.capacity import WorkerLimits
from duetime.worker.stream_source import StreamSource
from duetime.worker.task import define
from duetime.worker.worker import Worker
from tests.support.redis_server import RedisServer

QUEUE = "stream"
SLOTS = 1_000
GAP = 0.02
COST = "database, µs of CPU per run"
TARGETS = {
    ("postgres", "redis"): Target(of_limit=0.6, of_best_peer=3.0),
    ("postgres", "idle to started p50, ms"): Target(most=2.0),
}


async def run(bench: Bench) -> None:
    report = bench.report("stream", "runs/s")
    runs = bench.knobs.scaled(100_000)
    report.notes |= {"slots": SLOTS, "runs": runs}
    with RedisServer(appendonly="yes", appendfsync="everysec") as redis:
        for _ in range(bench.knobs.rounds):
            report.limit("postgres", "redis", await limits.drain_redis(bench.databases.postgres(), redis.address, runs))
            cost: dict[str, float] = {}
            report.ours("postgres", "redis", await _drain(bench, redis, runs, cost))
            report.ours("postgres", "store", await _drain_store(bench, runs, cost))
            cost["stream / store"] = cost["stream"] / cost["store"]
            report.notes.setdefault(COST, []).append(cost)
            lags = await _lags(bench, redis, int(bench.knobs.seconds / GAP))
            report.ours("postgres", "idle to started p50, ms", share(lags, 0.5) * 1000)
            async for peer, figure in bench.peers.measured(lambda peer: peer.drain(bench.knobs.scaled(peer.drains))):
                report.peer("postgres", "redis", peer.name, figure)
    report.finish(TARGETS, unavailable=bench.peers.unavailable, failed=bench.peers.failed)


@contextmanager
def _database_cost(bench: Bench, runs: int, cost: dict[str, float], name: str) -> Iterator[None]:
    """What the database uses inside the block, in microseconds of CPU per run."""
    pid = bench.databases.server.pid
    before = cpu_of_family(pid)
    yield
    cost[name] = (cpu_of_family(pid) - before) / runs * 1e6


async def _drain(bench: Bench, redis: RedisServer, runs: int, cost: dict[str, float]) -> float:
    dsn = bench.databases.postgres()
    async with migrated(PostgresStore(dsn)) as store, _streamed(store, redis) as (broker, stream):
        with _database_cost(bench, runs, cost, "stream"):
            await fill(store, broker, stream, runs)
            await drain_stream(store, runs)
        return await ended_rate(dsn, runs)


async def _drain_store(bench: Bench, runs: int, cost: dict[str, float]) -> float:
    dsn = bench.databases.postgres()
    async with migrated(PostgresStore(dsn)) as store:
        with _database_cost(bench, runs, cost, "store"):
            await drain.fill(store, runs)
            await drain.drain(store, drain.TASKS["async"], runs, slots=SLOTS)
        return await ended_rate(dsn, runs)


async def drain_stream(store: Store, runs: int, *, slots: int = SLOTS) -> None:
    worker = Worker(StreamSource(store), {"nothing": drain.TASKS["async"]}, WorkerLimits(slots=slots))
    working = asyncio.create_task(worker.run())
    try:
        await drain._completed(worker, working, runs)
    finally:
        worker.stop()
        await working


@asynccontextmanager
async def _streamed(store: Store, redis: RedisServer) -> AsyncIterator[tuple[Broker, StreamName]]:
    address = f"{redis.address}?prefix=b{uuid.uuid4().hex[:12]}"
    queue = await store.streams.set_stream(DEFAULT_TENANT, QUEUE, StreamSettings(address))
    assert queue is not None
    broker = broker_at(address)
    await broker.open()
    try:
        names = streams_of(queue, shared=broker.shared)
        await broker.check([name.text for name in names.values()])
        yield broker, names[Tier.MEDIUM]
    finally:
        await broker.close()


async def fill(store: Store, broker: Broker, stream: StreamName, runs: int, task: str = "nothing") -> None:
    """Ready runs, with 200 bytes of arguments and a timeout, as a submission publishes them."""
    codec = MessageCodec(Sealer(()))
    for start in range(0, runs, 1000):
        jobs = [
            prepare(task=task, args={"to": "x" * 190}, max_payload=1000, queue=QUEUE, timeout=timedelta(seconds=30))
            for _ in range(min(1000, runs - start))
        ]
        await broker.publish(stream.text, await codec.pack(stream, await store.streams.carry(DEFAULT_TENANT, jobs)))


async def _lags(bench: Bench, redis: RedisServer, count: int) -> list[float]:
    """Seconds from publishing to the start of the task, sorted."""
    began, started_at = asyncio.Event(), 0.0

    async def note(to: str) -> None:
        nonlocal started_at
        started_at = time.perf_counter()
        began.set()

    lags = []
    async with (
        migrated(PostgresStore(bench.databases.postgres())) as store,
        _streamed(store, redis) as (broker, stream),
    ):
        worker = Worker(StreamSource(store), {"note": define("note", note)}, WorkerLimits(slots=100))
        working = asyncio.create_task(worker.run())
        for number in range(count + 5):
            await asyncio.sleep(GAP)
            began.clear()
            sent = time.perf_counter()
            await fill(store, broker, stream, 1, "note")
            await began.wait()
            if number >= 5:
                lags.append(started_at - sent)
        worker.stop()
        await working
    return sorted(lags)
