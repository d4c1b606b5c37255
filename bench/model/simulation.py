"""A discrete-event simulation of worker processes that claim, run and complete no-op runs on one database.

What is simulated: each worker process has one thread of Python, which handles claims, runs tasks and makes completions,
one after the other; its claimer and its completer each wait for one statement at a time. A claim passes by what others
are claiming and what they have claimed since its own last one; those that serve other lanes are not in its way. A
statement needs CPU in its own database session, then a durable commit, for which the log is flushed once for all
sessions that wait. Threads and sessions that want CPU share the cores evenly. Worker processes and database may share
a machine or have their own.

Time is in microseconds.
"""

from collections.abc import Callable

import msgspec

from bench.model.machine import Clock, Cores, Log

CLAIM = 500
"""Runs in a claim and at most in a completion."""
BACKLOG = 10_000
"""With so many completions waiting, a worker claims no more."""
SKIP, PASS_BY = 1.5, 0.5
"""What passing by costs in microseconds, where there is no measurement of it."""


class Costs(msgspec.Struct, frozen=True):
    """What a run costs, in microseconds of CPU; and what a round trip and a flush take."""

    worker: float
    """In the worker's thread, all in all."""
    claim: float
    """In the database session that claims."""
    complete: float
    """In the database session that completes."""
    background: float = 0.0
    """Elsewhere in the database: log writer, vacuum, checkpoints."""
    statement: float = 150.0
    """Per statement, whatever it carries."""
    flush: float = 300.0
    """A durable commit waits so long for the log, shared with those who wait at the same time."""
    trip: float = 60.0
    """There and back between a worker and the database."""
    skip: float = SKIP
    """For each run that another session is claiming at the moment, which a claim has to pass by."""
    pass_by: float = PASS_BY
    """For each run that others have claimed since a worker's last claim."""
    crowding: float = 0.0
    """The share by which everything takes more CPU for each thread or session that waits for a core."""


class Layout(msgspec.Struct, frozen=True):
    """The machines: `cores` for both, or with `database_cores` the database has its own."""

    workers: int
    cores: float
    lanes: int = 1
    """Lanes with workers of their own (`--queues`): the workers are dealt to them evenly."""
    database_cores: float | None = None
    log_bandwidth: float | None = None
    """Bytes of log a second that the disk takes."""
    log_bytes: float = 0.0
    """What a run writes; half of it with its claim and half with its completion."""


class World:
    """Everything that the workers of one simulation share."""

    def __init__(self, costs: Costs, layout: Layout) -> None:
        self.costs = costs
        self.clock = Clock()
        self.worker_cores = Cores(self.clock, layout.cores, costs.crowding)
        own = layout.database_cores
        self.database_cores = self.worker_cores if own is None else Cores(self.clock, own, costs.crowding)
        self.log = Log(self.clock, costs.flush, layout.log_bandwidth, layout.log_bytes / 2)
        self.completed = 0
        lanes = [Lane() for _ in range(layout.lanes)]
        self.workers = [SimulatedWorker(self, lanes[number % layout.lanes]) for number in range(layout.workers)]


class Lane:
    """What the workers of a lane share."""

    def __init__(self) -> None:
        self.claiming = 0
        """How many claims are under way."""
        self.taken = 0
        """How many runs they and all earlier ones took."""


class SimulatedWorker:
    """One process: a thread that takes one piece of work after the other, a claimer, a completer."""

    def __init__(self, world: World, lane: Lane) -> None:
        self._world = world
        self._lane = lane
        self._costs = world.costs
        self._work: list[tuple[float, Callable[[], None]]] = []
        self._busy = False
        self._done = 0
        self._completing = False
        self._claiming = False
        self._seen = 0
        """How many runs all workers had claimed when this one claimed last: its next claim begins behind those."""
        self._claim()

    def _think(self, work: float, then: Callable[[], None]) -> None:
        self._work.append((work, then))
        if not self._busy:
            self._next()

    def _next(self) -> None:
        if not self._work:
            self._busy = False
            return
        self._busy = True
        work, then = self._work.pop(0)

        def over() -> None:
            then()
            self._next()

        self._world.worker_cores.run(work, over)

    def _claim(self) -> None:
        if self._claiming or self._done > BACKLOG:
            return
        self._claiming = True
        world, lane, costs = self._world, self._lane, self._costs
        passed = lane.taken - self._seen
        held = min(passed, lane.claiming * CLAIM)
        passing = held * costs.skip + (passed - held) * costs.pass_by
        lane.claiming += 1
        lane.taken += CLAIM
        self._seen = lane.taken
        work = costs.statement + CLAIM * costs.claim + passing

        def executed() -> None:
            world.log.commit(CLAIM, committed)

        def committed() -> None:
            lane.claiming -= 1
            world.clock.after(costs.trip / 2, lambda: self._think(CLAIM * costs.worker * 0.7, started))

        def started() -> None:
            # No-op tasks are over as soon as they have started.
            self._done += CLAIM
            self._claiming = False
            self._complete()
            self._claim()

        world.clock.after(costs.trip / 2, lambda: world.database_cores.run(work, executed))

    def _complete(self) -> None:
        if self._completing or not self._done:
            return
        self._completing = True
        batch = min(CLAIM, self._done)
        self._done -= batch
        world, costs = self._world, self._costs
        work = costs.statement + batch * costs.complete

        def made() -> None:
            world.clock.after(costs.trip / 2, lambda: world.database_cores.run(work, executed))

        def executed() -> None:
            world.log.commit(batch, committed)
            if costs.background:
                world.database_cores.run(batch * costs.background, lambda: None)

        def committed() -> None:
            world.completed += batch
            world.clock.after(costs.trip / 2, answered)

        def answered() -> None:
            self._completing = False
            self._complete()
            self._claim()

        self._think(batch * costs.worker * 0.3, made)


class Outcome(msgspec.Struct, frozen=True):
    rate: float
    """Runs a second."""
    worker_cores: float
    database_cores: float
    """How many were busy; where both share a machine, this says the same twice."""


def simulate(costs: Costs, layout: Layout, *, seconds: float = 2.0) -> Outcome:
    """What this layout comes to, once it has found its pace."""
    world = World(costs, layout)
    world.clock.run(0.5e6)
    before, used = world.completed, (world.worker_cores.used, world.database_cores.used)
    world.clock.run(0.5e6 + seconds * 1e6)
    return Outcome(
        (world.completed - before) / seconds,
        (world.worker_cores.used - used[0]) / (seconds * 1e6),
        (world.database_cores.used - used[1]) / (seconds * 1e6),
    )
