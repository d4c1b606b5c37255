"""Streams that a worker leaves to others, at a broker whose streams have parts.

There each consumer of a stream gets a part of all messages, also those of tasks that its worker does not have. Their
runs go through the store, and start a second or two later.

    only targets, as a server has  leaves a stream to workers with tasks, until it has had several runs for targets
    tasks of an app                leaves a stream that has had nothing for it to workers that have the tasks in it

It returns when no such worker consumes the stream. Workers record in the store what they consume, also while they have
no free slot. Kafka could be asked who consumes a stream, but its client may then end the process when a broker is lost
in that moment (librdkafka 4605).
"""

import random
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from math import inf
from uuid import UUID

from duetime.clock import monotonic
from duetime.model.lane import tier_of
from duetime.model.target import is_target, kind_of
from duetime.model.worker import Worker
from duetime.store.protocol.store import Store
from duetime.store.shared.awake_lanes import LaneFollower
from duetime.streams.names import StreamName
from duetime.streams.protocol import PartConsumer
from duetime.worker.consumed_streams import ConsumedStreams

_TELL_EVERY = 0.5
_OCCUPIED_FOR = 2.0
"""Seconds for which a worker counts as one without free slots."""
_LOOK_EVERY, _LOOK_SOON = 5.0, 2.0
"""Seconds between looks at who consumes what, and for a worker with only targets that consumes something: workers with
tasks may have come."""
_ENOUGH = 20
"""A worker of an app leaves a stream after this many messages in a row for other workers. A worker with only targets
consumes a stream after it has claimed this many runs of its queue from the store."""
_OURS_FOR = 60.0
"""Seconds for which a stream with a message for this worker is not left."""
_LEFT_FOR = 300.0
"""Seconds. A worker of an app consumes a stream again this long after it has left it, to find out whether there are
messages for it now. A worker with only targets counts the runs that it has claimed in this time, and leaves a stream
this long after its last message."""
_MOST_TASKS = 100


