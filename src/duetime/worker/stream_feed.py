"""A feed: one session's consumer at one broker. It fetches only for free slots, so what it fetches starts at once.

    carried, first delivery     starts
    carried, delivered again    lands as a suspect: the worker that held it may have died of it
    carried, cannot start here  lands and waits: its task is unknown here or tried with care, its target's breaker is
                                open, its queue is paused
    announced                   is claimed, if this worker serves its lane; otherwise the lane's workers find it
    not duetime's               goes to a bounded side stream

A message is acknowledged after the store has committed. `streams/fetch_plan.py` says what to fetch.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from duetime.clock import monotonic
from duetime.errors import StoreError, StreamUnavailable
from duetime.model.carried import CarriedRun, Landed
from duetime.model.lane import LaneKey, Trial
from duetime.model.target import kind_of
from duetime.model.target_health import target_of
from duetime.process.ending import end_tasks
from duetime.process.loop import Loop
from duetime.store.protocol.ready import Announcement
from duetime.store.protocol.store import Store
from duetime.store.wrappers.content import Opened, opened_args
from duetime.streams.fetch_plan import SAMPLED_FOR, FetchPlan
from duetime.streams.landing import Lander, ToLand
from duetime.streams.message import MessageCodec, Refused, Unreadable
from duetime.streams.names import StreamName
from duetime.streams.protocol import Broker, Consumer, Delivery, PartConsumer, leave_parts
from duetime.telemetry.meters import Meters
from duetime.worker.carried_runs import CarriedRuns, Held
from duetime.worker.claimer import MOST_BACKLOG, Claimer
from duetime.worker.consumed_streams import ConsumedStreams
from duetime.worker.left_streams import LeftStreams
from duetime.worker.session import Session
from duetime.worker.source import Wants
from duetime.worker.task import Place

log = logging.getLogger("duetime.worker")

WAIT = 0.5
"""The maximum seconds of one fetch without messages."""
_MOST = 1000
LINGER = 0.003
_PLACE_SEEN_FOR = 10.0
"""Seconds for which a feed expects more runs of a place."""
_PAST_FULL = 1.0, 50
"""When one place has been full for this many seconds, this many messages are fetched for the other places."""


class FeedContext(NamedTuple):
    """What all feeds of a worker share."""

    store: Store
    wants: Wants
    carried: CarriedRuns
    claimer: Claimer
    codec: MessageCodec
    meters: Meters
    consumed: ConsumedStreams
    now: Callable[[], int]
    """The store's clock, in microseconds."""


