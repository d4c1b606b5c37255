"""Stream: ready no-op runs through a broker and one worker process, with history and one completion per run id.

duetime is driven like its peers: one process submits, then a worker process with 1,000 slots starts. The limit is a
pinned loop of the raw clients (`limits/stream.py`, `limits/kafka.py`). Both go from the first read to the last
completion. The worker's CPU per run beside that of the loop says the same on a machine that is not quiet. The same
worker drains the same number of runs from the store's own lanes for comparison. The peers are those on Redis, which
keep jobs in its memory only; duetime's Redis writes its log every second.

Submitting is compared with submitting to the store in the same run: `App.submit` one at a time, and one job per HTTP
request, from one caller and from 64 at once: with 64, the server process is the bound of both (docs/decisions/0026).
Latency is the time from publishing to an idle worker until the task begins. What a run costs the database is a part of
what it costs through the store (`stream_cost.py`).
"""

import asyncio
import time
from contextlib import ExitStack

import msgspec

from bench import limits
from bench.context import Bench
from bench.ended import ended_rate
from bench.goals import Target
from bench.limits.stream import Drained
from bench.peers.names import REDIS_PEERS
from bench.processes import duetime_server, root_key
from bench.report import Report
from bench.shares import share
from bench.stores import migrated
from bench.stream_cost import KINDS, cost_of, weigh, worker_cpu
from bench.streamed import apart, publishing, through
from bench.submit import send
from duetime.model.job import DEFAULT_QUEUE
from duetime.store.postgres import PostgresStore
from duetime.worker.capacity import WorkerLimits
from duetime.worker.stream_source import StreamSource
from duetime.worker.task import define
from duetime.worker.worker import Worker
from tests.support.jvm_servers import KafkaServer
from tests.support.redis_server import RedisServer

QUEUE = "stream"
GAP = 0.02
CALLERS = {"http single": 64, "http single, one caller": 1}
RATIO = "× the store's"
PART = "% of the store's"
JOB = msgspec.json.encode({"task": "nothing", "args": {"to": "x" * 190}})
TARGETS = {
    ("postgres", "redis"): Target(of_limit=0.6, of_best_peer=3.0, among=REDIS_PEERS),
    ("postgres", "kafka"): Target(of_limit=0.5),
    ("postgres", "App.submit"): Target(least=3.0),
    **{("postgres", name): Target(least=1.3) for name in CALLERS},
    ("postgres", "idle to started p50"): Target(most=2.0),
    ("postgres", "database CPU, plain"): Target(most=45.0),
    **{("postgres", f"database CPU, {kind}"): Target(most=110.0) for kind in KINDS if kind != "plain"},
}


async def run(bench: Bench) -> None:
    report = bench.report("stream", "runs/s")
    runs = bench.knobs.scaled(100_000)
    report.notes |= {"runs": runs, "runs for a cost": bench.knobs.scaled(100_000, least=1_000), "costs": {}}
    with ExitStack() as brokers:
        redis = brokers.enter_context(RedisServer(appendonly="yes", appendfsync="everysec"))
        kafka = None
        if (missing := KafkaServer.missing()) is None:
            kafka = brokers.enter_context(KafkaServer())
        else:
            report.notes["not measured"] = missing
        for _ in range(bench.knobs.rounds):
            limit = await limits.drain_redis(bench.databases.postgres(), redis.address, runs)
            await _beside(bench, report, "redis", runs, redis.address, limit)
            if kafka is not None:
                servers = f"127.0.0.1:{kafka.port}"
                limit = await limits.drain_kafka(bench.databases.postgres(), servers, runs)
                await _beside(bench, report, "kafka", runs, kafka.address, limit)
            await _drain(bench, report, "store", runs)
            await _submitting(bench, report, redis)
            await _costs(bench, report, redis)
            lags = await _lags(bench, redis, int(bench.knobs.seconds / GAP))
            report.ours("postgres", "idle to started p50", share(lags, 0.5) * 1000, unit="ms", better="lower")
            drained = bench.peers.measured(lambda peer: peer.drain(bench.knobs.scaled(peer.drains)), among=REDIS_PEERS)
            async for peer, figure in drained:
                report.peer("postgres", "redis", peer.name, figure)
        await weigh(bench, report, redis)
    report.finish(TARGETS, unavailable=bench.peers.unavailable, failed=bench.peers.failed)


