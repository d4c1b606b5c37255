"""The claimer of a worker with direct access to the store. It claims ready runs for free slots, plus what short
functions will get done meanwhile. It sleeps until the next run is ready or a hint wakes it. The planner
chooses the runs.

The result of one look serves several claims, for a tenth of a second: a look at many lanes costs more than a claim.
"""

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence, Set
from operator import attrgetter
from uuid import UUID

from duetime.clock import monotonic
from duetime.model.announced import Announced
from duetime.model.attempt import Claimed
from duetime.model.lane import LaneKey, Look
from duetime.model.planner import Planner
from duetime.model.shares import Takes
from duetime.process.loop import Loop, retrieve_error
from duetime.store.protocol.ready import Announcement
from duetime.store.protocol.store import Claims
from duetime.store.shared.known_lanes import KnownLanes
from duetime.worker.session import Session
from duetime.worker.source import Wants

_MOST = 500
"""The maximum number of runs in one claim. With many slots it is a third of them, up to twice this number. Larger
claims save round trips, but leave more to repeat when this worker dies."""
_LINGER = 0.003
"""Seconds to let runs or slots accumulate when there are few: a claim costs a round trip however many runs it
returns."""
_RULES_EVERY = 0.5
_TRIAL_LOOK = 0.1
MOST_BACKLOG = 10_000
_AGENDA_FOR = 0.1
_AGENDA_AT_MOST = 0.3
_LOOK_SHARE = 8
"""A busy worker spends about one in `_LOOK_SHARE` parts of its time on looks, and twice that when hints keep waking
it."""
_IN_BULK = 100
"""A claim of this size does not wait for a look: runs that arrived since are claimed right after it."""

_BY_TIME = attrgetter("ready", "run_id")


