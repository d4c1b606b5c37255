"""A queue that goes through a stream at a real Redis, and messages in it as a submission makes them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from duetime.crypto.sealer import Sealer
from duetime.engine.intake import prepare
from duetime.model.carried import CarriedRun, StreamQueue, StreamSettings
from duetime.model.job import DEFAULT_TENANT
from duetime.model.lane import Tier
from duetime.process.loop import retry_until_available
from duetime.store.protocol.ready import Announcement
from duetime.store.protocol.store import Store
from duetime.streams.address import broker_at
from duetime.streams.message import MessageCodec
from duetime.streams.names import StreamName, streams_of
from duetime.streams.protocol import Broker

QUEUE = "mail"


class Streamed:
    """A stream queue of the default tenant."""

    def __init__(self, store: Store, broker: Broker, queue: StreamQueue) -> None:
        self.store = store
        self.broker = broker
        self.queue = queue
        self.codec = MessageCodec(store.sealer or Sealer(()))

    def stream(self, tier: Tier = Tier.MEDIUM) -> StreamName:
        return streams_of(self.queue, shared=self.broker.shared)[tier]

    async def carry(
        self, task: str, *batch: dict[str, Any], tier: Tier = Tier.MEDIUM, **options: Any
    ) -> list[CarriedRun]:
        """Publish plain runs, as a submission does."""
        jobs = [
            prepare(task=task, args=args, max_payload=1 << 18, queue=self.queue.queue, tier=tier, **options)
            for args in batch
        ]
        runs = await self.store.streams.carry(DEFAULT_TENANT, jobs)
        await self.publish(runs, tier)
        return runs

    async def publish(self, messages: Sequence[CarriedRun | Announcement], tier: Tier = Tier.MEDIUM) -> None:
        stream = self.stream(tier)
        bodies = await self.codec.pack(stream, messages)
        await retry_until_available(lambda: self.broker.publish(stream.text, bodies), 20.0)

    async def depth(self) -> int:
        """How many messages are not done, in all tiers."""
        names = [self.stream(tier).text for tier in Tier]
        depths = await retry_until_available(lambda: self.broker.depths(names), 20.0)
        return sum(depth.messages for depth in depths.values())

    async def is_empty(self) -> bool:
        return await self.depth() == 0


@asynccontextmanager
async def streamed(store: Store, address: str, **settings: Any) -> AsyncIterator[Streamed]:
    """Send the queue `mail` through a stream at this address."""
    queue = await store.streams.set_stream(DEFAULT_TENANT, QUEUE, StreamSettings(address, **settings))
    assert queue is not None
    broker = await broker_at(queue.settings.address)
    await broker.open()
    try:
        await broker.check([name.text for name in streams_of(queue, shared=broker.shared).values()])
        yield Streamed(store, broker, queue)
    finally:
        await broker.close()