class LeftStreams:
    def __init__(
        self,
        store: Store,
        consumed: ConsumedStreams,
        consumer: PartConsumer,
        streams: Mapping[str, StreamName],
        worker_id: UUID,
        tasks: Collection[str],
        passed_over: Mapping[tuple[int, str, int], int],
    ) -> None:
        """`tasks`: those of this worker. `passed_over`: how many runs it has claimed in the store of queues that are
        streams, by tenant, queue and tier: another worker had their messages."""
        self._store = store
        self._consumed = consumed
        self._consumer = consumer
        self._worker_id = worker_id
        self._streams = streams
        self._own = tasks
        self._only_targets = all(map(is_target, tasks))
        self._lanes = LaneFollower(store.claims)
        self._passed_over = passed_over
        self._passed: dict[str, deque[tuple[float, int]]] = defaultdict(deque)
        """By stream: how many there were at each look."""
        self._occupied_at = -inf
        self._took_part: frozenset[str] = frozenset()
        self._looked = False
        self._look_at = -inf
        self._ours_at: dict[str, float] = {}
        self._counts: dict[str, int] = defaultdict(int)
        """By stream: how many messages in a row were for other workers."""
        self._tasks: dict[str, set[str]] = defaultdict(set)
        """By stream: the tasks of these messages."""
        self._lane_ids: dict[str, set[int]] = defaultdict(set)
        """By stream: the lanes of those that were announcements."""
        self._until: dict[str, float] = {}
        """The streams that are left, and until when."""
        self._leaving: set[str] = set()
        """Those of them that the consumer has not been told of."""

    def open(self, streams: Iterable[str]) -> list[str]:
        """Those of these streams that are not left. Call it while nothing is fetched."""
        if self._only_targets and not self._looked:
            return []
        while self._leaving:
            self._consumer.leave(self._leaving.pop())
        return [stream for stream in streams if stream not in self._until]

    def occupied(self) -> None:
        """Note that the worker has no free slot."""
        self._occupied_at = monotonic()

    def ours(self, stream: str) -> None:
        """Note that a stream had a message for this worker."""
        self._ours_at[stream] = monotonic()
        self._forget(stream)

    def theirs(self, stream: str, count: int, *, tasks: Iterable[str] = (), lane_ids: Iterable[int] = ()) -> None:
        """Note that a stream had `count` messages, all for other workers, of these tasks or lanes."""
        self._counts[stream] += count
        self._tasks[stream].update(tasks)
        self._lane_ids[stream].update(lane_ids)

    async def tick(self) -> float:
        """Say what this worker consumes, and decide which streams to leave and to which to return."""
        now = monotonic()
        takes_part = self._consumer.takes_part_in()
        if now - self._occupied_at < _OCCUPIED_FOR:
            takes_part |= self._took_part  # it leaves its parts to other workers with its tasks, if there are any
        self._took_part = takes_part
        await self._consumed.tell(self._store.leases, self._worker_id, self._consumer, takes_part)
        if now >= self._look_at:
            await self._decide(now)
            soon = self._only_targets and len(self._until) < len(self._streams)
            self._look_at = monotonic() + random.uniform(0.5, 1.5) * (_LOOK_SOON if soon else _LOOK_EVERY)
        return random.uniform(0.5, 1.5) * _TELL_EVERY

    async def close(self) -> None:
        await self._consumed.end(self._store.leases, self._worker_id, self._consumer)

    async def _decide(self, now: float) -> None:
        full = [stream for stream, count in self._counts.items() if count >= _ENOUGH and stream not in self._until]
        full = [stream for stream in full if now - self._ours_at.get(stream, -inf) > _OURS_FOR]
        asked = list(self._streams) if self._only_targets else [*self._until, *full]
        if asked:
            await self._look(asked, now)
        self._looked = True

    async def _look(self, asked: Sequence[str], now: float) -> None:
        await self._learn_tasks(asked)
        wanted = self._wanted(now) if self._only_targets else frozenset()
        workers = [worker for worker in await self._store.leases.workers() if worker.id != self._worker_id]
        for stream in asked:
            present = [worker for worker in workers if stream in worker.consumes]
            if self._only_targets:
                left = any(worker.runs_tasks for worker in present) and stream not in wanted
            else:
                left = now < self._until.get(stream, inf) and self._is_for(present, self._tasks[stream])
            if not left:
                self._until.pop(stream, None)
                self._leaving.discard(stream)
                self._forget(stream)
            elif stream not in self._until:
                self._until[stream] = now + _LEFT_FOR
                self._leaving.add(stream)

    def _wanted(self, now: float) -> Set[str]:
        """The streams that have had something for this worker lately: a message, or enough runs that other workers have
        passed over."""
        wanted = set()
        for stream, name in self._streams.items():
            total = sum(
                count
                for (tenant_id, queue, tier), count in self._passed_over.items()
                if (queue, tier_of(tier)) == (name.queue, name.tier) and name.tenant_id in (None, tenant_id)
            )
            totals = self._passed[stream]
            totals.append((now, total))
            while now - totals[0][0] > _LEFT_FOR:
                totals.popleft()
            if now - self._ours_at.get(stream, -inf) < _LEFT_FOR or total - totals[0][1] >= _ENOUGH:
                wanted.add(stream)
        return wanted

    def _is_for(self, present: Sequence[Worker], tasks: Set[str]) -> bool:
        """Whether these workers have all that was seen in a stream, and this one has nothing of it."""
        if not 0 < len(tasks) <= _MOST_TASKS or any(map(self._has, tasks)):
            return False
        known = {task for worker in present for task in worker.tasks}
        return all(task in known or kind_of(task) in known for task in tasks)

    def _has(self, task: str) -> bool:
        return task in self._own or kind_of(task) in self._own

    async def _learn_tasks(self, streams: Sequence[str]) -> None:
        if any(self._lane_ids[stream] for stream in streams):
            await self._lanes.read()
        lanes = self._lanes.by_id
        for stream in streams:
            self._tasks[stream] |= {lanes[each].key.task for each in self._lane_ids.pop(stream, ()) if each in lanes}

    def _forget(self, stream: str) -> None:
        for seen in (self._counts, self._tasks, self._lane_ids):
            seen.pop(stream, None)
