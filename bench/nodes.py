"""Nodes: 1, 2 and 4 worker processes drain the same lane on PostgreSQL. Two cores serve them and the database.

The limit is that of a drain, one connection. Peers in their best settings have as many processes as they like in
`drain` already. Four do not collapse when they reach nine tenths of what one does: they have no core of their own.
Workers have 1,000 slots each; and once more the 200 that a worker has when it is told nothing.
"""

from bench import limits
from bench.context import Bench
from bench.drain import AS_IT_COMES, SLOTS
from bench.gates import gate
from bench.goals import Target
from bench.peers.peer import Peer

PROCESSES = (1, 2, 4)
NAMES = {processes: f"{processes} process{'es' if processes > 1 else ''}" for processes in PROCESSES}
SLOTS_OF = {"": SLOTS, f", {AS_IT_COMES} slots": AS_IT_COMES}
"""What the name of a variant says of the slots of each, and how many they are."""
TARGETS = {
    ("postgres", f"{processes} over 1{told}"): Target(least=least)
    for told in SLOTS_OF
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
        for told, slots in SLOTS_OF.items():
            for processes, name in NAMES.items():
                rate = await drain_by(bench.ours, runs, processes, PEER_SLOTS=str(slots))
                report.ours("postgres", name + told, rate)
                report.limit("postgres", name + told, limit)
    for told in SLOTS_OF:
        one = report.median_of("postgres", NAMES[1] + told)
        for processes in PROCESSES[1:]:
            ratio = report.median_of("postgres", NAMES[processes] + told) / one
            report.ours("postgres", f"{processes} over 1{told}", ratio, unit="×")
    report.finish(TARGETS)
