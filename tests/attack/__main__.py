"""`python -m tests.attack`: attack a server with slow connections, clients that do not read, and headers without an
end, and print what others notice of it, on each store. The server, the attackers and the others are processes of their
own.
"""

import argparse
import asyncio
import multiprocessing
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from duetime.client.server_address import ADMIN_KEY, SERVER_URL
from tests.attack.crowd import attackers
from tests.attack.measuring import Neighbours, percentile, resident_bytes
from tests.support.command import Command
from tests.support.postgres import Server, installed

SLOWEST = 0.1
"""Seconds: the 95th percentile of others' requests."""
MOST_MEMORY = 50 * 1000**2
"""Bytes by which the server may grow."""


async def measure(url: str, key: str, pid: int, seconds: float) -> tuple[Neighbours, int]:
    neighbours = Neighbours(url, key)
    asking = asyncio.create_task(neighbours.ask(seconds))
    most = 0
    while not asking.done():
        most = max(most, resident_bytes(pid))
        await asyncio.sleep(0.05)
    await asking
    return neighbours, most


def show(when: str, found: Neighbours) -> float:
    p95 = percentile(found.took, 0.95)
    print(
        f"{when}: {len(found.took)} requests of others, p50 {1000 * percentile(found.took, 0.5):.1f} ms,"
        f" p95 {1000 * p95:.1f} ms, max {1000 * max(found.took):.1f} ms, {len(found.failed)} failed"
    )
    return p95


def run(given: argparse.Namespace, folder: Path, environ: Mapping[str, str]) -> bool:
    data = folder / "duetime-data"
    with Command(folder, "up", environ=environ) as server:
        server.until(lambda _: (data / SERVER_URL).exists())
        url, key = (data / SERVER_URL).read_text().strip(), (data / ADMIN_KEY).read_text().strip()
        asyncio.run(measure(url, key, server.pid, 2.0))  # what the first requests load is not the attack's
        quiet, before = asyncio.run(measure(url, key, server.pid, given.seconds / 2))
        show("before", quiet)
        spawning = multiprocessing.get_context("spawn")
        begun = spawning.Event()
        args = (url, given.connections, given.mute, given.header_megabytes * 10**6, given.seconds, begun)
        crowd = spawning.Process(target=attackers, args=args)
        crowd.start()
        begun.wait(60)
        under, most = asyncio.run(measure(url, key, server.pid, given.seconds))
        p95 = show("meanwhile", under)
        crowd.join(120)
        growth = most - before
        print(f"server memory: {before / 1e6:.0f} MB before, {most / 1e6:.0f} MB at most: {growth / 1e6:+.0f} MB")
        print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return p95 <= SLOWEST and growth <= MOST_MEMORY and not under.failed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--mute", type=int, default=200, help="connections that read nothing")
    parser.add_argument("--header-megabytes", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    held = []
    with tempfile.TemporaryDirectory() as folder, Server(installed()[0]) as postgres:
        stores = {"SQLite": {}, "PostgreSQL": {"DUETIME_DATABASE_URL": postgres.create_database("attack")}}
        for name, environ in stores.items():
            print(f"{name}:")
            held.append(run(given, Path(folder) / name, environ))
    raise SystemExit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
