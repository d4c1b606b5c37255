"""The embedded store: one process with everything in it, on an SQLite file; killed, frozen, locked out, out of disk.

The workload lives in the same process, for the file belongs to one. What it asked when it was killed has no answer; the
next life goes on under other tags. `python -m chaos.real.embedded` is one life; `… tell` asks at the end what became of
everything.
"""

import asyncio
import os
import sys
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random
from time import monotonic

from chaos.client import Client
from chaos.history import Files, read
from chaos.real.environment import LOGS
from chaos.tasks import add_tasks
from duetime import App, Settings, StoreUnavailable
from duetime.cli.output import set_up_logging
from duetime.model.policy import MisfireMode
from duetime.node.assembly import Node

SLOTS = 20
LEASE = 3.0
COULD_NOT_BEGIN = 3
"""How it ends when it cannot use its file yet."""
_BATCH = 5
_RHYTHMS: tuple[tuple[str, str, MisfireMode], ...] = (
    ("second", "* * * * * *", "all"),
    ("second-latest", "* * * * * *", "latest"),
)


def settings(folder: Path) -> Settings:
    return Settings(
        data_dir=folder,
        slots=SLOTS,
        lease=timedelta(seconds=LEASE),
        heartbeat=timedelta(seconds=0.5),
        processes=1,
    )


def make_app(folder: Path, writer: Files) -> tuple[App, Client]:
    app = App(settings=settings(folder))
    add_tasks(app, writer, monotonic, f"pid-{os.getpid()}")
    return app, Client(app, writer, monotonic, name=f"{os.getpid()}-")


async def live(folder: Path) -> None:
    """Run everything, and ask for more and more, until killed; or until `stop` lies in the folder of the logs."""
    logs = Path(os.environ[LOGS])
    writer = Files(logs)
    app, client = make_app(folder, writer)

    @app.on_start
    async def ask() -> None:
        await _ask(client, logs)

    await Node(app.settings, app=app, migrate=True).run()


async def _ask(client: Client, logs: Path) -> None:
    random = Random(os.getpid())
    me = os.getpid()
    client.jobs |= _known(logs)
    for tag, cron, misfire in _RHYTHMS:
        if tag not in client.jobs:
            await client.until_known(lambda: client.schedule(tag, {"cron": cron}, misfire=misfire))  # noqa: B023
    for number in count(1):
        if (logs / "stop").exists():
            for tag, _, _ in _RHYTHMS:
                await client.until_known(lambda: client.cancel(tag, recurring=True))  # noqa: B023
            return
        await client.submit_many([f"many-{me}-{number}-{place}" for place in range(_BATCH)])
        if number % 5 == 0:
            wait = round(random.uniform(0.1, 5.0), 3)
            seconds = random.choice([0.0, 0.2])
            await client.submit(f"one-{me}-{number}", wait=wait, seconds=seconds, fail=random.choice([0, 0, 1]))
        await asyncio.sleep(0.05)


async def tell(folder: Path) -> None:
    """Work off what is left, hold every slot once, then write down what became of everything."""
    logs = Path(os.environ[LOGS])
    writer = Files(logs)
    app, client = make_app(folder, writer)
    node = Node(app.settings, app=app, migrate=True)
    told = asyncio.Event()

    async def finish() -> None:
        from chaos.real.run import drained

        await drained(app, within=60.0)
        await client.submit_many([f"probe-{number}" for number in range(SLOTS)], seconds=(2.0,))
        await drained(app, within=30.0)
        client.jobs |= _known(logs)
        await client.tell_ends()
        told.set()
        node.stop()

    app.on_start(finish)
    await node.run()
    assert told.is_set()


def _known(logs: Path) -> dict[str, str]:
    """The job of each tag, as former lives were told."""
    written = read(logs)
    answers = {record["n"]: record for record in written["answered"] if record["outcome"] == "ok"}
    known: dict[str, str] = {}
    for asked in written["asked"]:
        answer = answers.get(asked["n"], {})
        if "jobs" in answer:
            known |= dict(zip(asked["tags"], answer["jobs"], strict=True))
        elif "job" in answer:
            known[asked["tag"]] = answer["job"]
    return known


def main() -> int:
    set_up_logging("warning", "json")
    try:
        asyncio.run((tell if sys.argv[2:] == ["tell"] else live)(Path(sys.argv[1])))
    except StoreUnavailable as error:
        # It could not even begin: say so, as the command does, and leave the next start to the supervisor.
        print(f"not started: {error}")
        return COULD_NOT_BEGIN
    return 0


if __name__ == "__main__":
    sys.exit(main())
