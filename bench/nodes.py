"""Nodes: 1, 2 and 4 worker processes drain the same lane on PostgreSQL. Two cores serve them and the database.

The limit is that of a drain, one connection. In `drain`, peers in their best settings already use as many processes as
they like. Four processes count as not collapsed if they reach nine tenths of the throughput of one: they have no core
of their own. Workers have 1,000 slots each; other rows have the default of 200. With no-op runs, a second process gets
only what the first one and the database leave idle. Other rows therefore use functions that compute for about 50 µs,
where worker processes are the bottleneck.
"""

from bench import limits
from bench.context import Bench
from bench.drain import AS_IT_COMES, SLOTS
from bench.gates import gate
from bench.goals import Target
from bench.peers.peer import Peer

PROCESSES = (1, 2, 4)
NAMES = {processes: f"{processes} process{'es' if processes > 1 else ''}" for processes in PROCESSES}
VARIANTS = {
    "": {"PEER_SLOTS": str(SLOTS)},
    f", {AS_IT_COMES} slots": {"PEER_SLOTS": str(AS_IT_COMES)},
    ", 50 µs to compute": {"PEER_SLOTS": str(SLOTS), "PEER_TASK": "computing"},
}
"""What the name of a variant ends with, and what its driver is told."""
TARGETS = {
    ("postgres", f"{processes} over 1{variant}"): Target(least=least)
    for variant in VARIANTS
    for processes, least in ((2, 1.2), (4, 0.9))
}


async def drain_by(peer: Peer, runs: int, workers: int, **environ: str) -> float:
    """Runs a second by so many worker processes, all of them up before they begin."""
    dsn = peer.place()
    await peer.fill(dsn, runs, **environ)
    async with gate(dsn) as before:
        await before.close()
        async with peer.working(dsn, workers, **environ) as tally:
            await before.open(workers)
            return await peer.drained(tally, runs)


async def run(bench: Bench) -> None:
    report = bench.report("nodes", "runs/s")
    runs = bench.knobs.scaled(200_000)
    report.notes |= {"runs": runs, "slots of each": SLOTS}
    for _ in range(bench.knobs.rounds):
        limit = await limits.drain_postgres(bench.databases.postgres(), bench.knobs.scaled(100_000))
        for variant, told in VARIANTS.items():
            for processes, name in NAMES.items():
                rate = await drain_by(bench.ours, runs, processes, **told)
                report.ours("postgres", name + variant, rate)
                if told.get("PEER_TASK") is None:  # the limit computes nothing
                    report.limit("postgres", name + variant, limit)
    for variant in VARIANTS:
        one = report.median_of("postgres", NAMES[1] + variant)
        for processes in PROCESSES[1:]:
            ratio = report.median_of("postgres", NAMES[processes] + variant) / one
            report.ours("postgres", f"{processes} over 1{variant}", ratio, unit="×")
    report.finish(TARGETS)
