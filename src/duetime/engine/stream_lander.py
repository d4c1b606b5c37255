"""The server's part of stream queues: remote workers get carried runs through the store.

While remote workers wait at this server with free slots, it fetches as many messages of their tenants' streams as they
have slots, and lands them. The dealer claims them for the workers like all other runs. A run that goes this way costs
the database more than a run of a store queue. Announcements are dropped: the dealer looks at the lanes itself.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

from duetime.clock import monotonic
from duetime.crypto.sealer import Sealer
from duetime.errors import DuetimeError, StoreUnavailable, StreamUnavailable, reason_of
from duetime.ids import new_id
from duetime.model.carried import CarriedRun, Landed, StreamQueue
from duetime.process.loop import Loop
from duetime.store.protocol.store import Store
from duetime.streams.address import shown_address
from duetime.streams.brokers import Brokers
from duetime.streams.landing import Lander, ToLand
from duetime.streams.message import MessageCodec, Refused, Unreadable
from duetime.streams.names import StreamName, streams_of
from duetime.streams.protocol import Broker, Consumer, Delivery
from duetime.telemetry.meters import Meters

log = logging.getLogger("duetime.streams")

_QUEUES_EVERY = 1.0
_WAIT = 0.25
_IDLE = 1.0
_RETRY = 1.0
_LEFT_FOR_OTHERS = 60.0
_DEALT = 0.005
"""Seconds in which the dealer claims what has landed."""

Rooms = Callable[[], Mapping[tuple[int, frozenset[str]], int]]
"""The free slots of waiting remote workers, by their tenant and their queues (none: all)."""


class StreamLander:
    def __init__(self, store: Store, brokers: Brokers, meters: Meters, rooms: Rooms, *, lease: timedelta) -> None:
        self._store = store
        self._brokers = brokers
        self._meters = meters
        self._rooms = rooms
        self._lease = lease.total_seconds()
        self._codec = MessageCodec(store.sealer or Sealer(()))
        self._name = str(new_id())
        self._queues: list[StreamQueue] = []
        self._queues_read_at = float("-inf")
        self._outlets: dict[str, _Outlet] = {}
        self._left_until: dict[str, float] = {}
        """Brokers and streams that are left alone, and until when."""
        self.loop = Loop("stream lander", self.tick)

    async def tick(self) -> float:
        now = monotonic()
        for address, outlet in self._outlets.items():
            if self._left_until.get(address, 0.0) <= now:
                try:
                    await outlet.land()  # what an unavailable store has left
                except StreamUnavailable as error:
                    self._leave(address, _RETRY, error)  # the other brokers do not wait for it
        rooms = self._rooms()
        if not rooms:
            return _IDLE
        if now - self._queues_read_at > _QUEUES_EVERY:
            self._queues_read_at = now
            queues, _ = await self._store.streams.known_queues(_QUEUES_EVERY / 2)
            self._queues = [queue for queue in queues if not queue.paused]
        by_address: dict[str, list[tuple[StreamQueue, int]]] = {}
        for queue in self._queues:
            room = sum(
                free
                for (tenant_id, queues), free in rooms.items()
                if tenant_id == queue.tenant_id and (not queues or queue.queue in queues)
            )
            if room and self._left_until.get(queue.settings.address, 0.0) <= now:
                by_address.setdefault(queue.settings.address, []).append((queue, room))
        if not by_address:
            return _IDLE
        for address, wanted in by_address.items():
            try:
                await self._fetch(address, wanted, _WAIT / len(by_address))
            except StreamUnavailable as error:
                self._leave(address, _RETRY, error)
            except StoreUnavailable:
                raise
            except DuetimeError as error:
                self._leave(address, _LEFT_FOR_OTHERS, error)
        return _DEALT

    async def close(self) -> None:
        for outlet in self._outlets.values():
            with suppress(StreamUnavailable):
                await outlet.consumer.close()
        self._outlets.clear()

    async def _fetch(self, address: str, wanted: Sequence[tuple[StreamQueue, int]], wait: float) -> None:
        broker = await self._brokers.at(wanted[0][0].settings)
        rooms: dict[StreamName, int] = {}
        for queue, room in wanted:
            for name in streams_of(queue, shared=broker.shared).values():
                rooms[name] = max(rooms.get(name, 0), room)
        outlet = await self._outlet(address, broker, list(rooms))
        now = monotonic()
        takes = [
            (name.text, max(1, room // len(rooms)))
            for name, room in rooms.items()
            if self._left_until.get(name.text, 0.0) <= now
        ]
        for delivery in await outlet.consumer.fetch(takes, wait):
            await self._receive(outlet, delivery)
        await outlet.land()

    async def _outlet(self, address: str, broker: Broker, names: Sequence[StreamName]) -> "_Outlet":
        """A consumer of at least these streams."""
        outlet = self._outlets.get(address)
        if outlet is None or any(name.text not in outlet.streams for name in names):
            streams = {**(outlet.streams if outlet is not None else {}), **{name.text: name for name in names}}
            if outlet is not None:
                await outlet.consumer.close()  # nothing is held between two fetches
            consumer = await broker.consumer(sorted(streams), f"{self._name}-{len(streams)}", self._lease)
            lander = Lander(self._store, broker, streams, self._meters)
            outlet = self._outlets[address] = _Outlet(consumer, streams, lander)
        return outlet

    async def _receive(self, outlet: "_Outlet", delivery: Delivery) -> None:
        (message,) = await self._codec.unpack(outlet.streams[delivery.stream], [delivery.body])
        if isinstance(message, CarriedRun):
            how, reason = (Landed.SUSPECT, "redelivered") if delivery.redelivered else (Landed.WAITING, "remote")
            self._meters.redelivered += delivery.redelivered
            outlet.waiting.append(ToLand(message, delivery, how, reason))
        elif isinstance(message, Refused):
            outlet.done.append(await outlet.lander.refuse(delivery, message))
        elif isinstance(message, Unreadable):
            self._left_until[delivery.stream] = monotonic() + _LEFT_FOR_OTHERS
            log.error("%s is not consumed here: %s", delivery.stream, message.reason)
        else:
            outlet.done.append(delivery)

    def _leave(self, address: str, seconds: float, error: DuetimeError) -> None:
        self._left_until[address] = monotonic() + seconds
        log.warning("streams at %s cannot be consumed now: %s", shown_address(address), reason_of(error))


class _Outlet:
    """A consumer, and what it has fetched."""

    def __init__(self, consumer: Consumer, streams: Mapping[str, StreamName], lander: Lander) -> None:
        self.consumer = consumer
        self.streams = streams
        self.lander = lander
        self.waiting: list[ToLand] = []
        self.done: list[Delivery] = []

    async def land(self) -> None:
        """Land what was fetched, then acknowledge it. Raises `StoreUnavailable`; may be repeated."""
        if self.waiting:
            self.done += await self.lander.land(self.waiting)
            self.waiting = []
        if self.done:
            await self.consumer.done(self.done)
            self.done = []
