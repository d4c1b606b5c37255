"""What is done to stream queues and their brokers. `came_of_it` says how much of each fault reached the product."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Protocol

from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from chaos.real.brokers import Kafka, Redis, StreamBroker
from chaos.real.cluster import Cluster, Member
from chaos.real.deaths import RESTART
from chaos.real.network import Way
from chaos.real.points import POINTS
from chaos.real.strikes import Strike
from chaos.retries import answered
from duetime.model.carried import StreamSettings
from duetime.model.job import DEFAULT_QUEUE, DEFAULT_TENANT
from duetime.store.protocol.store import Store
from duetime.streams.setup import apply_change, check_change

_COPIES = 100
_LEFT_ALONE = 15.0
"""Seconds in which a process must come to a point of its work."""
_JOINED, _REBALANCED = 60.0, 20.0
_LOOKED_EVERY = 0.01
"""Seconds between looks at Redis, where a message stays for milliseconds while workers are idle."""


class Record(Protocol):
    def __call__(self, strike: Strike, until: float, who: str, **more: Any) -> None: ...


class StreamedQueue:
    """The queue of the workload, as an operator sets it: through a stream, or through the store."""

    def __init__(self, store: Store, broker: StreamBroker, *, fallback: bool) -> None:
        self._store = store
        self._broker = broker
        self._fallback = fallback
        self._number = 0
        self.is_stream = False

    async def change(self, *, to_stream: bool) -> None:
        """A change to a stream is one to streams that were not used before. May be repeated."""
        if to_stream:
            self._number += 1
            settings = StreamSettings(self._broker.address(self._number), fallback=self._fallback)
            streams = self._store.streams
            checked = await check_change(streams, DEFAULT_TENANT, DEFAULT_QUEUE, lambda _: settings, sealed=True)
            await apply_change(streams, DEFAULT_TENANT, DEFAULT_QUEUE, checked)
        else:
            await self._store.streams.set_stream(DEFAULT_TENANT, DEFAULT_QUEUE, None)
        self.is_stream = to_stream


class StreamFaults:
    def __init__(
        self,
        cluster: Cluster,
        broker: StreamBroker,
        queue: StreamedQueue,
        deaths: Path,
        record: Record,
        *,
        base: float,
    ) -> None:
        """`deaths` is the file that names the point at which a process must die; `base` is what all clocks showed when
        true time began."""
        self._cluster = cluster
        self._broker = broker
        self._queue = queue
        self._deaths = deaths
        self._record = record
        self._base = base
        self._away = asyncio.Lock()
        self._dying = asyncio.Lock()

    async def strike(self, strike: Strike) -> None:
        await STREAM_KINDS[strike.kind](self, strike)

    async def kill_broker(self, strike: Strike) -> None:
        async with self._away:
            struck = monotonic()
            used = await self._broker.kill(strike.who)
            await asyncio.sleep(strike.lasts)
            await self._broker.revive()
            self._record(strike, monotonic(), "broker", t=struck, came_of_it=used)

    async def unanswered(self, strike: Strike) -> None:
        """The broker receives all requests, and its answers go nowhere: publishing then fails all the same."""
        assert isinstance(self._broker, Redis)
        async with self._away:
            await self._published(self._broker)
            struck, before = monotonic(), await self._broker.added()
            self._broker.proxy.set_way(Way.HALF)
            await asyncio.sleep(strike.lasts)
            added = await self._broker.added() - before
            self._broker.proxy.reset()  # what was written to a dead line stays lost
            self._broker.proxy.set_way(Way.OPEN)
            self._record(strike, monotonic(), "broker", t=struck, came_of_it=added)

    async def _published(self, broker: Redis) -> None:
        """Wait until runs go through the stream, so that there are lines that a publish can go out on."""
        before, deadline = await broker.added(), monotonic() + _LEFT_ALONE
        while await broker.added() <= before + _COPIES and monotonic() < deadline:
            await asyncio.sleep(0.1)

    async def duplicate(self, strike: Strike) -> None:
        """Messages of any age come again, most of them done long ago."""
        async with self._away:
            random, seen = Random(strike.t), list(self._broker.sent)
            copies = random.sample(seen, min(_COPIES, len(seen)))
            # Half of those that may not be done yet.
            copies += [each for each in seen[-_COPIES:] if random.random() < 0.5]
            await self._broker.publish(copies)
            today = self._day(monotonic())
            old = sum(self._day(each.t) < today for each in copies)
            self._record(strike, monotonic(), "broker", came_of_it=len(copies), from_yesterday=old)

    def _day(self, t: float) -> int:
        return int((self._base + t) // 86400)

    async def rebalance(self, strike: Strike) -> None:
        """A consumer leaves its group and comes back, as when workers are replaced."""
        assert isinstance(self._broker, Kafka)
        async with self._away:
            member = self._cluster.workers[int(strike.who * len(self._cluster.workers))]
            before, deadline = await self._broker.owners(), monotonic() + _JOINED
            # Other faults may have ended it, or left the partitions without owners.
            while (member.pid is None or not before) and monotonic() < deadline:
                await asyncio.sleep(0.5)
                before = await self._broker.owners()
            struck, pid, moved = monotonic(), member.pid, 0
            member.send(signal.SIGTERM)
            while not moved and monotonic() < struck + _REBALANCED:
                await asyncio.sleep(0.5)
                after = await self._broker.owners()
                moved = sum(after.get(place, owner) != owner for place, owner in before.items())
            self._record(strike, monotonic() + RESTART, member.name, t=struck, pid=pid, came_of_it=moved)

    async def reset_offsets(self, strike: Strike) -> None:
        """All that the broker still has is delivered again. Kafka allows it only while the groups have no members."""
        async with self._away:
            broker, workers = self._broker, list[Member]()
            assert isinstance(broker, Redis | Kafka)
            # A broker without messages that were delivered has nothing to deliver again.
            deadline = monotonic() + _LEFT_ALONE
            if isinstance(broker, Kafka):
                while not await broker.delivered() and monotonic() < deadline:
                    await asyncio.sleep(0.3)
                # Killed: a consumer that is closed removes what is done. Servers consume too, for targets.
                workers = self._cluster.members
                for member in workers:
                    member.wanted = False
                    member.send(signal.SIGKILL)
            struck = monotonic()
            try:
                again = await broker.reset()
                while not again and not workers and monotonic() < deadline:
                    await asyncio.sleep(_LOOKED_EVERY)
                    struck, again = monotonic(), await broker.reset()
            finally:
                for member in workers:
                    member.wanted = True
            self._record(strike, monotonic() + RESTART, "broker", t=struck, came_of_it=again)

    async def change_kind(self, strike: Strike) -> None:
        async with self._away:
            struck = monotonic()
            to_stream = not self._queue.is_stream
            await answered(lambda: self._queue.change(to_stream=to_stream))
            self._record(strike, monotonic(), "queue", t=struck, came_of_it=1)

    async def die(self, strike: Strike) -> None:
        """The process that comes to the point writes down what came of it."""
        async with self._dying:
            self._deaths.write_text(strike.kind)
            deadline = monotonic() + _LEFT_ALONE
            while self._deaths.exists() and monotonic() < deadline:
                await asyncio.sleep(0.1)
            with contextlib.suppress(FileNotFoundError):
                self._deaths.unlink()
                self._record(strike, monotonic(), "none", came_of_it=0)


async def settled(broker: StreamBroker | None) -> list[str]:
    """What is left in the streams, in words."""
    if broker is None:
        return []
    try:
        return await broker.left()
    except (RedisError, KafkaException, OSError) as error:
        return [f"what is in the streams cannot be read: {error}"]


STREAM_KINDS: dict[str, Callable[[StreamFaults, Strike], Awaitable[None]]] = {
    "kill broker": StreamFaults.kill_broker,
    "publish unanswered": StreamFaults.unanswered,
    "duplicate": StreamFaults.duplicate,
    "rebalance": StreamFaults.rebalance,
    "reset offsets": StreamFaults.reset_offsets,
    "change kind": StreamFaults.change_kind,
    **dict.fromkeys(POINTS, StreamFaults.die),
}
