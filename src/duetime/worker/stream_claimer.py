"""The claimer of a worker whose queues may be streams: it claims from lanes, and fetches from streams.

It reads twice a second which queues are streams, and keeps one feed for each broker (`worker/stream_feed.py`). The
lanes of a stream queue are claimed from too: trial and keyed lanes at once, the others for runs that have been ready
for a second, because no relay announced them.

A message is held for a lease. A run lands long before that, and is the store's from then on. While the store is
unavailable, nothing lands: then the messages are extended, and runs whose messages cannot be extended are stopped
before another worker gets them.
"""

import asyncio
import logging
import time
from collections.abc import Sequence

from duetime.clock import monotonic
from duetime.crypto.sealer import Sealer
from duetime.errors import DuetimeError, StreamUnavailable, reason_of
from duetime.model.carried import StreamQueue, StreamSettings
from duetime.model.microseconds import stamp
from duetime.process.ending import end_tasks
from duetime.process.loop import Loop, retrieve_error
from duetime.store.protocol.store import Store
from duetime.streams.address import shown_address
from duetime.streams.brokers import Brokers
from duetime.streams.message import MessageCodec
from duetime.streams.names import StreamName, streams_of
from duetime.streams.protocol import Broker
from duetime.telemetry.meters import Meters
from duetime.worker.carried_runs import CarriedRuns, Held
from duetime.worker.claimer import Claimer
from duetime.worker.consumed_streams import ConsumedStreams
from duetime.worker.session import Session
from duetime.worker.source import Wants
from duetime.worker.stream_feed import LINGER, WAIT, Feed, FeedContext

log = logging.getLogger("duetime.worker")

_QUEUES_EVERY, _NO_QUEUES_EVERY = 0.5, 1.0
"""Seconds between readings of the queues; without any, less often."""
_CLOCK_EVERY = 10.0
_RETRY = 1.0
_OPEN_WITHIN = 0.25
"""Seconds in which a broker is opened; after that, the other brokers do not wait for it."""
_CLOSE_WITHIN = 5.0
_EXTEND_AT, _STOP_AT = 0.5, 0.8
"""The shares of a lease after which a message is extended, and after which its run stops if that was not possible."""

_Place = tuple[str, int | None]
"""The address of a broker, and for how many replicas publishers wait."""


