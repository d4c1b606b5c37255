"""The claimer of a worker that works straight on a store: takes ready runs for free slots, never more; sleeps until
the next one is ready, or a hint wakes it."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence

from duetime.clock import monotonic
from duetime.loop import Loop
from duetime.model.attempt import Claimed
from duetime.model.lane import Lane, Trial
from duetime.model.shares import FullLanes, Shares, depth_of_look
from duetime.model.target import kind_of
from duetime.store.limiting import Rules
from duetime.store.protocol import Claiming, Look
from duetime.worker.session import Session
from duetime.worker.source import Wants

_MOST = 500
"""How many runs one claim asks for; where a worker has many slots, a third of them, up to twice as many: the more, the
fewer round trips, and the more another has to do again when this one dies."""
_GATHER = 0.003
"""How long to let runs or slots gather, when there are few: a claim costs a round trip whatever it brings."""
_LANES_EVERY = 0.05
_PAUSES_EVERY = 0.5
_TRIAL_LOOK = 0.1
_MOST_BACKLOG = 10_000
_BULK_FOR = 0.1

Takes = list[tuple[int, int]]


class Claimer:
    def __init__(self, store: Claiming, wants: Wants) -> None:
        self._store = store
        self._slots = wants.slots
        self._most = min(2 * _MOST, max(_MOST, wants.slots.total // 3))
        self._trials = wants.trials
        self._places = dict(wants.places)
        self._queues = frozenset(wants.queues)
        self._poll = wants.poll.total_seconds()
        self._start = wants.start
        self._backlog = wants.backlog
        self._lanes: dict[int, Lane] = {}
        self._last_lane = 0
        self._lanes_read_at = -1.0
        self._shares = Shares(strict=wants.strict)
        self._open_targets = wants.open_targets
        self._full = FullLanes()
        self._rules = Rules()
        self._lonely = False
        """Whether only one lane had ready runs when it looked."""
        self._paused: frozenset[int] = frozenset()
        self._paused_read_at = -1.0
        self._hinted = False
        self._unanswered: tuple[Session, int, Takes] | None = None
        self._misses = 0
        self._gathering: asyncio.TimerHandle | None = None
        self._bulk: Takes = []
        self._bulk_until = 0.0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.session: Session | None = None
        self.loop = Loop("claimer", self.tick)
        self.loops = (self.loop,)

    def hint(self) -> None:
        """Runs may have become ready."""
        self._hinted = True
        self._full.freed(monotonic())
        self.loop.wake()

    def begin(self, session: Session) -> None:
        self.session = session
        self.loop.wake()

    def slot_freed(self) -> None:
        """A claim that waits for slots waits for a few of them, or for a moment."""
        if not self._slots.wanted or self._gathering is not None:
            return
        if self._slots.worth_claiming():
            self._slots.wanted = False
            self.loop.wake()
        else:
            self._gathering = asyncio.get_running_loop().call_later(_GATHER, self._gathered)

    async def stopped_claiming(self, within: float) -> None:
        """Wait until the claim under way, if any, has been answered and its runs have started."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._quiet.wait()
        await asyncio.sleep(0)

    def unanswered(self, session: Session) -> list[int]:
        """The numbers of claims of this session that may have happened, as far as anybody here knows."""
        return [self._unanswered[1]] if self._unanswered is not None and self._unanswered[0] is session else []

    def close(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()

    async def tick(self) -> float:
        session = self.session
        if session is None:
            return self._poll
        hinted, self._hinted = self._hinted, False
        if self._unanswered is not None and not self._unanswered[0].over:
            await self._ask(*self._unanswered)
        if self._backlog() > _MOST_BACKLOG:
            return _GATHER  # the store cannot take what is done already: do not ask it for more
        free = [min(count, self._most) for count in self._slots.free]
        if not any(free):
            self._slots.wanted = True
            return self._poll
        in_bulk = (not hinted or len(self._lanes) == 1) and not self._open_targets()
        takes = self._bulk if in_bulk else []
        if not takes:
            self._bulk_until = monotonic() + _BULK_FOR
            takes, delay = await self._look(free, hinted=hinted)
            if not takes:
                return delay
        wanted = sum(take for _, take in takes)
        claimed = await self._claim_and_glance(session, takes)
        # One lane that gives all that is asked for: go on asking it, without a look in between.
        full = claimed == wanted
        self._bulk = takes if full and len(takes) == 1 and self._only_lane(takes[0][0]) else []
        if self._bulk:
            place = self._places[self._lanes[takes[0][0]].key.task]
            self._bulk = [(takes[0][0], min(self._most, self._slots.free[place]))]
            if not self._slots.worth_claiming(place):
                self._bulk = []
                self._slots.wanted = True
                return _BULK_FOR
        if claimed or all(lane_id in self._full for lane_id, _ in takes):
            self._misses = 0
            return 0.0 if full else _GATHER
        # Others were quicker; or the lease is over and only the database knows it yet: then asking at once, again and
        # again, would hammer a database that has enough to do.
        self._misses += 1
        return min(self._poll, _GATHER * (1 << min(self._misses, 10)))

    async def _look(self, free: Sequence[int], *, hinted: bool) -> tuple[Takes, float]:
        """What to claim now; if nothing, how long to sleep."""
        if not hinted or not self._lanes:
            await self._read_lanes()
        if hinted and self._paused:
            self._paused_read_at = -1.0  # the hint may mean that a queue is not paused any more
        takes, look = await self._see(free)
        if not takes and hinted and await self._read_lanes():
            takes, look = await self._see(free)
        if takes or look is None:
            return takes, self._full.until_the_next(monotonic(), self._poll)
        if self._trials.under_way:
            return [], _TRIAL_LOOK
        most = min(self._poll, self._full.until_the_next(monotonic(), self._poll))
        soonest = min((sight.ready_at[0] for sight in look.sights), default=None)
        if soonest is None:
            return [], most
        if soonest <= look.now:
            self._slots.wanted = True
            return [], most
        return [], min(most, (soonest - look.now).total_seconds() + 0.0005)

    async def _claim_and_glance(self, session: Session, takes: Takes) -> int:
        """Claim. Other lanes may have appeared since the last look: one is taken now and then, while the claim is under
        way, so that neither waits for the other."""
        if monotonic() < self._bulk_until:
            return await self._claim(session, takes)
        self._bulk_until = monotonic() + _BULK_FOR
        glance = asyncio.ensure_future(self._glance())
        glance.add_done_callback(_not_missed)
        try:
            claimed = await self._claim(session, takes)
            await glance
        finally:
            glance.cancel()
        return claimed

    async def _glance(self) -> None:
        """Find out whether only one lane has ready runs."""
        await self._read_lanes()
        lanes = await self._open_lanes()
        if lanes:
            self._note_lonely(await self._store.look(lanes, 1))

    async def _see(self, free: Sequence[int]) -> tuple[Takes, Look | None]:
        lanes = await self._open_lanes()
        if not lanes:
            return [], None
        depth = depth_of_look(len(lanes), max(free))
        look = await self._store.look(lanes, depth)
        self._note_lonely(look)
        takes = self._shares.allot(look.sights, self._lanes, self._places, free, self._trials.room(), look.now, depth)
        return takes, look

    async def _open_lanes(self) -> list[int]:
        """The lanes that runs may be claimed from at this moment."""
        await self._read_pauses()
        self._full.forget(monotonic())
        lanes = [lane_id for lane_id in self._lanes if lane_id not in self._paused and lane_id not in self._full]
        if open_targets := self._open_targets():
            keys = ((lane_id, self._lanes[lane_id].key) for lane_id in lanes)
            lanes = [lane_id for lane_id, key in keys if (key.tenant_id, key.task) not in open_targets]
        return lanes

    def _note_lonely(self, look: Look) -> None:
        self._lonely = sum(sight.ready_at[0] <= look.now for sight in look.sights) == 1

    async def _read_lanes(self) -> bool:
        """Learn of lanes that are new and that this worker serves; true when there were any."""
        if monotonic() - self._lanes_read_at < _LANES_EVERY:
            return False
        self._lanes_read_at = monotonic()
        fresh = await self._store.lanes(self._last_lane)
        found = False
        for lane in fresh:
            self._last_lane = max(self._last_lane, lane.id)
            place = self._places.get(kind_of(lane.key.task))
            if place is not None and (not self._queues or lane.key.queue in self._queues):
                self._lanes[lane.id] = lane
                self._places[lane.key.task] = place
                self._paused_read_at = -1.0  # a new lane may belong to a queue that is paused
                found = True
        return found

    async def _read_pauses(self) -> None:
        """Learn, now and then, which lanes are paused."""
        if monotonic() - self._paused_read_at >= _PAUSES_EVERY:
            self._paused_read_at = monotonic()
            self._paused = await self._store.paused_lanes()
            self._rules = await self._store.rules()
            self._shares.weights = self._rules.weights

    def _only_lane(self, lane_id: int) -> bool:
        key = self._lanes[lane_id].key
        return self._lonely and key.trial == Trial.NONE and not self._rules.is_limited(key)

    async def _claim(self, session: Session, takes: Takes) -> int:
        if self.session is not session:
            return 0  # it was stopped during the look: what is claimed now would be left behind
        return await self._ask(session, session.begin_claim(), takes)

    async def _ask(self, session: Session, claim_no: int, takes: Takes) -> int:
        # Without an answer it may have happened or not: the same number is asked for again, and stays open till then.
        self._unanswered = (session, claim_no, takes)
        self._quiet.clear()
        try:
            claimed = await self._store.claim(session.id, claim_no, takes)
        finally:
            self._quiet.set()
        self._unanswered = None
        self._learn_what_is_full(takes, claimed)
        self._begin(session, claim_no, claimed)
        return len(claimed)

    def _learn_what_is_full(self, takes: Takes, claimed: Sequence[Claimed]) -> None:
        limited = [(lane, asked) for lane, asked in takes if self._rules.is_limited(self._lanes[lane].key)]
        if limited:
            got = Counter(run.lane_id for run in claimed)
            for lane_id, asked in limited:
                self._full.gave(lane_id, asked, got[lane_id], monotonic())

    def _begin(self, session: Session, claim_no: int, claimed: list[Claimed]) -> None:
        session.claimed(claim_no, len(claimed))
        if len(claimed) > 1:
            claimed.sort(key=self._order)
        for run in claimed:
            self._start(session, claim_no, run, self._lanes[run.lane_id].key)

    def _order(self, run: Claimed) -> tuple[int, object, object]:
        return (self._lanes[run.lane_id].key.tier, run.ready, run.run_id)

    def _gathered(self) -> None:
        self._gathering = None
        self._slots.wanted = False
        self.loop.wake()


def _not_missed(glance: "asyncio.Future[None]") -> None:
    """When the claim has failed as well, nobody asks how its glance ended."""
    if not glance.cancelled():
        glance.exception()
