"""`python -m bench.profiling [processes …]`: where the time of a drain goes, with one worker process and with two.

The worker's side by py-spy (`pip install py-spy` into .venv: it is no part of the locked tools), the database's by
pg_stat_statements, and what the two dearest statements do inside by auto_explain, in a short drain of its own because
it slows down what it explains. RUNS as for `make bench`.
"""

import asyncio
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import uvloop
from rich.markup import escape

from bench import knobs
from bench.cost import DEAREST, function_of
from bench.disks import keep_on_disk
from bench.gates import gate
from bench.peers.peer import Peer
from bench.processes import cpu_of, cpu_of_family
from bench.report import console
from bench.stores import SERVER_OPTIONS, Databases
from tests.support.postgres import Server, installed

SECONDS = 3
MOST = 14
_COUNTED = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "top"}
_EXPLAINED = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_nested_statements": "on",
}
AREAS = {
    "the task, and counting its start": ("bench/",),
    "event loop": ("asyncio/", "uvloop/"),
    "driver": ("asyncpg/",),
    "calling the function": ("duetime/worker/executor.py", "duetime/model/json.py", "duetime/worker/outcomes.py"),
    "claiming": (
        *("duetime/worker/claimer.py", "duetime/worker/known_lanes.py", "duetime/model/claim_plan.py"),
        *("duetime/model/shares.py", "duetime/store/postgres/claiming.py", "duetime/store/postgres/marks.py"),
    ),
    "completing": (
        *("duetime/worker/completer.py", "duetime/model/completion.py", "duetime/store/rules/completions.py"),
        *("duetime/store/postgres/completing.py", "duetime/store/postgres/deadlock_retry.py"),
    ),
    "metrics, traces, breakers": (
        "duetime/store/wrappers/observed.py",
        "duetime/telemetry/",
        "duetime/model/target_health.py",
    ),
    "an attempt's book-keeping": ("duetime/worker/",),
}


def main() -> int:
    if shutil.which("py-spy", path=str(Path(sys.executable).parent)) is None:
        console.print("py-spy is not here: .venv/bin/pip install py-spy")
        return 2
    asked = knobs.from_environ()
    keep_on_disk(asked.data)
    uvloop.run(_profile([int(number) for number in sys.argv[1:]] or [1, 2], asked.scaled(300_000, least=20_000)))
    return 0


async def _profile(counts: list[int], runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with Server(installed()[0], settings=SERVER_OPTIONS | _COUNTED) as server:
            ours = _ours(Databases(server, Path(folder)))
            for processes in counts:
                await _drain(ours, server, processes, runs, Path(folder))
        with Server(installed()[0], settings=SERVER_OPTIONS | _EXPLAINED) as server:
            await _ours(Databases(server, Path(folder))).drain(10_000)
            for plan in plans(server.log_text()):
                console.print(escape(plan), style="dim")


def _ours(databases: Databases) -> Peer:
    return Peer("duetime", databases.postgres, driver="duetime", python=sys.executable)


async def _drain(ours: Peer, server: Server, processes: int, runs: int, folder: Path) -> None:
    dsn = ours.place()
    await ours.fill(dsn, runs)
    connection = await asyncpg.connect(dsn)
    await connection.execute("create extension pg_stat_statements; select pg_stat_statements_reset()")
    async with gate(dsn) as before:
        await before.close()
        async with ours.working(dsn, processes) as tally:
            pids = await _workers(connection, processes)
            started, database = sum(map(cpu_of, pids)), cpu_of_family(server.pid)
            spied = asyncio.create_task(_spy(pids[0], folder / "stacks"))
            await before.open(processes)
            rate = await ours.drained(tally, runs)
            worked = sum(map(cpu_of, pids)) - started
            database = cpu_of_family(server.pid) - database
            await spied
    console.rule(f"{processes} process{'es' if processes > 1 else ''}: {rate:,.0f} runs/s")
    console.print(f"workers {worked / runs * 1e6:.1f} µs of CPU for a run, database {database / runs * 1e6:.1f} µs")
    for query, calls, ms in await connection.fetch(DEAREST):
        name = function_of(query) or " ".join(query.split())[:60]
        console.print(f"{ms / runs * 1000:6.1f} µs for a run  {calls:6,} × {ms / calls:6.2f} ms  {name}")
    _show((folder / "stacks").read_text())
    await connection.close()


async def _workers(connection: "asyncpg.Connection[Any]", count: int) -> list[int]:
    """The workers' processes, once they are all there: each is called by its machine and its id."""
    while len(names := await connection.fetch("select name from duetime.workers")) < count:
        await asyncio.sleep(0.05)
    return [int(name.rpartition(":")[2]) for (name,) in names]


async def _spy(pid: int, stacks: Path) -> None:
    """What it does while it has the interpreter: its other threads wait most of the time."""
    spy = Path(sys.executable).parent / "py-spy"
    options = ("--duration", str(SECONDS), "--rate", "250", "--gil", "--format", "raw", "--output", str(stacks))
    process = await asyncio.create_subprocess_exec(
        *(str(spy), "record", "--pid", str(pid), *options),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await process.wait()


def _show(stacks: str) -> None:
    for found in samples(stacks):
        console.print()
        for name, count in found.most_common(MOST):
            console.print(f"{count / found.total():6.1%}  {name}", markup=False)


def samples(stacks: str) -> tuple[Counter[str], Counter[str]]:
    """Whose function was at work in how many of them, and which it was."""
    areas: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        function, _, place = stack.rpartition(";")[2].rpartition(" (")
        file = place.partition(":")[0]
        areas[next((name for name, files in AREAS.items() if file.startswith(files)), "the rest")] += int(count)
        functions[f"{function} ({file})"] += int(count)
    return areas, functions


def plans(log: str) -> Iterator[str]:
    """The longest of those that claimed and of those that completed."""
    explained: list[Any] = re.findall(r"duration: ([0-9.]+) ms  plan:\n((?:\t.*\n)+)", log)
    for what in ("update duetime.runs", "delete from duetime.runs"):
        found = [(float(took), plan) for took, plan in explained if what in plan]
        if found:
            took, plan = max(found)
            yield f"\n{what}: {took} ms\n{plan}"


if __name__ == "__main__":
    sys.exit(main())
