"""A node of the simulation: the engine's loops and a worker, as `duetime server` and `duetime worker` run them."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from random import Random

from chaos.history import Writer
from chaos.simulation.loop import Process, VirtualLoop
from chaos.simulation.network import Link, Weather
from chaos.tasks import add_tasks
from duetime import App, Settings
from duetime.engine.clock_guard import ClockGuard
from duetime.engine.lane_sleeper import LaneSleeper
from duetime.engine.pruner import Pruner
from duetime.engine.reaper import Reaper
from duetime.engine.scanner import Scanner
from duetime.engine.settler import settling
from duetime.process.loop import Loop
from duetime.store.protocol.store import Store
from duetime.worker.capacity import WorkerLimits
from duetime.worker.store_source import StoreSource
from duetime.worker.worker import Worker

LEASE = timedelta(seconds=30)
HEARTBEAT = timedelta(seconds=10)
POLL = timedelta(seconds=15)
"""Longer than anyone would set it: what polling finds late, hints and look-ahead must make up for."""
REAP_EVERY = timedelta(seconds=15)
TIDY_EVERY = timedelta(seconds=30)
SLOTS = 8
SETTINGS = Settings(database_url="sqlite:///:memory:", processes=1)


class Node:
    """Lives until it is killed or stopped; then it may live again, as another process."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        server: Process,
        store: Store,
        writer: Writer,
        random: Random,
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self.name = name
        self.weather = Weather()
        self.process: Process | None = None
        self.lives = 0
        self.graveyard: list[Process] = []
        self._loop = loop
        self._server = server
        self._store = store
        self._writer = writer
        self._random = random
        self._failed = failed
        self._parts: list[Loop | Worker] = []

    @property
    def alive(self) -> bool:
        """Whether there is anything to strike: one that was started this very moment has not begun yet."""
        return self.process is not None and bool(self._parts)

    @property
    def awake(self) -> bool:
        return self.process is not None and self.alive and self.process.frozen_until <= self._loop.time()

    @property
    def worker(self) -> Worker | None:
        """The worker of the process that lives now."""
        return next((part for part in self._parts if self.process and isinstance(part, Worker)), None)

    def start(self) -> None:
        if self.process is not None:
            return
        self._parts = []
        self.lives += 1
        self.process = Process(f"{self.name}.{self.lives}")
        self.process.spawn(self._loop, self._run(self.process))

    def kill(self) -> None:
        if self.process is not None:
            self._loop.kill(self.process)
            self.graveyard.append(self.process)
            self.process = None

    def stop(self) -> None:
        """As SIGTERM does it."""
        for part in self._parts:
            part.stop()

    def freeze(self, until: float) -> None:
        if self.process is not None:
            self._loop.freeze(self.process, until)

    async def _run(self, process: Process) -> None:
        store = Link(self._loop, process, self._server, self._store, self.weather, self._random)
        app = App(settings=SETTINGS)
        add_tasks(app, self._writer, self._loop.time, process.name)
        tasks = {name: task.definition for name, task in app.tasks.items()}
        limits = WorkerLimits(
            slots=SLOTS,
            lease=LEASE,
            heartbeat=HEARTBEAT,
            poll=POLL,
            grace=timedelta(seconds=10),
            heartbeat_thread=False,
        )
        day = timedelta(days=30)
        guard = ClockGuard(store, lease=LEASE)
        self._parts = [
            Loop("scanner", Scanner(store, interval=POLL).tick, jitter=0.1),
            settling(store, interval=POLL),
            Loop("reaper", Reaper(store, lease=LEASE, interval=REAP_EVERY, guard=guard).tick, jitter=0.2),
            Loop(
                "pruner",
                Pruner(store, retention=day, dead_letter_retention=day, idempotency_retention=day, guard=guard).tick,
                jitter=0.2,
            ),
            Loop("lanes", LaneSleeper(store.claims, interval=TIDY_EVERY).tick, jitter=0.2),
            Worker(StoreSource(store), tasks, limits),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                for part in self._parts:
                    group.create_task(part.run())
        except BaseException as error:
            self._failed(process.name, error)
            raise
        finally:
            if self.process is process:
                self.process = None
                self.graveyard.append(process)
