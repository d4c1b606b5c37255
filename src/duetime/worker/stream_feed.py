"""A feed: one session's consumer at one broker. It fetches only for free slots, so what it fetches starts at once.

    carried, first delivery     starts
    carried, delivered again    lands as a suspect: the worker that held it may have died of it
    carried, cannot start here  lands and waits: its task is unknown here or tried with care, its target's breaker is
                                open, its queue is paused
    announced                   is claimed, if this worker serves its lane; otherwise the lane's workers find it
    not duetime's               goes to a bounded side stream

A message is acknowledged after the store has committed. Tenants and tiers share the slots as they do in claims
(`model/shares.py`), by sampled depths.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from math import inf
from typing import NamedTuple
from uuid import UUID

from duetime.clock import monotonic
from duetime.errors import StreamUnavailable
from duetime.model.attempt import Claimed
from duetime.model.carried import CarriedRun, Landed
from duetime.model.claim_plan import Agenda
from duetime.model.lane import LaneKey, Trial
from duetime.model.shares import Shares
from duetime.model.target import kind_of
from duetime.model.target_health import target_of
from duetime.process.ending import end_tasks
from duetime.process.loop import Loop
from duetime.store.protocol.ready import Announcement
from duetime.store.protocol.store import Store
from duetime.store.wrappers.content import Opened, opened_args
from duetime.streams.landing import Lander, ToLand
from duetime.streams.message import MessageCodec, Refused, Unreadable
from duetime.streams.names import StreamName
from duetime.streams.protocol import Broker, Consumer, Delivery
from duetime.telemetry.meters import Meters
from duetime.worker.carried_runs import CarriedRuns, Held
from duetime.worker.claimer import MOST_BACKLOG, Claimer
from duetime.worker.session import Session
from duetime.worker.source import Wants
from duetime.worker.task import Place

log = logging.getLogger("duetime.worker")

WAIT = 0.5
"""The maximum seconds of one fetch without messages."""
_MOST = 1000
GATHER = 0.003
_AGENDA_FOR = 0.1
_PLACE_SEEN_FOR = 10.0
"""Seconds for which a feed expects more runs of a place."""
_PAST_FULL = 1.0, 50
"""After so many seconds in which one place was full, so many messages are fetched for the others."""
_FIRST_LEFT, _LONGEST_LEFT = 0.5, 5.0
"""Seconds for which a stream is left to workers that have its tasks, after a fetch of runs that none of the tasks here
is for: first, and at most. A run that lands for another worker costs more than one of a store queue."""
_LEFT_FOR_OTHERS = 60.0
"""Seconds for which a stream is not consumed after a message that only other processes can read."""


class FeedContext(NamedTuple):
    """What all feeds of a worker share."""

    store: Store
    wants: Wants
    carried: CarriedRuns
    claimer: Claimer
    codec: MessageCodec
    meters: Meters
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
        self._left: dict[str, float] = {}
        """Streams that are left to other processes, and until when."""
        self._left_for: dict[str, float] = {}
        """For how many seconds they were left last, because their runs are for others."""
        self._ours_at: dict[str, float] = {}
        """When a stream last had a run for this worker."""
        self._shares = Shares(strict=context.wants.strict)
        self._agenda = Agenda()
        self._agenda_until = 0.0
        self._in_agenda: list[str] = []
        self._may_have_more = False
        self._places: dict[int, float] = {}
        """The places of its runs, and when the last one was seen."""
        self._full_since: float | None = None
        self._gathered = False
        """Whether it has waited for more free slots."""
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
        self._tasks = [
            asyncio.create_task(loop.run(), name=f"duetime {loop.name}") for loop in (self.loop, self._acknowledging)
        ]

    def check(self) -> None:
        """Raise what has ended it."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def close(self, within: float) -> None:
        """Stop fetching, acknowledge what has been committed, and let go of the rest."""
        for loop in (self.loop, self._acknowledging):
            loop.stop()
        await asyncio.wait(self._tasks, timeout=within)
        await end_tasks(self._tasks)
        with suppress(StreamUnavailable, TimeoutError):
            async with asyncio.timeout(within):
                await self._send_done()
                await self._consumer.close()

    async def extend(self, held: Sequence[Held]) -> None:
        """Hold the messages of these runs for another lease. Raises `StreamUnavailable`."""
        sent = monotonic()
        await self._consumer.extend([delivery for each in held for delivery in each.deliveries])
        for each in held:
            each.extended = sent

    async def tick(self) -> float:
        wants, claimer, session = self._context.wants, self._context.claimer, self.session
        await self._settle()
        if claimer.session is not session:
            return WAIT
        if wants.backlog() > MOST_BACKLOG:
            return GATHER
        now = monotonic()
        streams = [each for each in self.streams if each not in self.paused and self._left.get(each, 0.0) <= now]
        if not streams or wants.trials.alone:
            return _AGENDA_FOR
        places = self._places_of_runs(now)
        room = self._room(places, now)
        if room <= 0 or not (wants.slots.worth_claiming() or self._gathered):
            wants.slots.wanted = True
            self._gathered = room > 0
            return GATHER if room > 0 else WAIT
        takes, wait = await self._takes(streams, room)
        # Claims from lanes must not take these slots meanwhile. A fetch that waits leaves them to the first to come.
        reserved = 0 if wait else room
        self._gathered = False
        self.quiet.clear()
        try:
            for place in places:
                wants.slots.free[place] -= reserved
            try:
                deliveries = await self._consumer.fetch(takes, wait)
            finally:
                for place in places:
                    wants.slots.free[place] += reserved
            self._learn(takes, deliveries)
            if deliveries:
                await self._receive(deliveries)
                await self._settle()
        finally:
            if not self._to_land and not self._announced:
                self.quiet.set()
        return 0.0

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

    async def _takes(self, streams: Sequence[str], room: int) -> tuple[list[tuple[str, int]], float]:
        """How many messages of which streams to fetch, and how long to wait for the first."""
        if len(streams) == 1:
            return [(streams[0], room)], 0.0 if self._may_have_more else WAIT
        if self._may_have_more and monotonic() >= self._agenda_until:
            await self._sample(streams)
        self._shares.weights = self._context.claimer.weights
        dealt = self._shares.deal(self._agenda, [room])
        if dealt:
            return [(self._in_agenda[number], take) for number, take in dealt], 0.0
        return [(stream, max(1, room // len(streams))) for stream in streams], WAIT

    async def _sample(self, streams: Sequence[str]) -> None:
        depths = await self._broker.depths(streams)
        self._in_agenda = [stream for stream in streams if stream in depths and depths[stream].messages]
        groups = []
        for stream in self._in_agenda:
            name = self.streams[stream]
            groups.append((name.tenant_id or 0, int(name.tier), depths[stream].messages))
        self._agenda = Agenda.of_depths(groups)
        self._agenda_until = monotonic() + _AGENDA_FOR

    def _learn(self, takes: Sequence[tuple[str, int]], deliveries: Sequence[Delivery]) -> None:
        """What a fetch says about the streams."""
        got = Counter(delivery.stream for delivery in deliveries)
        self._may_have_more = any(got[stream] >= take for stream, take in takes)
        for stream, take in takes:
            if got[stream] < take and stream in self._in_agenda:
                self._shares.gave_less(self._agenda, self._in_agenda.index(stream), take - got[stream])

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
                    self._leave(stream, message.reason)
                elif isinstance(message, Refused):
                    self._acknowledge([await self._lander.refuse(delivery, message)])
            if runs:
                self._learn_whose(stream, ours=any(self._place_of(run.lane.task) is not None for run in runs))
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
            args, problem, key_unknown = run.args, None, False
            if opened:
                args, problem, key_unknown = opened.get(run_id, (args, problem, key_unknown))
            # As it would be claimed for the first time.
            claimed = Claimed(
                run_id,
                run.job_id,
                lane_id=0,
                fence=1,
                attempt=1,
                lost=0,
                due=run.due,
                ready=run.due,
                started=started,
                args=args,
                options=run.options,
                timeout_ms=run.timeout_ms,
                checkpoint=None,
                args_problem=problem,
                key_unknown=key_unknown,
            )
            held[run_id] = Held(run, session, acknowledge, [delivery], started, now, now)
            start(session, 0, claimed, lane)

    def _learn_whose(self, stream: str, *, ours: bool) -> None:
        """Leave a stream alone for a moment if all its runs, carried and announced, are of tasks that are unknown
        here. Not if others cannot fetch what is left."""
        if self._broker.partitioned:
            return
        now = monotonic()
        if ours:
            self._ours_at[stream] = now
            self._left_for.pop(stream, None)
        elif now - self._ours_at.get(stream, -inf) > _LONGEST_LEFT:
            seconds = self._left_for[stream] = min(_LONGEST_LEFT, 2 * self._left_for.get(stream, _FIRST_LEFT / 2))
            self._left[stream] = now + seconds

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

    def _leave(self, stream: str, reason: str) -> None:
        """Leave a stream to processes that can read it. The message comes back after a lease."""
        if self._left.get(stream, 0.0) <= monotonic():
            log.error("%s is not consumed here: %s", stream, reason)
        self._left[stream] = monotonic() + _LEFT_FOR_OTHERS

    async def _settle(self) -> None:
        """Land and claim what was fetched and does not start by itself."""
        if self._to_land:
            self._acknowledge(await self._lander.land(self._to_land))
            self._to_land = []
        if self._announced:
            announced = self._announced
            served = await self._context.claimer.claim_announced(self.session, [each for each, _ in announced])
            self._announced = []
            for stream in {delivery.stream for _, delivery in announced}:
                self._learn_whose(stream, ours=served)
            self._acknowledge([delivery for _, delivery in announced])

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