class StreamClaimer:
    def __init__(
        self, store: Store, wants: Wants, carried: CarriedRuns, consumed: ConsumedStreams, meters: Meters
    ) -> None:
        self.lease = 15.0
        self._store = store
        self._wants = wants
        self._carried = carried
        self._claimer = Claimer(store.claims, wants)
        self._brokers = Brokers()
        codec = MessageCodec(store.sealer or Sealer(()), driver_ids=not store.embedded)
        self._context = FeedContext(store, wants, carried, self._claimer, codec, meters, consumed, self._now)
        self._feeds: dict[_Place, Feed] = {}
        self._retiring: list[Feed] = []
        """Feeds that fetch no more, until their runs have ended."""
        self._opening: dict[_Place, asyncio.Task[Broker]] = {}
        self._retry_at: dict[_Place, float] = {}
        self._batch_timer: asyncio.TimerHandle | None = None
        self._opened = 0
        self._clock_read_at = float("-inf")
        self._ahead = 0
        """Microseconds that the store's clock is ahead of this machine's."""
        self._survey = Loop("streams", self._look_after_feeds)
        self.loops = (*self._claimer.loops, self._survey, Loop("holds", self._extend))

    @property
    def session(self) -> Session | None:
        return self._claimer.session

    @session.setter
    def session(self, session: Session | None) -> None:
        self._claimer.session = session

    def begin(self, session: Session) -> None:
        self._claimer.begin(session)
        self._survey.wake()

    def hint(self) -> None:
        self._claimer.hint()

    def slot_freed(self) -> None:
        if self._wants.slots.wanted and self._feeds and self._batch_timer is None:
            # A fetch waits for several slots, or for a moment.
            delay = 0.0 if self._wants.slots.worth_claiming() else LINGER
            self._batch_timer = asyncio.get_running_loop().call_later(delay, self._batch_ready)
        self._claimer.slot_freed()

    def _batch_ready(self) -> None:
        self._batch_timer = None
        for feed in self._feeds.values():
            feed.loop.wake()

    async def stopped_claiming(self, within: float) -> None:
        await self._claimer.stopped_claiming(within)
        waiting = [asyncio.ensure_future(feed.quiet.wait()) for feed in self._feeds.values()]
        if waiting:
            await asyncio.wait(waiting, timeout=within)
            for each in waiting:
                each.cancel()
        await asyncio.sleep(0)

    def unanswered(self, session: Session) -> list[int]:
        return [*self._claimer.unanswered(session), *self._carried.unanswered(session)]

    async def close(self) -> None:
        if self._batch_timer is not None:
            self._batch_timer.cancel()
        await self._claimer.close()
        await end_tasks(self._opening.values())
        feeds = [*self._feeds.values(), *self._retiring]
        self._feeds, self._retiring = {}, []
        await asyncio.gather(*(feed.close(_CLOSE_WITHIN) for feed in feeds))
        await self._brokers.close()

    def _now(self) -> int:
        return time.time_ns() // 1000 + self._ahead

    async def _look_after_feeds(self) -> float:
        session = self._claimer.session
        for feed in (*self._feeds.values(), *self._retiring):
            feed.check()
        await self._close_old_feeds()
        known, _ = await self._store.streams.known_queues(0.0 if self._feeds else _NO_QUEUES_EVERY)
        queues = [queue for queue in known if self._serves(queue)]
        self._claimer.announced.queues = {(queue.tenant_id, queue.queue) for queue in queues if queue.current}
        if queues and monotonic() - self._clock_read_at > _CLOCK_EVERY:
            self._clock_read_at = monotonic()
            self._ahead = stamp(await self._store.now()) - time.time_ns() // 1000
        if session is not None and session is self._claimer.session:
            await self._open_feeds(session, queues)
        return _QUEUES_EVERY if queues else _NO_QUEUES_EVERY

    def _serves(self, queue: StreamQueue) -> bool:
        return not self._wants.queues or queue.queue in self._wants.queues

    async def _open_feeds(self, session: Session, queues: Sequence[StreamQueue]) -> None:
        by_place: dict[_Place, list[StreamQueue]] = {}
        for queue in queues:
            by_place.setdefault((queue.settings.address, queue.settings.replicas), []).append(queue)
        for place in [place for place in self._feeds if place not in by_place]:
            self._retire(place)
        for place, group in by_place.items():
            if self._retry_at.get(place, 0.0) > monotonic():
                continue
            try:
                await self._open_feed(session, place, group)
            except StreamUnavailable as error:
                self._retry_at[place] = monotonic() + _RETRY
                log.warning("a stream cannot be consumed, and will be tried again: %s", reason_of(error))
            except DuetimeError as error:
                self._retry_at[place] = monotonic() + 60 * _RETRY
                log.error("%s cannot be consumed: %s", shown_address(place[0]), reason_of(error))

    async def _open_feed(self, session: Session, place: _Place, queues: Sequence[StreamQueue]) -> None:
        """Have a feed consume these queues, which are at one broker: the open feed if it has the same streams,
        otherwise a new one."""
        broker = await self._broker(place, queues[0].settings)
        if broker is None:
            return
        streams: dict[str, StreamName] = {}
        active = set()
        for queue in queues:
            for name in streams_of(queue, shared=broker.shared).values():
                streams[name.text] = name
                if not queue.paused:
                    active.add(name.text)
        feed = self._feeds.get(place)
        if feed is None or feed.streams.keys() != streams.keys():
            if feed is not None:
                self._retire(place)
            self._opened += 1
            consumer = await broker.consumer(sorted(streams), f"{session.id}-{self._opened}", self.lease)
            feed = self._feeds[place] = Feed(self._context, broker, consumer, streams, session)
        feed.paused = streams.keys() - active
        feed.paused_queues = {(queue.tenant_id, queue.queue) for queue in queues if queue.paused}

    async def _broker(self, place: _Place, settings: StreamSettings) -> Broker | None:
        """The broker, open; None while it is being opened: one that does not answer must not delay the pause of queues
        at the others."""
        opening = self._opening.get(place)
        if opening is None:
            opening = self._opening[place] = asyncio.create_task(self._brokers.at(settings))
            opening.add_done_callback(retrieve_error)  # the queue may be gone by then
        await asyncio.wait([opening], timeout=_OPEN_WITHIN)
        if not opening.done():
            return None
        del self._opening[place]
        return opening.result()

    def _retire(self, place: _Place) -> None:
        feed = self._feeds.pop(place)
        feed.loop.stop()
        self._retiring.append(feed)

    async def _close_old_feeds(self) -> None:
        """Feeds of an earlier session are closed at once, others when they hold nothing any more."""
        session = self._claimer.session
        for place in [place for place, feed in self._feeds.items() if session not in (None, feed.session)]:
            self._retire(place)
        for feed in list(self._retiring):
            if session not in (None, feed.session):
                self._carried.drop(feed.session)
            if not any(each.acknowledge == feed.acknowledge for each in self._carried.held.values()):
                self._retiring.remove(feed)
                await feed.close(WAIT)

    async def _extend(self) -> float:
        """Extend the messages of runs that have not landed in time."""
        now = monotonic()
        late = [
            each
            for each in self._carried.held.values()
            if now - each.extended > _EXTEND_AT * self.lease
            and (each.landing is None or not each.landing.answered)
            and not each.session.over
        ]
        for feed in (*self._feeds.values(), *self._retiring) if late else ():
            mine = [each for each in late if each.acknowledge == feed.acknowledge]
            if not mine:
                continue
            lost = [each for each in mine if feed.is_lost(each)]
            if lost:
                self._abandon(lost)
                mine = [each for each in mine if each not in lost]
            try:
                await feed.extend(mine)
            except StreamUnavailable as error:
                log.warning("%d messages could not be extended: %s", len(mine), reason_of(error))
                self._abandon([each for each in mine if monotonic() - each.extended > _STOP_AT * self.lease])
        return self.lease / 10

    def _abandon(self, held: Sequence[Held]) -> None:
        """Stop runs whose messages another worker may get. The outcomes of those that have ended are still sent: the
        store takes one."""
        running = [each for each in held if not each.ending]
        if running:
            log.error("%d runs stop: their messages were not extended in time, and go to other workers", len(running))
            self._carried.forget(running)
            self._wants.abandon([each.run.run_id for each in running])