class Feed:
    def __init__(
        self,
        context: FeedContext,
        broker: Broker,
        consumer: Consumer,
        streams: Mapping[str, StreamName],
        session: Session,
    ) -> None:
        self._context = context
        self._broker = broker
        self._consumer = consumer
        self._lander = Lander(context.store, broker, streams, context.meters)
        self.streams = streams
        self.session = session
        self.paused: Set[str] = frozenset()
        """Streams that nothing is fetched from."""
        self.paused_queues: Set[tuple[int, str]] = frozenset()
        """Paused queues, by tenant. A shared stream has runs of others, too."""
        self._plan = FetchPlan(broker, streams, strict=context.wants.strict)
        self._left: LeftStreams | None = None
        if isinstance(consumer, PartConsumer):
            self._left = LeftStreams(
                context.store,
                context.consumed,
                consumer,
                streams,
                session.id,
                context.wants.places,
                context.claimer.announced.passed_over,
            )
        self._places: dict[int, float] = {}
        """The places of its runs, and when the last one was seen."""
        self._full_since: float | None = None
        self._lingered = False
        """Whether it has waited for more free slots."""
        self._leaves = False
        """Whether it has left its parts of all streams, because it stops."""
        self._to_land: list[ToLand] = []
        self._announced: list[tuple[Announcement, Delivery]] = []
        self._done: list[Delivery] = []
        self._home = asyncio.get_running_loop()
        self.acknowledge = self._acknowledge  # bound once: messages are grouped by it
        self.quiet = asyncio.Event()
        """Set while it neither fetches nor has messages that were fetched and not dealt with."""
        self.quiet.set()
        self.loop = Loop("stream", self.tick)
        self._acknowledging = Loop("acknowledgements", self._send_done)
        self._loops = [self.loop, self._acknowledging]
        if self._left is not None:
            self._loops.append(Loop("streams of others", self._left.tick))
        self._tasks = [asyncio.create_task(loop.run(), name=f"duetime {loop.name}") for loop in self._loops]

    def check(self) -> None:
        """Raise the error that has ended one of its loops, if any."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def close(self, within: float) -> None:
        """Stop fetching, acknowledge what has been committed, and let go of the rest."""
        for loop in self._loops:
            loop.stop()
        await asyncio.wait(self._tasks, timeout=within)
        await end_tasks(self._tasks)
        await self._plan.close()
        with suppress(StreamUnavailable, TimeoutError):
            async with asyncio.timeout(within):
                await self._send_done()
        with suppress(StreamUnavailable, TimeoutError):
            async with asyncio.timeout(within):
                await self._consumer.close()
        if self._left is not None:
            with suppress(StoreError, TimeoutError):  # a worker that has left consumes nothing, whatever is recorded
                async with asyncio.timeout(within):
                    await self._left.close()

    async def extend(self, held: Sequence[Held]) -> None:
        """Hold the messages of these runs for another lease. Raises `StreamUnavailable`."""
        sent = monotonic()
        await self._consumer.extend([delivery for each in held for delivery in each.deliveries])
        for each in held:
            each.extended = sent

    def is_lost(self, held: Held) -> bool:
        """Whether another worker gets the messages of this run."""
        consumer = self._consumer
        return isinstance(consumer, PartConsumer) and not any(map(consumer.holds, held.deliveries))

    async def tick(self) -> float:
        wants, claimer, session = self._context.wants, self._context.claimer, self.session
        await self._settle()
        if claimer.session is not session:
            if not self._leaves:
                self._leaves = True
                for stream in self.streams:
                    leave_parts(self._consumer, stream)
            return WAIT
        self._leaves = False
        if wants.backlog() > MOST_BACKLOG:
            self._occupied()
            return LINGER
        now = monotonic()
        streams = self._plan.open(self.paused)
        if self._left is not None:
            streams = self._left.open(streams)
        if not streams or wants.trials.alone:
            return SAMPLED_FOR
        places = self._places_of_runs(now)
        room = self._room(places, now)
        if room <= 0 or not (wants.slots.worth_claiming() or self._lingered):
            wants.slots.wanted = True
            self._occupied()
            self._lingered = room > 0
            return LINGER if room > 0 else WAIT
        takes, wait = await self._plan.takes(streams, room, claimer.weights, WAIT)
        # Claims from lanes must not take these slots meanwhile. A fetch that waits leaves them to the first to come.
        reserved = 0 if wait else room
        self._lingered = False
        self.quiet.clear()
        try:
            for place in places:
                wants.slots.free[place] -= reserved
            try:
                deliveries = await self._consumer.fetch(takes, wait)
            finally:
                for place in places:
                    wants.slots.free[place] += reserved
            self._plan.learn(takes, deliveries)
            if deliveries:
                claimer.announced.fetched()
                await self._receive(deliveries)
                await self._settle()
        finally:
            if not self._to_land and not self._announced:
                self.quiet.set()
        return 0.0

    def _occupied(self) -> None:
        """There is no room for messages."""
        self._context.claimer.announced.occupied()
        if self._left is not None:
            self._left.occupied()

    # What to fetch.

    def _places_of_runs(self, now: float) -> list[int]:
        sizes = self._context.wants.slots.sizes
        recent = [place for place, seen in self._places.items() if now - seen < _PLACE_SEEN_FOR]
        return recent or sorted({int(place) for place in self._context.wants.places.values() if sizes[place]})

    def _room(self, places: Sequence[int], now: float) -> int:
        """For how many runs every place has a slot. A place that stays full does not stop the others for long: its runs
        land."""
        claiming = self._context.claimer.claiming
        free = [self._context.wants.slots.free[place] - claiming for place in places]
        room = min(free, default=0)
        if room > 0:
            self._full_since = None
        elif max(free, default=0) > 0:
            after, most = _PAST_FULL
            self._full_since = now if self._full_since is None else self._full_since
            if now - self._full_since > after:
                self._full_since = now
                return min(most, max(free))
        return min(room, _MOST)

    # What was fetched.

    async def _receive(self, deliveries: Sequence[Delivery]) -> None:
        by_stream: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            by_stream.setdefault(delivery.stream, []).append(delivery)
        for stream, group in by_stream.items():
            name = self.streams[stream]
            messages = await self._context.codec.unpack(name, [delivery.body for delivery in group])
            runs, of_runs = [], []
            for delivery, message in zip(group, messages, strict=True):
                if type(message) is CarriedRun:
                    runs.append(message)
                    of_runs.append(delivery)
                elif isinstance(message, Announcement):
                    self._announced.append((message, delivery))
                elif isinstance(message, Unreadable):
                    if self._plan.leave_unreadable(stream):
                        log.error("%s is not consumed here: %s", stream, message.reason)
                        leave_parts(self._consumer, stream)
                elif isinstance(message, Refused):
                    self._acknowledge([await self._lander.refuse(delivery, message)])
            if runs:
                ours = any(self._place_of(run.lane.task) is not None for run in runs)
                self._learn_whose(stream, len(runs), ours=ours, tasks=() if ours else [run.lane.task for run in runs])
                self._start(runs, of_runs, await opened_args(self._context.store.sealer, runs))

    def _start(self, runs: Sequence[CarriedRun], deliveries: Sequence[Delivery], opened: Mapping[UUID, Opened]) -> None:
        wants, held, session = self._context.wants, self._context.carried.held, self.session
        start, holds, acknowledge = wants.start, wants.holds, self.acknowledge
        session.claimed_at = now = monotonic()
        started, open_now = self._context.now(), wants.open_targets()
        lane, reason = None, None
        for run, delivery in zip(runs, deliveries, strict=True):
            run_id = run.run_id
            if run_id in held:
                if held[run_id].is_stored:
                    acknowledge([delivery])
                else:
                    held[run_id].deliveries.append(delivery)
                continue
            if delivery.redelivered:
                self._context.meters.redelivered += 1
                self._to_land.append(ToLand(run, delivery, Landed.SUSPECT, "redelivered"))
                continue
            if run.lane is not lane:
                lane = run.lane
                reason = self._why_not(lane, now)
            why = reason
            if why is None and open_now and target_of(lane, run.options) in open_now:
                why = "breaker"
            if why is None and holds(run_id):
                why = "duplicate"
            if why is not None:
                self._to_land.append(ToLand(run, delivery, Landed.WAITING, why))
                continue
            if run_id in opened:
                args, problem, key_unknown = opened[run_id]
                claimed = run.claimed(started, args=args, problem=problem, key_unknown=key_unknown)
            else:
                claimed = run.claimed(started)
            held[run_id] = Held(run, session, acknowledge, [delivery], started, now, now)
            start(session, 0, claimed, lane)

    def _place_of(self, task: str) -> Place | None:
        """Where runs of a task are executed here; None: nowhere."""
        places = self._context.wants.places
        return places.get(task) if task in places else places.get(kind_of(task))

    def _why_not(self, lane: LaneKey, now: float) -> str | None:
        """Why runs of this lane do not start here now."""
        wants, claimer = self._context.wants, self._context.claimer
        place = self._place_of(lane.task)
        if place is None:
            return "task"
        self._places[place] = now
        if claimer.session is not self.session:
            return "stopped"
        if place >= Place.CALL and wants.slots.free[place] <= 0:
            return "slots"  # the other places have a queue, and hand back what does not start soon
        if (lane.tenant_id, lane.queue) in self.paused_queues:
            return "paused"
        return "trial" if claimer.trial(lane) != Trial.NONE else None

    async def _settle(self) -> None:
        """Land and claim what was fetched and does not start by itself."""
        if self._to_land:
            self._acknowledge(await self._lander.land(self._to_land))
            self._to_land = []
        if self._announced:
            announced = self._announced
            places = await self._context.claimer.claim_announced(self.session, [each for each, _ in announced])
            self._announced = []
            self._places.update(dict.fromkeys(places, monotonic()))
            for stream in {delivery.stream for _, delivery in announced}:
                lanes = [each.lane_id for each, delivery in announced if delivery.stream == stream]
                self._learn_whose(stream, len(lanes), ours=bool(places), lane_ids=lanes)
            self._acknowledge([delivery for _, delivery in announced])

    def _learn_whose(
        self, stream: str, count: int, *, ours: bool, tasks: Iterable[str] = (), lane_ids: Iterable[int] = ()
    ) -> None:
        """Note for whom the messages of a stream were: some for this worker (`ours`), or all of these other tasks or
        lanes."""
        self._plan.learn_whose(stream, ours=ours)
        if self._left is None:
            return
        if ours:
            self._left.ours(stream)
        else:
            self._left.theirs(stream, count, tasks=tasks, lane_ids=lane_ids)

    # Acknowledgements.

    def _acknowledge(self, deliveries: list[Delivery]) -> None:
        """Acknowledge messages; from any thread."""
        with suppress(RuntimeError):
            self._home.call_soon_threadsafe(self._add_done, deliveries)

    def _add_done(self, deliveries: list[Delivery]) -> None:
        self._done += deliveries
        self._acknowledging.wake()

    async def _send_done(self) -> float:
        while self._done:
            done, self._done = self._done, []
            try:
                await self._consumer.done(done)
            except BaseException:
                self._done = done + self._done
                raise
        return 3600.0
