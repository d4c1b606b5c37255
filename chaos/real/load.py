"""Load instead of faults: a steady rate for a long time, more than can be done, and a transaction that is never closed.

First how much can be done in a rush; then the soak, which a transaction that stays open may accompany (it keeps the
database from clearing away dead rows); then the rush again; then the overload.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from chaos.client import Client
from chaos.history import Files
from chaos.real import sampling
from chaos.real.cluster import Cluster
from chaos.real.overload import WORKERS, Overload, overload
from chaos.real.run import all_up, drained
from chaos.tasks import add_tasks
from duetime import App, Settings
from duetime.store.address import open_ready, store_for
from tests.support.postgres import Server, installed

RUSH = 6_000
_BATCH = 25
HELD_COSTS = 0.25


@dataclass
class Load:
    """What came of it."""

    seconds: float
    rate: float
    held: bool
    series: sampling.Series = field(default_factory=dict)
    rush_before: float = 0.0
    """Runs a second."""
    rush_after: float = 0.0
    soak_lag: dict[str, float] = field(default_factory=dict)
    overload: Overload = field(default_factory=Overload)

    def broken(self) -> list[str]:
        # Behind an open transaction nothing can be cleared away: then only its cost is judged.
        found = [] if self.held else [f"not flat: {text}" for text in sampling.grown(self.series)]
        if self.held and self.rush_after < (1 - HELD_COSTS) * self.rush_before:
            found.append(
                f"an open transaction cost too much: {self.rush_before} runs/s before, {self.rush_after} after"
            )
        return found + self.overload.broken()


async def run(logs: Path, *, seconds: float, rate: float, held: bool) -> Load:
    load = Load(seconds, rate, held)
    writer = Files(logs)
    with tempfile.TemporaryDirectory(prefix="duetime-chaos-") as folder, Server(installed()[0]) as server:
        Path(folder).chmod(0o711)
        dsn = server.create_database("chaos")
        store = store_for(Settings(database_url=dsn))
        await open_ready(store, migrate=True)
        await store.close()
        cluster = Cluster(server, dsn, Path(folder), logs, servers=1, workers=WORKERS)
        try:
            await cluster.start()
            app = App(settings=Settings(database_url=dsn, pool_size=10))
            add_tasks(app, writer, time.monotonic, "client")
            async with app:
                await all_up(app, WORKERS)
                await _phases(cluster, app, Client(app, writer, time.monotonic), writer, load)
        finally:
            await cluster.close()
            writer.close()
    return load


async def _phases(cluster: Cluster, app: App, client: Client, writer: Files, load: Load) -> None:
    await _rush(app, client, "warm")
    load.rush_before = await _rush(app, client, "before")
    with _held_open(cluster.dsn) if load.held else nullcontext():
        began = time.monotonic()
        await _soak(cluster, client, load)
        load.soak_lag = sampling.quantiles(
            attempt.lag for attempt in sampling.attempts(writer.folder) if attempt.t >= began
        )
        await drained(app, within=60.0)
        load.rush_after = await _rush(app, client, "after")
    load.overload = await overload(cluster, app, writer, within=load.seconds)


async def _rush(app: App, client: Client, name: str) -> float:
    """As many as can be done: runs a second from the first submission to the last end."""
    began = time.monotonic()
    lanes = [range(place, RUSH // 500, 4) for place in range(4)]

    async def submit(numbers: range) -> None:
        for number in numbers:
            await client.submit_many([f"{name}-{number}-{place}" for place in range(500)])

    await asyncio.gather(*(submit(lane) for lane in lanes))
    await drained(app, within=300.0)
    return round(RUSH / (time.monotonic() - began), 1)


async def _soak(cluster: Cluster, client: Client, load: Load) -> None:
    began = time.monotonic()
    sample_every = max(0.5, load.seconds / 200)
    sampled, number = 0, 0
    while (now := time.monotonic()) < began + load.seconds:
        if now >= began + sampled * sample_every:
            await asyncio.to_thread(sampling.take, cluster, load.series)
            sampled += 1
        await client.submit_many([f"soak-{number}-{place}" for place in range(_BATCH)])
        number += 1
        await asyncio.sleep(max(0.0, began + number * _BATCH / load.rate - time.monotonic()))


@contextmanager
def _held_open(dsn: str) -> Iterator[None]:
    """A transaction that has seen the database once, and stays."""
    with psycopg.connect(dsn) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select count(*) from duetime.runs")
        with contextlib.ExitStack() as stack:
            stack.callback(connection.rollback)
            yield


def as_record(load: Load) -> dict[str, Any]:
    return {
        "seconds": load.seconds,
        "rate": load.rate,
        "transaction held open": load.held,
        "rush before, runs/s": load.rush_before,
        "rush after, runs/s": load.rush_after,
        "lag during the soak": load.soak_lag,
        "overload": asdict(load.overload, dict_factory=_worded),
        "second and last quarter": {
            name: [round(before, 1), round(after, 1)] for name, before, after in sampling.quarters(load.series)
        },
        "series": load.series,
    }


def _worded(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name.replace("_", " "): value for name, value in fields}
