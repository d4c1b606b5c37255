"""`python -m bench [scenario …]`: runs the scenarios and prints duetime beside the limit."""

import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from bench import breaker, dashboard, drain, neighbour, next_fire, precision, remote, submit, targets
from bench.report import RESULTS, console
from bench.stores import Databases
from tests.support.postgres import Server, installed

SCENARIOS: dict[str, Callable[[Databases], Awaitable[None]]] = {
    "drain": drain.run,
    "precision": precision.run,
    "next_fire": next_fire.run,
    "submit": submit.run,
    "remote": remote.run,
    "neighbour": neighbour.run,
    "breaker": breaker.run,
    "targets": targets.run,
    "dashboard": dashboard.run,
}


async def _measure(names: list[str], databases: Databases) -> None:
    for name in names:
        console.print(f"[bold]{name}[/]: {(sys.modules[SCENARIOS[name].__module__].__doc__ or '').strip()}")
        await SCENARIOS[name](databases)


def main() -> int:
    names = sys.argv[1:] or [name for name in SCENARIOS if name != "dashboard"]  # that one takes a quarter of an hour
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        console.print(f"no scenario {unknown[0]!r}; there are: {', '.join(SCENARIOS)}")
        return 2
    with Server(installed()[0]) as server, tempfile.TemporaryDirectory() as folder:
        console.print(f"PostgreSQL {server.version}, with durable commits")
        uvloop.run(_measure(names, Databases(server, Path(folder))))
    console.print(f"written to {RESULTS.relative_to(Path.cwd())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
