"""Bloat: an hour's worth of churn (3.6 million runs, submitted and run at full speed) while a transaction is held open.

Vacuum can remove nothing that the open transaction might still see. A sixtieth of the churn is a minute's worth: the
last minute must reach at least three quarters of the throughput of the first. The benchmark is compared only with
itself.
"""

import time

import asyncpg

from bench.context import Bench
from bench.drain import fill
from bench.goals import Target
from bench.peers.peer import Peer
from bench.peers.tally import Tally
from bench.report import console
from bench.stores import migrated
from duetime.store.postgres import PostgresStore

MINUTES = 60
WARM = 1_000
TARGETS = {("postgres", "last minute over first"): Target(least=0.75)}


async def run(bench: Bench) -> None:
    report = bench.report("bloat", "runs/s")
    minute = max(100, bench.knobs.churn // MINUTES)
    report.notes |= {"runs": minute * MINUTES, "a minute's worth": minute}
    dsn = bench.databases.postgres()
    async with migrated(PostgresStore(dsn)) as store:
        holding = await asyncpg.connect(dsn)
        transaction = holding.transaction(isolation="repeatable_read")
        await transaction.start()
        await holding.fetchval("select count(*) from duetime.runs")
        async with bench.ours.working(dsn) as tally:
            rates = await _churn(bench.ours, store, tally, minute)
        dead = await holding.fetchval("select pg_size_pretty(pg_total_relation_size('duetime.runs'))")
        report.notes |= {"runs/s in each minute": [round(rate) for rate in rates], "size of runs at the end": dead}
        await transaction.rollback()
        await holding.close()
    # Three minutes at each end, so that one checkpoint does not decide.
    first, last = (sum(part) / len(part) for part in (rates[:3], rates[-3:]))
    report.ours("postgres", "first minute", first)
    report.ours("postgres", "last minute", last)
    report.ours("postgres", "last minute over first", last / first, unit="×")
    report.ours("postgres", "worst minute over best", min(rates) / max(rates), unit="×")
    report.finish(TARGETS)


async def _churn(ours: Peer, store: PostgresStore, tally: Tally, minute: int) -> list[float]:
    """Submitted from here, run by a worker process."""
    await fill(store, WARM, sent=time.time())
    await ours.until(tally, WARM)  # everything is warm when counting begins
    rates: list[float] = []
    for number in range(MINUTES):
        began = time.perf_counter()
        await fill(store, minute, sent=time.time())
        await ours.until(tally, wanted := WARM + (number + 1) * minute)
        assert tally.count() >= wanted, f"{tally.count():,} of {wanted:,} runs started, and then none"
        rates.append(minute / (time.perf_counter() - began))
        if number % 5 == 0:
            console.print(f"    minute {number + 1}: {rates[-1]:,.0f} runs/s", style="dim")
    return rates
