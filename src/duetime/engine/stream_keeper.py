"""The keeper of streams: it measures their depths and ages, retires generations that are empty, and reports messages
that have waited for over half of the time for which their broker keeps them.

A generation that is no longer current is retired after it was found empty throughout two leases: by then every process
publishes to the current one, and nothing comes back.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from duetime.clock import elapsed, monotonic
from duetime.errors import DuetimeError, reason_of
from duetime.model.carried import StreamQueue
from duetime.model.lane import Tier
from duetime.store.protocol.store import Store
from duetime.streams.address import shown_address
from duetime.streams.brokers import Brokers
from duetime.streams.names import streams_of
from duetime.streams.protocol import Depth
from duetime.telemetry.meters import Labelled, Meters

log = logging.getLogger("duetime.streams")

_KNOWN_WITHIN = 1.0
_USABLE = timedelta(minutes=10).total_seconds()
"""Seconds for which the age of the oldest message is used."""

_OLD = 0.5
"""The share of its retention after which a message is reported."""

_Generation = tuple[int, str, int]


class StreamKeeper:
    def __init__(self, store: Store, brokers: Brokers, meters: Meters, *, lease: timedelta) -> None:
        self._store = store
        self._brokers = brokers
        self._lease = lease.total_seconds()
        self._empty_since: dict[_Generation, float] = {}
        self._last_empty: dict[str, datetime] = {}
        """When a stream was last seen empty here, for brokers that cannot tell how old a message is."""
        self._oldest_message: tuple[float, datetime] | None = None
        """When it was read, by `elapsed`, and the age of the oldest message at that time."""
        self.depths: dict[tuple[int, str], int] = {}
        """How many messages the streams of each tenant's queue hold."""
        self._depth: Labelled = {}
        self._oldest: Labelled = {}
        self._retention_used: Labelled = {}
        self._old: set[str] = set()
        """Streams that were reported."""
        meters.add_gauge("duetime_stream_depth", lambda: self._depth)
        meters.add_gauge("duetime_stream_oldest_age_seconds", lambda: self._oldest)
        meters.add_gauge("duetime_stream_retention_used", lambda: self._retention_used)

    async def tick(self) -> float:
        queues, _ = await self._store.streams.known_queues(_KNOWN_WITHIN)
        if not queues:
            self._depth, self._oldest, self._retention_used, self.depths = {}, {}, {}, {}
            self._empty_since.clear()
            self._oldest_message = None
            return self._lease / 3
        now = await self._store.now()
        by_tier: defaultdict[Tier, dict[str, Depth]] = defaultdict(dict)
        complete = True
        for group in _by_place(queues).values():
            try:
                await self._measure(group, by_tier)
            except DuetimeError as error:
                complete = False
                log.warning("the depth of streams at %s is unknown: %s", *_said(group[0], error))
        found = {stream: depth for depths in by_tier.values() for stream, depth in depths.items()}
        for stream, depth in found.items():
            if not depth.messages:
                self._last_empty[stream] = now
        self._show(by_tier, now)
        self.depths = _by_queue(queues, found)
        self._warn(found, now)
        await self._retire(queues, found)
        self._oldest_message = self._read_oldest(found, now) if complete else None
        return self._lease / 3

    async def oldest_message(self) -> datetime | None:
        """No stream holds a message that was published before this moment; None: this is not known."""
        if self._oldest_message is None or elapsed() - self._oldest_message[0] > _USABLE:
            return None
        return self._oldest_message[1]

    async def _measure(self, queues: Sequence[StreamQueue], by_tier: Mapping[Tier, dict[str, Depth]]) -> None:
        """Read the depths of queues at one broker."""
        broker = await self._brokers.at(queues[0].settings)
        tiers = {name.text: tier for queue in queues for tier, name in streams_of(queue, shared=broker.shared).items()}
        depths = await broker.depths(list(tiers))
        for stream, tier in tiers.items():
            by_tier[tier][stream] = depths.get(stream, Depth(0, None))

    def _show(self, by_tier: Mapping[Tier, Mapping[str, Depth]], now: datetime) -> None:
        self._depth = {
            (tier.name.lower(),): float(sum(depth.messages for depth in depths.values()))
            for tier, depths in by_tier.items()
        }
        self._oldest = {
            (tier.name.lower(),): max(
                ((now - depth.oldest).total_seconds() for depth in depths.values() if depth.oldest is not None),
                default=0.0,
            )
            for tier, depths in by_tier.items()
        }
        self._retention_used = {
            (tier.name.lower(),): max((self._used(stream, depth, now) for stream, depth in depths.items()), default=0.0)
            for tier, depths in by_tier.items()
        }

    def _warn(self, found: Mapping[str, Depth], now: datetime) -> None:
        """Report streams whose messages will be lost if no worker takes them in time."""
        before, self._old = self._old, set()
        for stream, depth in found.items():
            used = self._used(stream, depth, now)
            if used > _OLD and depth.kept is not None:
                self._old.add(stream)
                if stream not in before:
                    log.error(
                        "messages in %s wait for %.0f %% of the time after which the broker deletes them (%s): "
                        "add workers, or raise the retention",
                        *(stream, 100 * used, depth.kept),
                    )

    def _used(self, stream: str, depth: Depth, now: datetime) -> float:
        """For which share of the time for which its broker keeps it the oldest message has waited."""
        oldest = depth.oldest or self._last_empty.get(stream)
        if depth.kept is None or not depth.messages or oldest is None:
            return 0.0
        return (now - oldest) / depth.kept

    async def _retire(self, queues: Sequence[StreamQueue], found: Mapping[str, Depth]) -> None:
        now = monotonic()
        old = [queue for queue in queues if not queue.current]
        before, self._empty_since = self._empty_since, {}
        for queue in old:
            generation = (queue.tenant_id, queue.queue, queue.generation)
            names = [
                name.text
                for shared in (False, True)
                for name in streams_of(queue, shared=shared).values()
                if name.text in found
            ]
            if not names or any(found[name].messages for name in names):
                continue
            since = self._empty_since[generation] = before.get(generation, now)
            if min(now - since, queue.age) > 2 * self._lease and await self._store.streams.retire_stream(*generation):
                log.info("generation %d of the stream of queue %s is retired", queue.generation, queue.queue)

    def _read_oldest(self, found: Mapping[str, Depth], now: datetime) -> tuple[float, datetime] | None:
        oldest = now
        for stream, depth in found.items():
            if depth.messages:
                at = depth.oldest or self._last_empty.get(stream)
                if at is None:
                    return None  # the age of its messages is unknown
                oldest = min(oldest, at)
        return elapsed(), oldest


def _by_queue(queues: Sequence[StreamQueue], found: Mapping[str, Depth]) -> dict[tuple[int, str], int]:
    """Tenants that share a stream have all its messages."""
    counts: dict[tuple[int, str], int] = {}
    for queue in queues:
        names = {name.text for shared in (False, True) for name in streams_of(queue, shared=shared).values()}
        messages = sum(found[name].messages for name in names if name in found)
        place = (queue.tenant_id, queue.queue)
        counts[place] = counts.get(place, 0) + messages
    return counts


def _by_place(queues: Sequence[StreamQueue]) -> dict[str, list[StreamQueue]]:
    found: dict[str, list[StreamQueue]] = {}
    for queue in queues:
        found.setdefault(queue.settings.address, []).append(queue)
    return found


def _said(queue: StreamQueue, error: DuetimeError) -> tuple[str, str]:
    return shown_address(queue.settings.address), reason_of(error)
