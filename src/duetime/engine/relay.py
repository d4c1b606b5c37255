"""The relay announces stored runs of stream queues in their streams, so that workers need not look for them.

It keeps no state that matters. It looks at the lanes, and announces the runs that are ready by the database's clock and
that it has not announced for a lease. An announcement has no authority: a worker claims the run. Two relays on one lane
do no harm, but each announcement costs a claim a probe. So every process with workers has a relay, and the lanes are
divided among them by rendezvous hashing over the names of live workers. While a process is dead and not reaped, workers
find the runs of its lanes after a second.

Unclaimed runs stay at the head of their lane: a relay is at most one look ahead of the workers.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import blake2b
from uuid import UUID

from duetime.clock import monotonic
from duetime.crypto.sealer import Sealer
from duetime.errors import DuetimeError, reason_of
from duetime.model.announced import is_announced
from duetime.model.carried import StreamQueue
from duetime.model.lane import Lane, Look, Sight, Tier, tier_of
from duetime.process.ending import end_tasks
from duetime.process.loop import Loop, retrieve_error
from duetime.store.protocol.ready import Announcement
from duetime.store.protocol.store import Hint, Store
from duetime.store.shared.awake_lanes import LaneFollower
from duetime.streams.brokers import Brokers
from duetime.streams.message import MessageCodec
from duetime.streams.names import StreamName, streams_of
from duetime.streams.protocol import Broker

log = logging.getLogger("duetime.relay")

DEPTH = 1000
_LANES_AT_ONCE = 50
_QUEUES_EVERY = 1.0
_RELAYS_EVERY = 5.0
_POLL = 0.25
"""Seconds between looks without a hint, at most."""
_AHEAD = 0.5
"""After a look that found as many runs as it can, the share of them that workers must have claimed before the next
look."""
_FIRST = 0.02
"""Seconds from the first look that found as many runs as it can to the next one."""
_SHARE = 5
"""Looks that find few runs take at most this fraction of the time: one in `_SHARE`."""
_LITTLE = DEPTH // 4
_LEAST_PAUSE, _LONGEST_PAUSE = 0.005, 0.5
_WAKE_AFTER = 0.0005
_RETRY = 1.0
_WAITED_FOR = 0.25
"""Seconds for which a look waits for the brokers."""


class Relay:
    def __init__(self, store: Store, brokers: Brokers, *, lease: timedelta, name: str | None = None) -> None:
        self._store = store
        self._brokers = brokers
        self._codec = MessageCodec(store.sealer or Sealer(()))
        self._lease = lease.total_seconds()
        self._name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._lanes = LaneFollower(store.claims)
        self._queues: dict[tuple[int, str], StreamQueue] = {}
        self._queues_read_at = self._relays_read_at = float("-inf")
        self._relays: frozenset[str] = frozenset()
        self._mine: dict[int, bool] = {}
        """Whether this relay announces a lane, among `_relays`: a hash for each lane and relay is computed once."""
        self._announced: dict[int, dict[UUID, float]] = {}
        """By lane: the unclaimed runs that were announced here, and when."""
        self._full_at: dict[int, float] = {}
        """Lanes in which more was ready than one look shows, and when that was seen last."""
        self._fresh_seen = 0
        """How many runs the last round of looks found that were not announced yet."""
        self._look_at = 0.0
        self._sending: dict[str, asyncio.Task[None]] = {}
        """What is being announced at each broker. A broker that is slow to answer delays no other."""
        self._unavailable: dict[str, float] = {}
        """Brokers that did not answer, and until when they are left alone."""
        self.loop = Loop("relay", self.tick)

    async def close(self) -> None:
        await end_tasks(self._sending.values())

    def hint(self, hint: Hint) -> None:
        if hint is Hint.READY and self._queues:
            self.loop.wake()

    async def tick(self) -> float:
        now = monotonic()
        if now < self._look_at:
            return self._look_at - now
        await self._read(now)
        if not self._queues:
            self._announced.clear()
            return _QUEUES_EVERY
        began = monotonic()
        lanes = await self._own_lanes()
        delay, self._fresh_seen = _POLL, 0
        for start in range(0, len(lanes), _LANES_AT_ONCE):
            part = {lane.id: lane for lane in lanes[start : start + _LANES_AT_ONCE]}
            delay = min(delay, await self._announce(await self._store.claims.look(list(part), DEPTH), part))
        self._announced = {lane.id: self._announced[lane.id] for lane in lanes if lane.id in self._announced}
        self._full_at = {lane.id: self._full_at[lane.id] for lane in lanes if lane.id in self._full_at}
        ended = monotonic()
        pause = 0.0 if self._fresh_seen >= _LITTLE else (_SHARE - 1) * (ended - began)
        self._look_at = ended + min(_LONGEST_PAUSE, max(_LEAST_PAUSE, pause))
        return max(delay, self._look_at - ended)

    async def _read(self, now: float) -> None:
        """Read which queues are streams, and which processes have relays."""
        if now - self._queues_read_at > _QUEUES_EVERY:
            self._queues_read_at = now
            queues, _ = await self._store.streams.known_queues(_QUEUES_EVERY / 2)
            self._queues = {
                (queue.tenant_id, queue.queue): queue for queue in queues if queue.current and not queue.paused
            }
        if self._queues and now - self._relays_read_at > _RELAYS_EVERY:
            self._relays_read_at = now
            workers = await self._store.leases.workers()
            relays = frozenset(worker.name for worker in workers if worker.tenant_id is None)
            if relays != self._relays:
                self._relays, self._mine = relays, {}
            if self._name not in self._relays:
                self._relays_read_at = now - _RELAYS_EVERY + _QUEUES_EVERY  # its worker is about to register

    async def _own_lanes(self) -> list[Lane]:
        await self._lanes.read()
        if self._name not in self._relays:
            return []  # a process without workers of its own
        found = [lane for lane in self._lanes.by_id.values() if is_announced(lane.key, self._queues)]
        known = self._mine
        self._mine = {lane.id: known[lane.id] if lane.id in known else self._is_mine(lane.id) for lane in found}
        return [lane for lane in found if self._mine[lane.id]]

    def _is_mine(self, lane_id: int) -> bool:
        return max(self._relays, key=lambda name: blake2b(f"{name} {lane_id}".encode()).digest()) == self._name

    async def _announce(self, look: Look, lanes: Mapping[int, Lane]) -> float:
        """Announce what is ready; returns how long to sleep."""
        by_broker: dict[str, dict[tuple[StreamQueue, Tier], list[Announcement]]] = {}
        delay = _POLL
        seen = {sight.lane_id for sight in look.sights}
        for lane_id in [lane_id for lane_id in lanes if lane_id not in seen]:
            self._announced.pop(lane_id, None)
            self._full_at.pop(lane_id, None)
        for sight in look.sights:
            key = lanes[sight.lane_id].key
            queue = self._queues[key.tenant_id, key.queue]
            fresh = self._fresh(sight, look)
            self._fresh_seen += len(fresh)
            coming = next((at for at in sight.ready_at if at > look.now), None)
            if coming is not None:
                delay = min(delay, (coming - look.now).total_seconds() + _WAKE_AFTER)
            delay = min(delay, self._until_half_is_claimed(sight, look, len(fresh)))
            if fresh and self._is_free(queue.settings.address):
                group = by_broker.setdefault(queue.settings.address, {}).setdefault((queue, tier_of(key.tier)), [])
                group += [Announcement(run_id, sight.lane_id) for run_id in fresh]
        for address, groups in by_broker.items():
            task = self._sending[address] = asyncio.create_task(self._send(groups))
            task.add_done_callback(retrieve_error)
        if by_broker:
            await asyncio.wait([self._sending[address] for address in by_broker], timeout=_WAITED_FOR)
        return delay

    def _until_half_is_claimed(self, sight: Sight, look: Look, fresh: int) -> float:
        """The seconds until the next look at a lane. After a look that found as many runs as it can, workers must first
        claim a share of them. `fresh`: the runs that were not announced yet; their number shows how fast workers
        claim."""
        before = self._full_at.pop(sight.lane_id, None)
        if len(sight.ready_at) < look.depth or sight.ready_at[-1] > look.now:
            return _POLL
        now = self._full_at[sight.lane_id] = monotonic()
        if before is None:
            return _FIRST
        return min(_POLL, (now - before) * min(2.0, _AHEAD * look.depth / max(1, fresh)))

    def _is_free(self, address: str) -> bool:
        """Whether announcements can be sent to this broker: it answers, as far as is known."""
        sending = self._sending.get(address)
        return (sending is None or sending.done()) and self._unavailable.get(address, 0.0) <= monotonic()

    async def _send(self, groups: Mapping[tuple[StreamQueue, Tier], Sequence[Announcement]]) -> None:
        """Announce runs in the streams of one broker."""
        for (queue, tier), announced in groups.items():
            try:
                broker = await self._brokers.at(queue.settings)
                await self._publish(broker, streams_of(queue, shared=broker.shared)[tier], announced)
            except DuetimeError as error:
                self._leave(queue, error)
                return

    def _fresh(self, sight: Sight, look: Look) -> list[UUID]:
        """The ready runs of a lane that were not announced here for a lease. Runs that left the lane are forgotten."""
        now = monotonic()
        before = self._announced.get(sight.lane_id, {})
        self._announced[sight.lane_id] = {
            run_id: before[run_id]
            for run_id in sight.run_ids
            if run_id in before and now - before[run_id] < self._lease
        }
        known = self._announced[sight.lane_id]
        return [
            run_id
            for at, run_id in zip(sight.ready_at, sight.run_ids, strict=True)
            if at <= look.now and run_id not in known
        ]

    async def _publish(self, broker: Broker, stream: StreamName, announced: Sequence[Announcement]) -> None:
        await broker.publish(stream.text, await self._codec.pack(stream, announced))
        now = monotonic()
        for run_id, lane_id in announced:
            if lane_id in self._announced:
                self._announced[lane_id][run_id] = now

    def _leave(self, queue: StreamQueue, error: DuetimeError) -> None:
        """Leave a broker alone for a moment. Workers find the runs in their lanes meanwhile."""
        self._unavailable[queue.settings.address] = monotonic() + _RETRY
        log.warning("ready runs of queue %s cannot be announced now: %s", queue.queue, reason_of(error))
