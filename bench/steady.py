"""Steady: submitting and running at the same time, at a fixed rate; the highest one at which p95 lag stays under 1 s.

A process submits and a worker process runs, for duetime on PostgreSQL as for its peers; an embedded file does both in
one process. Lag is counted from when a job should have been sent to when its task begins.
"""

import math
from collections.abc import Awaitable, Callable

from bench.context import Bench
from bench.goals import Target
from bench.peers.environments import CannotRun
from bench.peers.peer import Peer
from bench.report import console

MOST_LAG = 1.0
STEPS = 5
TARGETS = {("postgres", "highest rate"): Target(least=20_000, of_best_peer=1.1)}
# Where the search begins, in runs a second: about what each can do on two cores.
FIRST = {
    "duetime": 20_000.0,
    "celery": 700.0,
    "dramatiq": 4_000.0,
    "rq": 400.0,
    "huey": 5_000.0,
    "arq": 1_500.0,
    "procrastinate": 400.0,
    "pgqueuer": 14_000.0,
    "apscheduler": 100.0,
    "apscheduler-memory": 2_000.0,
    "graphile": 18_000.0,
}


async def run(bench: Bench) -> None:
    report = bench.report("steady", "runs/s")
    seconds = bench.knobs.seconds
    for _ in range(max(1, bench.knobs.rounds // 3)):
        report.ours("postgres", "highest rate", await highest_rate(bench.ours, bench, seconds))
        report.ours("sqlite", "highest rate", await highest_rate(bench.embedded, bench, seconds))
        for peer in bench.peers.all():
            try:
                figure = await highest_rate(peer, bench, seconds)
            except CannotRun as error:
                bench.peers.drop(peer, str(error))
                continue
            for kind in ("postgres", "sqlite"):
                report.peer(kind, "highest rate", peer.name, figure)
    report.notes["seconds at each rate"] = seconds
    report.finish(TARGETS, unavailable=bench.peers.unavailable)


async def highest_rate(peer: Peer, bench: Bench, seconds: float) -> float:
    """Found by bisection, within a few percent."""

    async def keeps_up(rate: float) -> bool:
        p95 = await peer.p95(rate, seconds)
        console.print(f"    {peer.name} at {rate:,.0f}/s: p95 lag {p95:,.3f} s", style="dim")
        return p95 <= MOST_LAG

    first = FIRST.get(peer.name, 1_000.0) * min(1.0, bench.knobs.runs / 100_000)
    return await bisect(keeps_up, first, STEPS)


async def bisect(keeps_up: Callable[[float], Awaitable[bool]], first: float, steps: int) -> float:
    """The highest rate that is kept up with: 0 when there is none."""
    low, high, rate = 0.0, math.inf, first
    for _ in range(steps):
        if await keeps_up(rate):
            low = rate
        else:
            high = rate
        rate = low * 1.5 if high == math.inf else rate / 2 if low == 0.0 else (low + high) / 2
        if low and high / low < 1.06:
            break
    return low