class Claimer:
    def __init__(self, claims: Claims, wants: Wants) -> None:
        self._claims = claims
        self._slots = wants.slots
        self._most = min(2 * _MOST, max(_MOST, wants.slots.total // 3))
        self._trials = wants.trials
        self._lanes = KnownLanes(claims, rules_every=_RULES_EVERY)
        self._planner = Planner(wants.places, wants.queues, strict=wants.strict, avoids=wants.open_targets)
        self._lanes.add(self._planner)
        self._poll = wants.poll.total_seconds()
        self._start = wants.start
        self._backlog = wants.backlog
        self._rewound = wants.rewound
        self._rewinds = 0
        self._hinted = False
        self._unanswered: tuple[Session, int, Takes] | None = None
        self._announced: tuple[Session, int, list[Announcement]] | None = None
        """The claim of announced runs that has not been answered."""
        self._misses = 0
        self._batch_timer: asyncio.TimerHandle | None = None
        self._agenda_until = 0.0
        self._heed_hints_at = 0.0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.session: Session | None = None
        self.loop = Loop("claimer", self.tick)
        self.loops = (self.loop,)

    def hint(self) -> None:
        """Runs may have become ready."""
        self._hinted = True
        self._lanes.hint()
        self.loop.wake()

    def begin(self, session: Session) -> None:
        self.session = session
        self._planner.forget_agenda()
        self.loop.wake()

    def slot_freed(self) -> None:
        """A claim that waits for slots waits for several of them, or for a moment."""
        if not self._slots.wanted or self._batch_timer is not None:
            return
        if self._slots.worth_claiming():
            self._slots.wanted = False
            self.loop.wake()
        else:
            self._batch_timer = asyncio.get_running_loop().call_later(_LINGER, self._batch_ready)

    async def stopped_claiming(self, within: float) -> None:
        """Wait until the claim in progress, if any, is answered and its runs have started."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._quiet.wait()
        await asyncio.sleep(0)

    def unanswered(self, session: Session) -> list[int]:
        """The numbers of this session's claims that may have taken effect without an answer."""
        return [asked[1] for asked in (self._unanswered, self._announced) if asked is not None and asked[0] is session]

    async def close(self) -> None:
        if self._batch_timer is not None:
            self._batch_timer.cancel()

    @property
    def claiming(self) -> int:
        """How many runs the claim in progress may bring."""
        return 0 if self._unanswered is None else sum(take for _, take in self._unanswered[2])

    @property
    def weights(self) -> Mapping[int, int]:
        """The weights of tenants that are not the default."""
        return self._lanes.rules.weights

    def trial(self, lane: LaneKey) -> int:
        """The trial level that runs of this lane need now."""
        return self._lanes.rules.suspicion.trial(lane)

    @property
    def announced(self) -> Announced:
        """What this claimer does not claim by itself, because a relay announces it."""
        return self._planner.announced

    async def claim_announced(self, session: Session, announced: Sequence[Announcement]) -> Set[int]:
        """Claim those of these runs that are in lanes which this worker serves, and start them. Returns the places of
        these lanes. When it raises `StoreUnavailable`, it must be called again with the same runs."""
        asked = self._announced
        if asked is None or asked[0] is not session:
            if any(each.lane_id not in self._planner.lanes for each in announced):
                await asyncio.sleep(self._lanes.until_read)
                await self._lanes.read()
            await self._lanes.read_rules()
            lanes = self._lanes.open_lanes(self._planner)
            served = [each for each in announced if each.lane_id in lanes]
            self.announced.heard({each.lane_id for each in served})
            if not served or self.session is not session:
                return self._planner.places_of({each.lane_id for each in served})
            asked = (session, session.begin_claim(), served)
        again, self._announced = self._announced is asked, asked
        _, claim_no, served = asked
        claimed = await self._claims.claim_announced(session.id, claim_no, served)
        await self._lanes.read_those_of(claimed)
        if again and not claimed:
            await self._claims.release(session.id, [claim_no])
        self._announced = None
        self.announced.reached(claimed)
        self._begin(session, claim_no, claimed)
        return self._planner.places_of({each.lane_id for each in served})

    async def tick(self) -> float:
        if self._lanes.rewinds > self._rewinds:
            self._rewinds = self._lanes.rewinds
            self._rewound()
            return self._poll
        session = self.session
        if session is None:
            return self._poll
        if self._unanswered is not None and not self._unanswered[0].over:
            await self._ask(*self._unanswered, again=True)
        if self._backlog() > MOST_BACKLOG:
            return _LINGER  # completions are backed up in the store: claim no more
        free = [max(0, min(count, self._most)) for count in self._slots.free]
        if self._trials.alone:
            self._slots.wanted = True
            return _TRIAL_LOOK
        if not any(free):
            self._slots.wanted = True
            return self._poll
        look_is_due = self._look_is_due(free)
        takes = self._from_agenda(free, look_is_due)
        if not takes:
            takes, delay = await self._look(free)
            if not takes:
                return delay
            look_is_due = False
        claimed = await (self._claim_and_glance if look_is_due else self._claim)(session, takes)
        return self._after_claim(takes, claimed)

    def _look_is_due(self, free: Sequence[int]) -> bool:
        now = monotonic()
        # A hint is mostly about known lanes. With a single lane and much room, that lane is claimed from anyway.
        heeded = max(free) < _IN_BULK or (len(self._planner.lanes) > 1 and now >= self._heed_hints_at)
        hinted = self._hinted and heeded
        return hinted or now >= self._agenda_until or self._lanes.until_next(None, 1.0) <= 0

    def _from_agenda(self, free: Sequence[int], look_is_due: bool) -> Takes:
        """What to claim without a new look. When a look is due, it comes before a small claim, so that the claim
        overtakes no run, and runs concurrently with a large one, so that neither waits for the other."""
        if monotonic() >= self._agenda_until + _AGENDA_FOR or self._planner.avoids_others_now:
            return []
        agenda = self._planner.agenda
        in_bulk = any(room >= _IN_BULK and agenda.has(place, _IN_BULK) for place, room in enumerate(free))
        may_go_on = in_bulk or (agenda.exact and not look_is_due)
        return self._planner.deal(free) if may_go_on else []

    def _after_claim(self, takes: Takes, claimed: Sequence[Claimed]) -> float:
        """How long to sleep."""
        full = self._planner.settle(takes, claimed)
        if not claimed and not all(lane_id in self._lanes.full for lane_id, _ in takes):
            # Other workers were faster, or the lease has expired and only the database knows it yet. Retrying at once
            # would overload the database.
            self._misses += 1
            return min(self._poll, _LINGER * (1 << min(self._misses, 10)))
        self._misses = 0
        agenda = self._planner.agenda
        waiting = any(agenda.has(place) for place in agenda.places)
        if waiting and not self._has_room_for_waiting():
            self._slots.wanted = True
            return _AGENDA_FOR
        return 0.0 if full or waiting else _LINGER

    def _has_room_for_waiting(self) -> bool:
        """Whether a place where runs wait has enough free slots to make a claim worthwhile."""
        agenda = self._planner.agenda
        return any(agenda.has(place) and self._slots.worth_claiming(place) for place in agenda.places)

    async def _look(self, free: Sequence[int]) -> tuple[Takes, float]:
        """What to claim now; if nothing, how long to sleep."""
        hinted, self._hinted = self._hinted, False
        if not hinted or not self._planner.lanes:
            await self._lanes.read()
        takes, look = await self._see(free)
        unread = 0.0
        if not takes and hinted:
            unread = self._lanes.until_read
            if await self._lanes.read():
                takes, look = await self._see(free)
        if unread and not takes:
            # The hint may be about a lane that has just woken. Read the lanes as soon as that is allowed.
            self._hinted = True
            return takes, unread
        if not takes and look is not None:
            if self._trials.under_way:
                return [], _TRIAL_LOOK
            if look.next_in is not None and look.next_in <= 0:
                self._slots.wanted = True
                if self._has_room_for_waiting():
                    # Slots that became free during the look have woken no one: `wanted` was not set yet.
                    return [], 0.0
        return takes, self._lanes.until_next(look, self._poll)

    async def _see(self, free: Sequence[int]) -> tuple[Takes, Look | None]:
        look = await self._look_at_lanes(max(free))
        if look is None:
            return [], None
        self._plan(look)
        return self._planner.deal(free), look

    async def _claim_and_glance(self, session: Session, takes: Takes) -> list[Claimed]:
        """Claim, and look at the same time: more runs may have become ready since the last look."""
        glance = asyncio.get_running_loop().create_task(self._glance())
        glance.add_done_callback(retrieve_error)  # if the claim fails too, its result is never read
        try:
            claimed = await self._claim(session, takes)
            look = await glance
        finally:
            glance.cancel()
        if look is not None:
            self._plan(look, {run.run_id for run in claimed})
        return claimed

    async def _glance(self) -> Look | None:
        self._hinted = False
        await self._lanes.read()
        return await self._look_at_lanes(self._most)

    async def _look_at_lanes(self, free: int) -> Look | None:
        await self._lanes.read_rules()
        began = monotonic()
        look = await self._lanes.look([self._planner], free)
        ended = monotonic()
        if look is None:
            self._planner.forget_agenda()
            return None
        hold = min(_AGENDA_AT_MOST, max(_AGENDA_FOR, _LOOK_SHARE * (ended - began)))
        coming = ((sight.ready_at[0] - look.now).total_seconds() for sight in look.sights)
        self._agenda_until = ended + min((each for each in coming if 0 < each < hold), default=hold)
        self._heed_hints_at = ended + min(hold, _LOOK_SHARE / 2 * (ended - began))
        return look

    def _plan(self, look: Look, claimed: Collection[UUID] = ()) -> None:
        self._planner.plan(look, self._trials.room(), claimed)
        idle = self._slots.idle and not self._planner.agenda.places
        self._planner.plan_alone(look, idle=idle, claimed=claimed)

    async def _claim(self, session: Session, takes: Takes) -> list[Claimed]:
        if self.session is not session:
            return []  # stopped during the look: runs claimed now would be left behind
        return await self._ask(session, session.begin_claim(), takes)

    async def _ask(self, session: Session, claim_no: int, takes: Takes, *, again: bool = False) -> list[Claimed]:
        # Without an answer, it is unknown whether the claim took effect. It stays open, and the same number is used
        # again.
        self._unanswered = (session, claim_no, takes)
        self._quiet.clear()
        try:
            claimed = await self._claims.claim(session.id, claim_no, takes)
            await self._lanes.read_those_of(claimed)
            if again and not claimed:
                # The earlier request may still be in progress, and would claim runs that no worker knows of.
                await self._claims.release(session.id, [claim_no])
        finally:
            self._quiet.set()
        self._unanswered = None
        self._lanes.learn_what_is_full(takes, claimed)
        if self.announced.queues:
            lanes = self._planner.lanes
            self.announced.claimed(lanes[run.lane_id].key for run in claimed if run.lane_id in lanes)
        self._begin(session, claim_no, claimed)
        return claimed

    def _begin(self, session: Session, claim_no: int, claimed: list[Claimed]) -> None:
        session.claimed(claim_no, len(claimed))
        claimed.sort(key=_BY_TIME)
        keys = {lane_id: self._lanes.tried(lane_id) for lane_id in {run.lane_id for run in claimed}}
        if len({key.tier for key in keys.values()}) > 1:
            claimed.sort(key=lambda run: keys[run.lane_id].tier)
        for run in claimed:
            self._start(session, claim_no, run, keys[run.lane_id])

    def _batch_ready(self) -> None:
        self._batch_timer = None
        self._slots.wanted = False
        self.loop.wake()
