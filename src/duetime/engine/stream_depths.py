"""How much is in the streams of a tenant, and whether a run without a row may be one of those messages."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from duetime.clock import SystemClock, monotonic
from duetime.errors import StreamUnavailable
from duetime.ids import time_of
from duetime.model.carried import StreamQueue
from duetime.model.lane import Tier
from duetime.model.nonce import WINDOW
from duetime.streams.names import streams_of
from duetime.streams.protocol import Broker
from duetime.streams.publisher import Publisher

SAMPLED = 1.0
"""Seconds for which a sample is used."""
_ANSWERED = 2.0
"""Seconds to wait for a broker."""
_HELD = 20.0
"""Seconds for which a worker may hold a run that has neither ended nor landed."""
_GLANCE = 0.3
"""Seconds for which a list of queues waits for a sample."""
_WINDOW = timedelta(seconds=WINDOW)
_MOST_TENANTS = 10_000


class StreamDepth(NamedTuple):
    """What is in one stream: messages that are not done."""

    queue: str
    tier: Tier
    generation: int
    messages: int
    oldest: datetime | None
    """When the oldest message was published; None: there is none, or the broker cannot tell."""
    shared: bool
    """Whether the messages of all tenants are counted, because they share the stream."""
    counts_held: bool
    """Whether those that workers hold are among them."""


class Sample(NamedTuple):
    depths: tuple[StreamDepth, ...]
    """Of the streams that exist."""
    is_whole: bool
    """Whether all brokers answered."""

    def of(self, queue: str) -> int:
        """How many messages are in all streams of a queue."""
        return sum(depth.messages for depth in self.depths if depth.queue == queue)

    def may_hold(self, identity: UUID) -> bool:
        """Whether the job or run with this id may be among the messages. The clock that the id was drawn by may differ
        by the window of a nonce."""
        moment = time_of(identity)
        if moment > SystemClock().now() + _WINDOW:
            return False
        return not self.is_whole or any(
            depth.messages and (depth.oldest is None or moment >= depth.oldest - _WINDOW) for depth in self.depths
        )


NOTHING = Sample((), True)


class _Emptied(NamedTuple):
    """What samples say about streams whose held messages are not counted."""

    at: datetime
    """When they were found empty: whatever was published before has ended, landed, or is held."""
    seen_at: float
    """The same moment by `monotonic`."""
    settled: datetime | None
    """The last such moment that is so long ago that the runs held then have ended or landed by now."""


class StreamDepths:
    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._samples: dict[int, tuple[float, Sample]] = {}
        self._emptied: dict[int, _Emptied] = {}
        self._sampling: dict[int, asyncio.Task[Sample]] = {}

    async def sample(self, tenant_id: int, queues: Iterable[StreamQueue], *, within: float = SAMPLED) -> Sample:
        """What is in these streams, which are all of a tenant's; read at most `within` seconds ago."""
        taken_at, found = self._samples.get(tenant_id, (None, None))
        if taken_at is not None and found is not None and monotonic() - taken_at <= within:
            return found
        sampling = self._sampling.get(tenant_id)
        if sampling is None or not within:
            sampling = self._sampling[tenant_id] = asyncio.create_task(self._sample(tenant_id, tuple(queues)))
        return await asyncio.shield(sampling)

    async def glance(self, tenant_id: int, queues: Iterable[StreamQueue]) -> Sample:
        """Like `sample`, but returns an older sample if brokers do not answer at once."""
        try:
            async with asyncio.timeout(_GLANCE):
                return await self.sample(tenant_id, queues)
        except TimeoutError:
            return self._samples.get(tenant_id, (0.0, NOTHING))[1]

    async def _sample(self, tenant_id: int, queues: tuple[StreamQueue, ...]) -> Sample:
        began = monotonic()
        places = defaultdict(list)
        for queue in queues:
            places[queue.settings.address].append(queue)
        try:
            parts = await asyncio.gather(*(self._read(place) for place in places.values()), return_exceptions=True)
        finally:
            if self._sampling.get(tenant_id) is asyncio.current_task():
                del self._sampling[tenant_id]
        found: list[StreamDepth] = []
        is_whole = True
        for part in parts:
            if isinstance(part, StreamUnavailable):
                is_whole = False
            elif isinstance(part, BaseException):
                raise part
            else:
                found += part
        if len(self._samples) >= _MOST_TENANTS:
            self._samples.clear()
            self._emptied.clear()
        sample = Sample(tuple(found), is_whole)
        self._samples[tenant_id] = began, sample
        if is_whole and not any(depth.messages for depth in found if not depth.counts_held):
            now, known = SystemClock().now(), self._emptied.get(tenant_id)
            age = timedelta(seconds=monotonic() - began)
            if known is None:
                self._emptied[tenant_id] = _Emptied(now - age, began, None)
            elif began - known.seen_at > _HELD:
                self._emptied[tenant_id] = _Emptied(now - age, began, known.at)
        return sample

    def may_be_held(self, tenant_id: int, identity: UUID) -> bool:
        """Whether a worker may hold the message with this job or run, at a broker that does not count what is held."""
        _, sample = self._samples.get(tenant_id, (0.0, NOTHING))
        moment = time_of(identity)
        if all(depth.counts_held for depth in sample.depths) or moment > SystemClock().now() + _WINDOW:
            return False
        known = self._emptied.get(tenant_id)
        return known is None or known.settled is None or moment >= known.settled - _WINDOW

    async def _read(self, queues: list[StreamQueue]) -> list[StreamDepth]:
        """The depths of streams at one broker."""

        async def read(broker: Broker) -> list[StreamDepth]:
            names = {
                name.text: (queue, tier)
                for queue in queues
                for tier, name in streams_of(queue, shared=broker.shared).items()
            }
            depths = await broker.depths(list(names))
            return [
                StreamDepth(
                    queue.queue, tier, queue.generation, depth.messages, depth.oldest, broker.shared, depth.counts_held
                )
                for text, (queue, tier) in names.items()
                if (depth := depths.get(text)) is not None
            ]

        return await self._publisher.ask(queues[0].settings, read, _ANSWERED)