async def _beside(bench: Bench, report: Report, broker: str, runs: int, address: str, limit: Drained) -> None:
    """Drain through a broker beside the raw loop, by the clock and by the CPU of the worker and of the loop."""
    report.limit("postgres", broker, limit.rate)
    await _drain(bench, report, broker, runs, PEER_STREAM=apart(address))
    spent = await worker_cpu(bench, bench.knobs.scaled(50_000, least=1_000), address)
    report.ours("postgres", f"{broker}, worker's CPU", spent, unit="µs per run", better="lower")
    report.limit("postgres", f"{broker}, worker's CPU", limit.cpu)


async def _drain(bench: Bench, report: Report, variant: str, runs: int, **told: str) -> None:
    place = bench.ours.place()
    started = await bench.ours.drain(runs, place, **told)
    report.ours("postgres", variant, started, beside_limit=await ended_rate(place, runs))


async def _submitting(bench: Bench, report: Report, redis: RedisServer) -> None:
    singles = bench.knobs.scaled(3_000)
    streamed = await bench.ours.submit(singles, bulk=False, PEER_STREAM=apart(redis.address))
    stored = await bench.ours.submit(singles, bulk=False)
    report.ours("postgres", "App.submit", streamed / stored, unit=RATIO)
    rates: dict[str, list[float]] = {name: [] for name in CALLERS}
    for address in (apart(redis.address), None):
        dsn = bench.databases.postgres()
        async with migrated(PostgresStore(dsn)) as store:
            key = await root_key(store)
            if address is not None:
                await through(store, DEFAULT_QUEUE, address)
        with duetime_server(dsn) as server:
            for name, callers in CALLERS.items():
                requests = bench.knobs.scaled(6_000 if callers > 1 else 1_500)
                rates[name].append(await send(server.url, key, "/v1/jobs", JOB, "application/json", requests, callers))
    for name, (through_redis, to_the_store) in rates.items():
        report.ours("postgres", name, through_redis / to_the_store, unit=RATIO)
    report.notes.setdefault("submitted a second, through Redis and to the store", []).append(
        {"App.submit": [streamed, stored], **rates}
    )


async def _costs(bench: Bench, report: Report, redis: RedisServer) -> None:
    """What runs of each kind cost the database, as a part of what they cost through the store."""
    runs = bench.knobs.scaled(100_000, least=1_000)
    for kind in KINDS:
        streamed = await cost_of(bench, kind, runs, redis.address)
        stored = await cost_of(bench, kind, runs, None)
        report.ours("postgres", f"database CPU, {kind}", 100 * streamed / stored, unit=PART, better="lower")
        report.notes["costs"].setdefault(f"{kind}: µs of database CPU, through Redis and the store", []).append(
            [streamed, stored]
        )


async def _lags(bench: Bench, redis: RedisServer, count: int) -> list[float]:
    """Seconds from publishing to the start of the task, sorted."""
    began, started_at = asyncio.Event(), 0.0

    async def note(sent: float, to: str) -> None:
        nonlocal started_at
        started_at = time.perf_counter()
        began.set()

    lags = []
    async with (
        migrated(PostgresStore(bench.databases.postgres())) as store,
        publishing(store, QUEUE, apart(redis.address)) as publisher,
    ):
        worker = Worker(StreamSource(store), {"note": define("note", note)}, WorkerLimits(slots=100))
        working = asyncio.create_task(worker.run())
        for number in range(count + 5):
            await asyncio.sleep(GAP)
            began.clear()
            sent = time.perf_counter()
            await publisher.publish(1, "note")
            await began.wait()
            if number >= 5:
                lags.append(started_at - sent)
        worker.stop()
        await working
    return sorted(lags)
