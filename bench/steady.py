"""Steady: submitting and running at the same time, at a fixed rate; the highest rate at which p95 lag stays under 1 s.

One process submits and a worker process runs, for duetime on PostgreSQL as for its peers; an embedded file does both in
one process. Lag counts from when a job should have been sent to when its task begins. The rate is found by bisection
within 6 %, a few seconds at each step. Then it is held five times as long in each round, and lag must not grow. A
system that does not hold its rate is tried again at rates lowered in steps of 5 %; one that holds none of them has
failed.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

from bench import limits
from bench.context import Bench
from bench.goals import Target
from bench.peers.environments import CannotRun
from bench.peers.peer import Peer
from bench.report import Report, console
from bench.shares import share

KINDS = ("postgres", "sqlite")
RATE = "highest rate"
MOST_LAG = 1.0
MOST_TRIES = 16
CLOSE = 1.06
"""What is searched for is found when the lowest rate that was too much is so little above what was kept up with."""
SEARCHED, HELD = 0.6, 3.0
"""How long a rate is tried while it is searched for, and how long it must be held, in parts of SECONDS."""
STEP_DOWN, MOST_STEPS = 0.95, 8
GROWN, GROWN_BY = 1.5, 0.05
"""Lag grows where p95 of the last third is above that of the middle one by this factor and so many seconds."""
TARGETS = {("postgres", RATE): Target(least=20_000, of_best_peer=1.1, stretch=26_000)}
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
    "apscheduler": 700.0,
    "apscheduler-memory": 2_000.0,
    "graphile": 18_000.0,
}


async def run(bench: Bench) -> None:
    report = bench.report("steady", "runs/s")
    seconds = bench.knobs.seconds
    report.notes |= {"seconds at each rate": SEARCHED * seconds, "seconds for which it is held": HELD * seconds}
    tried: dict[Peer, float] = {}
    """Where each one's next round begins."""
    for _ in range(bench.knobs.rounds):
        await _limits(bench, report)
        for kind, ours in zip(KINDS, (bench.ours, bench.embedded), strict=True):
            report.ours(kind, RATE, await _ours(ours, bench, tried))
        async for peer, figure in bench.peers.measured(lambda peer: _round(peer, bench, tried)):
            for kind in KINDS:
                report.peer(kind, RATE, peer.name, figure)
    report.finish(TARGETS, unavailable=bench.peers.unavailable, failed=bench.peers.failed)


async def _limits(bench: Bench, report: Report) -> None:
    runs = bench.knobs.scaled(100_000, least=1_000)
    report.limit("postgres", RATE, await limits.steady_postgres(bench.databases.postgres(), runs))
    report.limit("sqlite", RATE, await asyncio.to_thread(limits.steady_sqlite, bench.databases.file(), runs))


async def _ours(ours: Peer, bench: Bench, tried: dict[Peer, float]) -> float:
    """duetime is not left out where it fails: nothing is what it holds then."""
    try:
        return await _round(ours, bench, tried)
    except CannotRun as error:
        console.print(f"  duetime: {error}", style="bold red", markup=False)
        return 0.0


async def _round(peer: Peer, bench: Bench, tried: dict[Peer, float]) -> float:
    """The rate that it holds; in the first round it is searched for."""
    found = tried.pop(peer, None)
    if found is None:
        found = await highest_rate(peer, bench)

    async def is_held(rate: float) -> bool:
        lags = await peer.lags(rate, HELD * bench.knobs.seconds)
        held = holds(lags)
        _say(peer, rate, lags, "held" if held else "not held")
        return held

    rate = await step_down(is_held, found)
    if not rate:
        raise CannotRun(f"it held none of {MOST_STEPS} rates from {found:,.0f} a second downwards")
    # One step above what was held, but no further than what was found: the next round may do better.
    tried[peer] = min(found, rate / STEP_DOWN)
    return rate


async def highest_rate(peer: Peer, bench: Bench) -> float:
    """Found by bisection, within a few percent; raises `CannotRun` when it keeps up with none."""

    async def keeps_up(rate: float) -> bool:
        lags = await peer.lags(rate, SEARCHED * bench.knobs.seconds)
        return _say(peer, rate, lags, "tried") <= MOST_LAG

    first = FIRST.get(peer.name, 1_000.0) * min(1.0, bench.knobs.runs / 100_000)
    rate = await bisect(keeps_up, first, MOST_TRIES)
    if not rate:
        raise CannotRun(f"it kept up with none of {MOST_TRIES} rates from {first:,.0f} a second downwards")
    return rate


def _say(peer: Peer, rate: float, lags: Sequence[float], what: str) -> float:
    p95 = share(sorted(lags), 0.95)
    console.print(f"    {peer.name} at {rate:,.0f}/s, {what}: p95 lag {p95:,.3f} s", style="dim")
    return p95


def holds(lags: Sequence[float]) -> bool:
    """Whether these lags, in the order of sending, are short enough and do not grow."""
    third = len(lags) // 3
    middle, last = (share(sorted(part), 0.95) for part in (lags[third : 2 * third], lags[2 * third :]))
    return share(sorted(lags), 0.95) <= MOST_LAG and last <= GROWN * middle + GROWN_BY


async def step_down(is_held: Callable[[float], Awaitable[bool]], rate: float) -> float:
    """The first rate from here on downwards that is held: 0 when none is."""
    for _ in range(MOST_STEPS):
        if await is_held(rate):
            return rate
        rate *= STEP_DOWN
    return 0.0


async def bisect(keeps_up: Callable[[float], Awaitable[bool]], first: float, most: int) -> float:
    """The highest rate that is kept up with, by so many tries at most: 0 when there is none."""
    low, high, rate = 0.0, math.inf, first
    for _ in range(most):
        if await keeps_up(rate):
            low = rate
        else:
            high = rate
        rate = low * 1.5 if high == math.inf else rate / 2 if low == 0.0 else (low + high) / 2
        if low and high / low < CLOSE:
            break
    return low
