"""Sweep: the peers again, each in several settings, to find the ones in which it drains fastest.

Not part of `make bench`: `make bench SCENARIO=sweep PEERS=huey` for one of them. What is best is kept in the peer's
driver and in the registry.
"""

import json
from statistics import median

from bench.context import Bench
from bench.peers.environments import CannotRun
from bench.peers.peer import Peer
from bench.report import console

Settings = dict[str, str | int]
SETTINGS: dict[str, list[Settings]] = {
    "huey": [
        *[{"PEER_KIND": "process", "PEER_WORKERS": workers} for workers in (1, 2, 4, 8)],
        *[{"PEER_KIND": "thread", "PEER_WORKERS": workers} for workers in (1, 4)],
    ],
    "arq": [
        {"workers": workers, "PEER_MOST": most, "PEER_POLL": poll}
        for workers in (1, 2, 3)
        for most, poll in ((50, "0.01"), (200, "0.01"), (1000, "0.01"), (200, "0.001"))
    ],
    "procrastinate": [
        {"workers": workers, "PEER_CONCURRENCY": concurrency, "PEER_POOL": pool}
        for workers in (1, 2, 3)
        for concurrency, pool in ((10, 10), (30, 12), (100, 20))
    ],
    "pgqueuer": [
        {"workers": workers, "PEER_BATCH": batch, "PEER_POOL": pool}
        for workers in (1, 2)
        for batch, pool in ((250, 8), (500, 8), (1000, 4), (1000, 8), (2000, 8))
    ],
    "dramatiq": [
        {"PEER_PROCESSES": processes, "PEER_THREADS": threads} for processes in (1, 2, 3) for threads in (2, 4, 8, 16)
    ],
    "celery": [
        {"PEER_POOL": pool, "PEER_CONCURRENCY": concurrency, "workers": workers}
        for pool, concurrency, workers in (("prefork", 1, 1), ("prefork", 2, 1), ("threads", 4, 1), ("solo", 1, 2))
    ],
    "rq": [{"PEER_WORKERS": workers} for workers in (1, 2, 3)],
    "graphile": [
        {"workers": workers, "PEER_CONCURRENCY": concurrency} for workers in (1, 2) for concurrency in (10, 24, 100)
    ],
}


async def run(bench: Bench) -> None:
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(bench.knobs.rounds):
        for peer in bench.peers.all():
            for settings in SETTINGS.get(peer.name, []):
                try:
                    rate = await _with(peer, settings).drain(bench.knobs.scaled(peer.drains))
                except CannotRun as error:
                    console.print(f"  {peer.name} {_told(settings)}: {error}", style="yellow", markup=False)
                    continue
                console.print(f"  {peer.name} {_told(settings)}: {rate:,.0f} runs/s", style="dim", markup=False)
                found.setdefault(peer.name, {}).setdefault(_told(settings), []).append(rate)
    medians = {
        name: dict(sorted(((told, median(rates)) for told, rates in each.items()), key=lambda item: -item[1]))
        for name, each in found.items()
    }
    for name, each in medians.items():
        told, rate = next(iter(each.items()))
        console.print(f"  {name} is best with {told}: {rate:,.0f} runs/s", markup=False)
    bench.knobs.results.mkdir(parents=True, exist_ok=True)
    (bench.knobs.results / "sweep.json").write_text(json.dumps(medians, indent=2) + "\n")


def _with(peer: Peer, settings: Settings) -> Peer:
    return peer.with_settings(
        int(settings.get("workers", 1)), {name: str(value) for name, value in settings.items() if name != "workers"}
    )


def _told(settings: Settings) -> str:
    return ", ".join(f"{name.removeprefix('PEER_').lower()} {value}" for name, value in settings.items())
