"""Load instead of faults: a steady rate for a long time, more than can be done, and a transaction that is never closed.

First how much can be done in a rush; then the soak, which a transaction that stays open may accompany (it keeps the
database from clearing away dead rows); then the rush again; then five times as much as the slots can take.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from chaos.client import Client
from chaos.figures import quantile
from chaos.history import Files, read
from chaos.real import sampling
from chaos.real.cluster import SLOTS, Cluster
from chaos.real.run import all_up, drained
from chaos.tasks import add_tasks
from duetime import App, Settings
from duetime.store.opening import open_ready, store_for
from tests.support.postgres import Server, installed

WORKERS = 2
RUSH = 6_000
_BATCH = 25
_TASK = 0.25
"""Seconds that a task of the overload takes, so that slots are what there is too little of."""
_OVERLOAD = 10.0
_TIMES = 5
NORMAL = 1.0
RECOVERS_WITHIN = 60.0
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
    overload: dict[str, float] = field(default_factory=dict)

    def broken(self) -> list[str]:
        # Behind an open transaction nothing can be cleared away: then only its cost is judged.
        found = [] if self.held else [f"not flat: {text}" for text in sampling.grown(self.series)]
        if self.held and self.rush_after < (1 - HELD_COSTS) * self.rush_before:
            found.append(
                f"an open transaction cost too much: {self.rush_before} runs/s before, {self.rush_after} after"
            )
        if self.overload["normal after"] > RECOVERS_WITHIN:
            found.append(f"lag was normal again only {self.overload['normal after']} s after the overload")
        if self.overload["done during"] < 0.8 * self.overload["capacity"]:
            found.append(f"collapsed: {self.overload['done during']} runs/s of {self.overload['capacity']}")
        return found


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
        load.soak_lag = _lag(writer, began, time.monotonic())
        await drained(app, within=60.0)
        load.rush_after = await _rush(app, client, "after")
    load.overload = await _overload(app, client, writer)


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


async def _overload(app: App, client: Client, writer: Files) -> dict[str, float]:
    capacity = WORKERS * SLOTS / _TASK
    began, number, batch = time.monotonic(), 0, 100
    while time.monotonic() < began + _OVERLOAD:
        await client.submit_many([f"over-{number}-{place}" for place in range(batch)], seconds=_TASK)
        number += 1
        await asyncio.sleep(max(0.0, began + number * batch / (capacity * _TIMES) - time.monotonic()))
    ended = time.monotonic()
    # Then what is normal: a few at a time, and how late they begin.
    probed = 0
    while time.monotonic() < ended + RECOVERS_WITHIN + 30.0:
        await client.submit_many([f"after-{probed}-{place}" for place in range(5)])
        probed += 1
        await asyncio.sleep(0.5)
        if (await (await app.store()).counts()).runs <= 5 and time.monotonic() > ended + 15.0:
            break
    await drained(app, within=120.0)
    return {
        "capacity": capacity,
        "offered": round(number * batch / (ended - began), 1),
        "done during": _done(writer, began + 1.0, ended),
        "normal after": _normal_after(writer, ended),
    }


def _done(writer: Files, start: float, end: float) -> float:
    seen = read(writer.folder)["seen"]
    return round(sum(1 for item in seen if item["what"] == "end" and start <= item["t"] < end) / (end - start), 1)


def _lags(writer: Files) -> Iterator[tuple[float, float]]:
    offset = time.time() - time.monotonic()
    for record in read(writer.folder)["seen"]:
        if record["what"] == "start":
            yield record["t"], record["t"] + offset - record["due"]


def _lag(writer: Files, start: float, end: float) -> dict[str, float]:
    lags = [lag for t, lag in _lags(writer) if start <= t < end]
    return {f"p{share}": quantile(lags, share / 100) for share in (50, 95, 99)}


def _normal_after(writer: Files, ended: float) -> float:
    """Seconds from the end of the overload to the last run that began later than is normal."""
    late = [t for t, lag in _lags(writer) if t > ended and lag > NORMAL]
    return round(max(late, default=ended) - ended, 1)


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
        "overload": load.overload,
        "second and last quarter": {
            name: [round(before, 1), round(after, 1)] for name, before, after in sampling.quarters(load.series)
        },
        "series": load.series,
    }
