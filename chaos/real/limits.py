"""Limits under fire: worker processes are killed at random while runs wait for a queue and for keys.

What is checked is read from the attempts' own times, lost ones included: at no moment do more run than may. And
nothing leaks: when the killing is over everything ends, nothing is parked, and the queue fills its limit again.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import IO, NamedTuple

import asyncpg

from chaos.real.environment import ENCRYPTION
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT, Options, decode_options
from duetime.model.limits import QueueLimits
from duetime.model.retry import RetryPolicy
from duetime.store.postgres import PostgresStore

LIMIT = 5
KEYS = 100
_ROOT = Path(__file__).parents[2]
_SETTINGS = {"DUETIME_LEASE": "2s", "DUETIME_HEARTBEAT": "500ms", "DUETIME_SLOTS": "40", "DUETIME_PORT": "0"}
_AGAIN = 200
"""Runs that show whether full throughput returns."""
_ATTEMPTS = """
select h.started_at, h.finished_at, n.queue, h.options, h.attempt_state, h.run_id
from duetime.history h join duetime.lanes n on n.id = h.lane_id where h.started_at is not null
"""
_OPTIONS = "select run_id, options from duetime.history where end_state is not null"


class Outcome(NamedTuple):
    runs: int
    attempts: int
    lost: int
    kills: int
    seconds: float
    most_of_queue: int
    most_of_a_key: int
    unfinished: int
    parked: int
    most_afterwards: int
    """How many of the queue ran at once when the killing was over."""

    @property
    def holds(self) -> bool:
        return (
            self.most_of_queue <= LIMIT
            and self.most_of_a_key <= 1
            and self.unfinished == self.parked == 0
            and self.most_afterwards == LIMIT
        )


class Processes:
    """A server for its loops, and workers that are started again when they were killed."""

    def __init__(self, dsn: str, folder: Path, workers: int) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        self._environ = {**kept, **_SETTINGS, **ENCRYPTION, "DUETIME_DATABASE_URL": dsn}
        self._log: IO[bytes] = (folder / "processes.log").open("ab")
        self._server = self._start("server")
        self._workers = [self._worker() for _ in range(workers)]

    def kill_one(self, dice: Random) -> None:
        place = dice.randrange(len(self._workers))
        self._end(self._workers[place])
        self._workers[place] = self._worker()

    def close(self) -> None:
        for popen in (*self._workers, self._server):
            self._end(popen)
        self._log.close()

    def _worker(self) -> "subprocess.Popen[bytes]":
        return self._start("worker", "chaos.real.limited_app:app")

    def _start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "duetime.cli", *arguments]
        return subprocess.Popen(
            command, cwd=_ROOT, env=self._environ, stdout=self._log, stderr=self._log, start_new_session=True
        )

    def _end(self, popen: "subprocess.Popen[bytes]") -> None:
        if popen.poll() is None:
            os.killpg(popen.pid, signal.SIGKILL)
            popen.wait(10)


async def run(
    dsn: str, folder: Path, *, seed: int, runs: int = 20_000, workers: int = 8, kill_every: float = 3.0
) -> Outcome:
    dice = Random(f"limits {seed}")
    store = PostgresStore(dsn)
    await store.open()
    began = time.monotonic()
    kills = 0
    try:
        await store.migrate()
        await store.queues.limit_queue(DEFAULT_TENANT, "narrow", QueueLimits(LIMIT))
        await _submit(store, runs, dice)
        processes = Processes(dsn, folder, workers)
        try:
            next_kill = time.monotonic() + kill_every
            while await _live(store):
                await asyncio.sleep(0.25)
                # The last tenth is left in peace: it shows that what the dead held comes back.
                if time.monotonic() >= next_kill and await _live(store) > runs // 10:
                    processes.kill_one(dice)
                    kills += 1
                    next_kill = time.monotonic() + kill_every * dice.uniform(0.5, 1.5)
            over = await store.now()
            await _submit(store, _AGAIN, dice, narrow=True)
            while await _live(store):
                await asyncio.sleep(0.25)
        finally:
            processes.close()
        return await _judge(store, over, kills, time.monotonic() - began)
    finally:
        await store.close()


async def _submit(store: PostgresStore, runs: int, dice: Random, *, narrow: bool = False) -> None:
    # No run may fail because its worker was killed often.
    patient = RetryPolicy(lost_retries=1000)
    jobs = []
    for number in range(runs):
        key = None if narrow else f"customer {dice.randrange(KEYS)}"
        jobs.append(
            prepare(
                task="limited",
                args={"seconds": 0.05 if narrow else dice.uniform(0.0, 0.01)},
                max_payload=1000,
                queue="narrow" if narrow or number % 2 else "wide",
                options=Options(retry=patient, concurrency_key=key),
            )
        )
    for start in range(0, runs, 1000):
        await store.intake.submit(DEFAULT_TENANT, jobs[start : start + 1000])


async def _live(store: PostgresStore) -> int:
    return (await store.reads.counts()).runs


async def _judge(store: PostgresStore, over: datetime, kills: int, seconds: float) -> Outcome:
    async with store.database.connection() as connection:
        attempts: Sequence[asyncpg.Record] = await connection.fetch(_ATTEMPTS)
        options = {row[0]: decode_options(row[1]) for row in await connection.fetch(_OPTIONS)}
        parked = await connection.fetchval("select count(*) from duetime.runs where parked_by is not null")
    keys: dict[str, list[tuple[datetime, datetime]]] = {}
    for row in attempts:
        key = options[row["run_id"]].concurrency_key
        if key is not None:
            keys.setdefault(key, []).append((row["started_at"], row["finished_at"]))
    narrow = [(row["started_at"], row["finished_at"]) for row in attempts if row["queue"] == "narrow"]
    return Outcome(
        len(options),
        len(attempts),
        sum(row["attempt_state"] == 3 for row in attempts),
        kills,
        round(seconds, 1),
        most_at_once(narrow),
        max(map(most_at_once, keys.values()), default=0),
        await _live(store),
        parked,
        most_at_once(interval for interval in narrow if interval[0] >= over),
    )


def most_at_once(intervals: Iterable[tuple[datetime, datetime]]) -> int:
    """How many intervals have a moment in common; one may begin at the moment at which another ends."""
    edges = []
    for start, end in intervals:
        edges += [(start, 1), (end, -1)] if end > start else []
    running = most = 0
    for _, change in sorted(edges):
        running += change
        most = max(most, running)
    return most
