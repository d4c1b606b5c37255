"""The server's part of stream queues: it consumes streams for remote workers.

While remote workers wait at this server with free slots, it fetches as many messages of their tenants' streams as they
have slots. The runs land under the claims of the waiting workers (`dealer.py`), and are theirs from then on.

    carried, first delivery     starts in a waiting worker
    carried, delivered again    lands as a suspect
    carried, cannot start here  lands and waits: no waiting worker has its task or a free slot, or it is tried with care
    announced                   is dropped: the dealer looks at the lanes itself
    not duetime's               goes to a bounded side stream

A message is acknowledged after the store has committed. A consumer that has not been used for a lease is closed, so
that it keeps no partitions from workers that could use them.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from duetime.clock import monotonic
from duetime.crypto.sealer import Sealer
from duetime.errors import DuetimeError, StoreUnavailable, StreamUnavailable, reason_of
from duetime.ids import new_id
from duetime.model.carried import CarriedRun, Landed, StreamQueue
from duetime.model.lane import LaneKey
from duetime.process.loop import Loop
from duetime.store.protocol.ready import Announcement
from duetime.store.protocol.store import Store
from duetime.streams.address import shown_address
from duetime.streams.brokers import Brokers
from duetime.streams.fetch_plan import FetchPlan
from duetime.streams.landing import Lander, ToLand
from duetime.streams.message import MessageCodec, Refused
from duetime.streams.names import StreamName, streams_of
from duetime.streams.protocol import Broker, Consumer, Delivery, leave_parts
from duetime.telemetry.meters import Meters

log = logging.getLogger("duetime.streams")

_QUEUES_EVERY = 1.0
_WAIT = 0.25
_IDLE = 1.0
_RETRY = 1.0
_UNUSABLE_FOR = 60.0
_MOST = 1000
_DEALT = 0.005
"""Seconds in which the dealer claims what has landed and waits."""


class WaitingWorkers(Protocol):
    """Remote workers that wait at this server (`dealer.py`)."""

    on_wait: Callable[[], None]
    strict: bool

    def rooms(self) -> Mapping[tuple[int, frozenset[str]], int]:
        """Their free slots, by their tenant and their queues (none: all)."""

    @property
    def weights(self) -> Mapping[int, int]: ...

    def serves(self, lane: LaneKey) -> bool: ...

    async def assign(self, runs: Sequence[CarriedRun]) -> frozenset[UUID]: ...


class StreamLander:
    def __init__(
        self, store: Store, brokers: Brokers, meters: Meters, workers: WaitingWorkers, *, lease: timedelta
    ) -> None:
        self._store = store
        self._brokers = brokers
        self._meters = meters
        self._workers = workers
        self._lease = lease.total_seconds()
        self._codec = MessageCodec(store.sealer or Sealer(()))
        self._name = str(new_id())
        self._queues: list[StreamQueue] = []
        self._paused: frozenset[tuple[int, str]] = frozenset()
        self._queues_read_at = float("-inf")
        self._outlets: dict[str, _Outlet] = {}
        self._left_until: dict[str, float] = {}
        """Brokers that are left alone, and until when."""
        self._wait = _WAIT
        self.loop = Loop("stream lander", self.tick)
        workers.on_wait = self.loop.wake

    async def tick(self) -> float:
        now = monotonic()
        await self._settle(now)
        rooms = self._workers.rooms()
        if not rooms:
            return _IDLE
        if now - self._queues_read_at > _QUEUES_EVERY:
            self._queues_read_at = now
            self._queues, _ = await self._store.streams.known_queues(_QUEUES_EVERY / 2)
            self._paused = frozenset((queue.tenant_id, queue.queue) for queue in self._queues if queue.paused)
        by_address: dict[str, list[tuple[StreamQueue, int]]] = {}
        for queue in self._queues:
            room = sum(
                free
                for (tenant_id, queues), free in rooms.items()
                if tenant_id == queue.tenant_id and (not queues or queue.queue in queues)
            )
            if room and not queue.paused and self._left_until.get(queue.settings.address, 0.0) <= now:
                by_address.setdefault(queue.settings.address, []).append((queue, room))
        if not by_address:
            return _IDLE
        # While one broker has messages, no fetch at another keeps it waiting.
        wait, self._wait = self._wait / len(by_address), _WAIT
        pause = 0.0
        for address, wanted in by_address.items():
            try:
                pause = max(pause, await self._fetch(address, wanted, wait))
            except StreamUnavailable as error:
                self._leave(address, _RETRY, error)
            except StoreUnavailable:
                raise
            except DuetimeError as error:
                self._leave(address, _UNUSABLE_FOR, error)
        return pause

    async def close(self) -> None:
        for outlet in self._outlets.values():
            with suppress(StreamUnavailable):
                await outlet.close()
        self._outlets.clear()

    async def _settle(self, now: float) -> None:
        """Land and acknowledge what an unavailable store or broker has left, and close what is not used any more."""
        for address, outlet in list(self._outlets.items()):
            if self._left_until.get(address, 0.0) > now:
                continue
            try:
                await outlet.land()
                if now - outlet.used_at > self._lease:
                    del self._outlets[address]
                    await outlet.close()
            except StreamUnavailable as error:
                self._leave(address, _RETRY, error)  # the other brokers do not wait for it

    async def _fetch(self, address: str, wanted: Sequence[tuple[StreamQueue, int]], wait: float) -> float:
        """Returns the seconds to wait before the next fetch."""
        broker = await self._brokers.at(wanted[0][0].settings)
        names: dict[StreamName, int] = {}
        rooms: dict[int | None, int] = {}
        for queue, room in wanted:
            for name in streams_of(queue, shared=broker.shared).values():
                names[name] = names.get(name, 0) + room
                rooms[name.tenant_id] = min(_MOST, max(rooms.get(name.tenant_id, 0), names[name]))
        outlet = await self._outlet(address, broker, list(names))
        takes: list[tuple[str, int]] = []
        planned: list[tuple[FetchPlan, list[tuple[str, int]]]] = []
        for tenant_id, room in rooms.items():
            plan = outlet.plans[tenant_id]
            streams = plan.open([text for text, name in outlet.streams.items() if name not in names])
            if streams:
                dealt, wait = await plan.takes(streams, room, self._workers.weights, wait)
                planned.append((plan, dealt))
                takes += [(text, min(take, names[outlet.streams[text]])) for text, take in dealt]
        if not takes:
            return _DEALT
        deliveries = await outlet.consumer.fetch(takes, wait)
        for plan, dealt in planned:
            plan.learn(dealt, deliveries)
        if not deliveries:
            return 0.0
        self._wait = 0.0
        await self._receive(outlet, deliveries)
        return _DEALT if await outlet.land() else 0.0

    async def _outlet(self, address: str, broker: Broker, names: Sequence[StreamName]) -> "_Outlet":
        """A consumer of at least these streams."""
        outlet = self._outlets.get(address)
        if outlet is None or any(name.text not in outlet.streams for name in names):
            streams = {**(outlet.streams if outlet is not None else {}), **{name.text: name for name in names}}
            if outlet is not None:
                await outlet.close()  # nothing is held between two fetches
            consumer = await broker.consumer(sorted(streams), f"{self._name}-{len(streams)}", self._lease)
            lander = Lander(self._store, broker, streams, self._meters)
            plans: dict[int | None, FetchPlan] = {}
            for tenant_id in {name.tenant_id for name in streams.values()}:
                of_tenant = {text: name for text, name in streams.items() if name.tenant_id == tenant_id}
                plans[tenant_id] = FetchPlan(broker, of_tenant, strict=self._workers.strict)
            outlet = self._outlets[address] = _Outlet(consumer, streams, lander, plans)
        outlet.used_at = monotonic()
        return outlet

    async def _receive(self, outlet: "_Outlet", deliveries: Sequence[Delivery]) -> None:
        """Decide what becomes of messages, and start the runs that waiting workers can take. Until the store has
        answered, they are among those that land."""
        by_stream: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            by_stream.setdefault(delivery.stream, []).append(delivery)
        startable: list[CarriedRun] = []
        for stream, group in by_stream.items():
            name = outlet.streams[stream]
            messages = await self._codec.unpack(name, [delivery.body for delivery in group])
            whose: set[bool] = set()
            for delivery, message in zip(group, messages, strict=True):
                if isinstance(message, CarriedRun):
                    whose.add(is_ours := self._workers.serves(message.lane))
                    outlet.waiting.append(self._landing_of(message, delivery, is_ours=is_ours))
                    if outlet.waiting[-1].reason == _REMOTE:
                        startable.append(message)
                elif isinstance(message, Announcement):
                    outlet.done.append(delivery)
                elif isinstance(message, Refused):
                    outlet.done.append(await outlet.lander.refuse(delivery, message))
                elif outlet.plans[name.tenant_id].leave_unreadable(stream):
                    log.error("%s is not consumed here: %s", stream, message.reason)
                    leave_parts(outlet.consumer, stream)
            if whose:
                outlet.plans[name.tenant_id].learn_whose(stream, ours=True in whose)
        if not startable:
            return
        landed = await self._workers.assign(startable)
        outlet.done += [each.delivery for each in outlet.waiting if each.run.run_id in landed]
        outlet.waiting = [each for each in outlet.waiting if each.run.run_id not in landed]
        self._meters.landed[_REMOTE] += len(landed)

    def _landing_of(self, run: CarriedRun, delivery: Delivery, *, is_ours: bool) -> ToLand:
        """How a run lands if it does not start."""
        if delivery.redelivered:
            self._meters.redelivered += 1
            return ToLand(run, delivery, Landed.SUSPECT, "redelivered")
        if (run.lane.tenant_id, run.lane.queue) in self._paused:
            return ToLand(run, delivery, Landed.WAITING, "paused")
        return ToLand(run, delivery, Landed.WAITING, _REMOTE if is_ours else "task")

    def _leave(self, address: str, seconds: float, error: DuetimeError) -> None:
        self._left_until[address] = monotonic() + seconds
        log.warning("streams at %s cannot be consumed now: %s", shown_address(address), reason_of(error))


_REMOTE = "remote"


class _Outlet:
    """A consumer, and what it has fetched."""

    def __init__(
        self,
        consumer: Consumer,
        streams: Mapping[str, StreamName],
        lander: Lander,
        plans: Mapping[int | None, FetchPlan],
    ) -> None:
        """`plans`: by tenant, because the workers of each have their own slots."""
        self.consumer = consumer
        self.streams = streams
        self.lander = lander
        self.plans = plans
        self.used_at = monotonic()
        self.waiting: list[ToLand] = []
        self.done: list[Delivery] = []

    async def close(self) -> None:
        for plan in self.plans.values():
            await plan.close()
        await self.consumer.close()

    async def land(self) -> bool:
        """Land what was fetched and has not started, then acknowledge all; whether anything landed. Raises
        `StoreUnavailable`; may be repeated."""
        landed = bool(self.waiting)
        if self.waiting:
            self.done += await self.lander.land(self.waiting)
            self.waiting = []
        if self.done:
            await self.consumer.done(self.done)
            self.done = []
        return landed
