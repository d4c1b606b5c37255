"""`python -m bench [scenario …]`: runs the scenarios and prints duetime beside the limit and the peers.

A scenario that fails leaves the others to be measured; the end, and the exit code, tell which did not come through.
"""

import asyncio
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from bench import (
    archive,
    autoscale,
    bloat,
    breaker,
    cost,
    dashboard,
    disks,
    drain,
    fire,
    herd,
    knobs,
    latency,
    lists,
    memory,
    neighbour,
    next_fire,
    nodes,
    precision,
    remote,
    spike,
    steady,
    stored,
    stream,
    submit,
    sweep,
    targets,
)
from bench.context import Bench
from bench.filled import Filled
from bench.peers.registry import Peers
from bench.report import console
from bench.stores import SERVER_OPTIONS, Databases
from tests.support.postgres import Server, installed

SCENARIOS: dict[str, Callable[[Bench], Awaitable[None]]] = {
    "drain": drain.run,
    "submit": submit.run,
    "stream": stream.run,
    "spike": spike.run,
    "archive": archive.run,
    "steady": steady.run,
    "precision": precision.run,
    "latency": latency.run,
    "fire": fire.run,
    "next_fire": next_fire.run,
    "nodes": nodes.run,
    "remote": remote.run,
    "herd": herd.run,
    "autoscale": autoscale.run,
    "stored": stored.run,
    "list": lists.run,
    "memory": memory.run,
    "bloat": bloat.run,
    "neighbour": neighbour.run,
    "breaker": breaker.run,
    "targets": targets.run,
    "cost": cost.run,
    "dashboard": dashboard.run,
    "sweep": sweep.run,
}
APART = {"dashboard", "sweep"}
"""Only when asked for by name: a quarter of an hour, and what peers' settings are found by."""

SOME_FAILED = 3
"""An exit code of its own: there are results, and pages are written from them."""


async def _measure(names: list[str], bench: Bench) -> dict[str, str]:
    """One scenario after the other; those that failed, with the reason: what follows does not depend on them."""
    # The processes that this one started end with it, also when it is terminated.
    measuring = asyncio.current_task()
    assert measuring is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, measuring.cancel)
    failed: dict[str, str] = {}
    for name in names:
        about = (sys.modules[SCENARIOS[name].__module__].__doc__ or "").strip().split("\n\n")[0]
        console.print(f"[bold]{name}[/]: {about}")
        bench.peers.begin()
        began = time.monotonic()
        try:
            await SCENARIOS[name](bench)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
            console.print(traceback.format_exc().rstrip(), style="dim", markup=False)
            console.print(f"  {name} failed: {failed[name]}", style="bold red", markup=False)
        console.print(f"  {name} took {time.monotonic() - began:.0f} s", style="dim")
    return failed


def main() -> int:
    names = sys.argv[1:] or [name for name in SCENARIOS if name not in APART]
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        console.print(f"no scenario {unknown[0]!r}; there are: {', '.join(SCENARIOS)}")
        return 2
    asked = knobs.from_environ()
    try:
        disks.keep_on_disk(asked.data)
    except disks.NoDisk as error:
        console.print(str(error), markup=False)
        return 2
    with Server(installed()[0], settings=SERVER_OPTIONS) as server, tempfile.TemporaryDirectory() as folder:
        console.print(f"PostgreSQL {server.version}, with durable commits")
        databases = Databases(server, Path(folder))
        peers = Peers(asked, databases.postgres)
        try:
            failed = uvloop.run(_measure(names, Bench(asked, databases, peers, Filled(asked.data))))
        except asyncio.CancelledError:
            return 143
        finally:
            peers.close()
    _say_where(asked)
    for name, why in failed.items():
        console.print(f"{name} failed, and what it wrote before is still there: {why}", style="bold red", markup=False)
    return SOME_FAILED if failed else 0


def _say_where(asked: knobs.Knobs) -> None:
    console.print(f"written to {asked.results}")
    if asked.results == knobs.TRIES:
        told = " ".join(f"{name.upper()}={value}" for name, value in asked.changed().items())
        console.print(f"{told} is a try: bench/results and docs stay as they were; BENCH_RESULTS names another folder")


if __name__ == "__main__":
    sys.exit(main())
