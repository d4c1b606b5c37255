"""Streams that a worker leaves to others, at a broker whose streams have parts.

There each consumer of a stream gets a part of all messages, also those of tasks that its worker does not have. Their
runs go through the store, and announced ones start a second later. So a worker that has none of the tasks in a stream,
such as a server that runs targets, leaves it to the workers that have them, for as long as there are any.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from uuid import UUID

from duetime.clock import monotonic
from duetime.errors import DuetimeError
from duetime.model.target import kind_of
from duetime.model.worker import Worker
from duetime.store.protocol.store import Store
from duetime.streams.names import StreamName
from duetime.streams.protocol import Consumer

_LOOK_EVERY = 5.0
_ENOUGH = 20
"""Messages without one for this worker, before it leaves a stream."""
_OURS_FOR = 60.0
"""Seconds for which a stream with a message for this worker is not left."""
_LEFT_FOR = 300.0
"""Seconds after which it takes part again, to find out whether there are messages for it now."""
_MOST_TASKS = 100


class LeftStreams:
    def __init__(self, store: Store, consumer: Consumer, worker_id: UUID) -> None:
        self._store = store
        self._consumer = consumer
        self._worker_id = worker_id
        self._look_at = -inf
        self._ours_at: dict[str, float] = {}
        self._counts: dict[str, int] = defaultdict(int)
        """By stream: how many messages in a row were for other workers."""
        self._tasks: dict[str, set[str]] = defaultdict(set)
        """By stream: the tasks of these messages."""
        self._lanes: dict[str, set[int]] = defaultdict(set)
        """By stream: the lanes of those that were announcements."""
        self._until: dict[str, float] = {}
        """The streams that are left, and until when."""

    def __contains__(self, stream: str) -> bool:
        return stream in self._until

    def ours(self, stream: str) -> None:
        """It had a message for this worker."""
        self._ours_at[stream] = monotonic()
        self._forget(stream)

    def theirs(self, stream: str, count: int, *, tasks: Iterable[str], lane_ids: Iterable[int]) -> None:
        """It had so many messages for other workers, of these tasks or lanes."""
        self._counts[stream] += count
        self._tasks[stream].update(tasks)
        self._lanes[stream].update(lane_ids)

    async def look(self, streams: Mapping[str, StreamName]) -> None:
        """Leave streams, and return to others, if it is time to."""
        now = monotonic()
        full = [stream for stream, count in self._counts.items() if count >= _ENOUGH and stream not in self._until]
        full = [stream for stream in full if now - self._ours_at.get(stream, -inf) > _OURS_FOR]
        if now < self._look_at or not (full or self._until):
            return
        self._look_at = now + _LOOK_EVERY
        workers = [each for each in await self._store.leases.workers() if each.tenant_id is None]
        others = [worker for worker in workers if worker.id != self._worker_id]
        for stream in [*self._until, *full]:
            await self._learn_tasks(stream)
            if now < self._until.get(stream, inf) and await self._is_served(others, streams, stream):
                self._until.setdefault(stream, now + _LEFT_FOR)
            else:
                self._until.pop(stream, None)
                self._forget(stream)

    async def _is_served(self, others: Sequence[Worker], streams: Mapping[str, StreamName], stream: str) -> bool:
        """Whether other workers have all tasks that were seen in a stream, and consumers of it. If so, it is left."""
        tasks = self._tasks[stream]
        if not 0 < len(tasks) <= _MOST_TASKS:
            return False
        queue = streams[stream].queue
        serving = [set(each.tasks) for each in others if not each.queues or queue in each.queues]
        if not all(any(task in known or kind_of(task) in known for known in serving) for task in tasks):
            return False
        try:
            return await self._consumer.leave(stream)
        except DuetimeError:  # it cannot be asked now, or may not be
            return stream in self._until

    async def _learn_tasks(self, stream: str) -> None:
        wanted = self._lanes.pop(stream, set())
        if wanted:
            self._tasks[stream] |= {lane.key.task for lane in await self._store.claims.lanes() if lane.id in wanted}

    def _forget(self, stream: str) -> None:
        for seen in (self._counts, self._tasks, self._lanes):
            seen.pop(stream, None)
