"""Streams that a worker leaves to others, at a broker whose streams have parts.

There each consumer of a stream gets a part of all messages, also those of tasks that its worker does not have. Their
runs go through the store, and announced ones start a second later. So a worker that has none of the tasks in a stream,
such as a server that runs targets, leaves it to workers that have them, as long as these consume it.

The broker and the store are asked beside the fetches, which stop for neither.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from uuid import UUID

from duetime.clock import monotonic
from duetime.errors import DuetimeError
from duetime.model.target import kind_of
from duetime.store.protocol.store import Store
from duetime.streams.protocol import PartConsumer

_LOOK_EVERY = 5.0
_ENOUGH = 20
"""Messages without one for this worker, before it leaves a stream."""
_OURS_FOR = 60.0
"""Seconds for which a stream with a message for this worker is not left."""
_LEFT_FOR = 300.0
"""Seconds after which it takes part again, to find out whether there are messages for it now."""
_MOST_TASKS = 100


class LeftStreams:
    def __init__(self, store: Store, consumer: PartConsumer, has: Callable[[str], bool]) -> None:
        """`has`: whether this worker has a task."""
        self._store = store
        self._consumer = consumer
        self._has = has
        self._ours_at: dict[str, float] = {}
        self._counts: dict[str, int] = defaultdict(int)
        """By stream: how many messages in a row were for other workers."""
        self._tasks: dict[str, set[str]] = defaultdict(set)
        """By stream: the tasks of these messages."""
        self._lanes: dict[str, set[int]] = defaultdict(set)
        """By stream: the lanes of those that were announcements."""
        self._until: dict[str, float] = {}
        """The streams that are left, and until when."""
        self._leaving: set[str] = set()
        """Those of them that the consumer has not been told of."""

    def open(self, streams: Iterable[str]) -> list[str]:
        """Those of these streams that are not left. Call it while nothing is fetched."""
        while self._leaving:
            self._consumer.leave(self._leaving.pop())
        return [stream for stream in streams if stream not in self._until]

    def ours(self, stream: str) -> None:
        """It had a message for this worker."""
        self._ours_at[stream] = monotonic()
        self._forget(stream)

    def theirs(self, stream: str, count: int, *, tasks: Iterable[str] = (), lane_ids: Iterable[int] = ()) -> None:
        """It had so many messages, all for other workers, of these tasks or lanes."""
        self._counts[stream] += count
        self._tasks[stream].update(tasks)
        self._lanes[stream].update(lane_ids)

    async def tick(self) -> float:
        """Decide which streams to leave, and to which to return."""
        now = monotonic()
        full = [stream for stream, count in self._counts.items() if count >= _ENOUGH and stream not in self._until]
        full = [stream for stream in full if now - self._ours_at.get(stream, -inf) > _OURS_FOR]
        if full or self._until:
            with suppress(DuetimeError):  # what cannot be known now stays as it is
                await self._look(full, now)
        return random.uniform(0.5, 1.5) * _LOOK_EVERY

    async def _look(self, full: Sequence[str], now: float) -> None:
        await self._learn_tasks(full)
        asked = [*self._until, *full]
        members = await self._consumer.members(asked)
        workers = {worker.id: {*worker.tasks} for worker in await self._store.leases.workers()}
        for stream in asked:
            present = [workers[worker_id] for name in members[stream] if (worker_id := worker_of(name)) in workers]
            if now < self._until.get(stream, inf) and self._is_for(present, self._tasks[stream]):
                if stream not in self._until:
                    self._until[stream] = now + _LEFT_FOR
                    self._leaving.add(stream)
            else:
                self._until.pop(stream, None)
                self._leaving.discard(stream)
                self._forget(stream)

    def _is_for(self, present: Sequence[set[str]], tasks: set[str]) -> bool:
        """Whether workers with these tasks have all that was seen in a stream, and this one has nothing of it."""
        if not 0 < len(tasks) <= _MOST_TASKS or any(map(self._has, tasks)):
            return False
        return all(any(task in known or kind_of(task) in known for known in present) for task in tasks)

    async def _learn_tasks(self, streams: Sequence[str]) -> None:
        if any(self._lanes[stream] for stream in streams):
            lanes: Mapping[int, str] = {lane.id: lane.key.task for lane in await self._store.claims.lanes()}
            for stream in streams:
                self._tasks[stream] |= {lanes[lane_id] for lane_id in self._lanes.pop(stream, ()) if lane_id in lanes}

    def _forget(self, stream: str) -> None:
        for seen in (self._counts, self._tasks, self._lanes):
            seen.pop(stream, None)


def consumer_name(worker_id: UUID, number: int) -> str:
    """The name of a worker's consumer at a broker."""
    return f"{worker_id}-{number}"


def worker_of(consumer: str) -> UUID | None:
    """The worker of a consumer with this name; None for a consumer of something else."""
    with suppress(ValueError):
        return UUID(consumer.rpartition("-")[0])
    return None
