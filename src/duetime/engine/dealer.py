"""The dealer: claims for all remote workers that wait at this server, and deals the runs out among them.

However many workers wait, there is one look at all their lanes, and one claim for each line of workers that can do the
same things. Who takes how much from which lane is decided as it is for a worker that claims for itself
(`model/shares.py`). When nobody waits nothing is asked of the store.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from duetime.clock import monotonic
from duetime.engine.wait_queue import Capabilities, Line, Turn, Waiting
from duetime.errors import LeaseLost, StoreUnavailable
from duetime.model.attempt import Claimed
from duetime.model.claim_plan import Agenda
from duetime.model.completion import complete, not_tried
from duetime.model.lane import LaneKey, Sight, Trial
from duetime.model.shares import FullLanes, depth_of_look
from duetime.model.suspicion import PATIENCE, TrialRoom
from duetime.process.loop import Loop, spread
from duetime.store.protocol.store import Hint, Look, Store
from duetime.store.rules.limit_scopes import Rules
from duetime.store.shared.awake_lanes import LaneFollower

MOST = 1000
"""How many runs one claim asks for."""
_GATHER = 0.003
_LANES_EVERY = 0.05
_PAUSES_EVERY = 0.4
_PAUSES_HOLD = 0.8
"""Seconds after which nothing is dealt before the pauses have been read again."""
_LONG_AGO = -1e9
_KEEP_LINES = 1000
_NOBODY = 3600.0
_SERVED_WITHIN = 5.0
_ASKED_WITHIN = 1.0
_SPREAD = 0.1


class Dealer:
    def __init__(self, store: Store, poll: timedelta, *, strict: bool = False) -> None:
        self._store = store
        self._strict = strict
        self._rules = Rules()
        self._full = FullLanes()
        self._poll = poll.total_seconds()
        self._lines: dict[Capabilities, Line] = {}
        self._lanes = LaneFollower(store)
        self._lanes_read_at = -1.0
        self._paused: frozenset[int] = frozenset()
        self._paused_read_at = _LONG_AGO
        self._stop_asked = False
        self._closed = False
        self.loop = Loop("dealer", self.tick)

    def hint(self, hint: Hint) -> None:
        if hint is Hint.CANCEL:
            self._stop_asked = True
        else:
            self._full.freed(monotonic())
            if self._paused:
                self._paused_read_at = _LONG_AGO  # the hint may mean that a queue is not paused any more
        self.loop.wake()

    async def wait(self, wants: Capabilities, waiting: Waiting, within: float, gone: asyncio.Future[None]) -> Turn:
        """Stand in line until it is this worker's turn, its patience is over, or it is `gone`."""
        if self._closed:
            raise StoreUnavailable("this server is about to stop", remedy="ask again")
        line = self._line(wants)
        key = (waiting.worker_id, waiting.claim_no)
        # A worker that lost its connection and asks again may be standing here still.
        waiting = line.waiting.setdefault(key, waiting)
        self.loop.wake()
        either: set[asyncio.Future[Any]] = {waiting.turn, gone}
        # Who may have runs without knowing it is asked about before it goes, however little patience it has.
        within = max(within, _ASKED_WITHIN) if waiting.unanswered else within
        # Thousands come together after a restart.
        await asyncio.wait(either, timeout=spread(within, _SPREAD), return_when=asyncio.FIRST_COMPLETED)
        while waiting.serving is not None and not gone.done() and not waiting.turn.done():
            await asyncio.wait({*either, waiting.serving}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.turn.done():
            if waiting.serving is not None:
                return Turn([])  # the claim has a number: it is found again
            self._send_away(line, waiting)
        return waiting.turn.result()

    def close(self) -> None:
        """Send everybody away; who comes now is not kept waiting."""
        self._closed = True
        for line in self._lines.values():
            for waiting in [waiting for waiting in line.waiting.values() if waiting.serving is None]:
                self._send_away(line, waiting)

    async def call_out(self, worker_id: UUID, claim_no: int) -> bool:
        """Take a claim out of its line; false when it does not stand there, or once it has been served."""
        for line in self._lines.values():
            waiting = line.waiting.get((worker_id, claim_no))
            if waiting is None:
                continue
            if waiting.serving is not None:
                await asyncio.wait({waiting.serving}, timeout=_SERVED_WITHIN)
            if waiting.serving is not None or waiting.turn.done():
                return False
            self._send_away(line, waiting)
            return not waiting.unanswered
        return False

    def turn_away(self, worker_id: UUID) -> None:
        """This worker's lease is over: it waits in vain."""
        for line in self._lines.values():
            for waiting in [waiting for waiting in line.waiting.values() if waiting.worker_id == worker_id]:
                line.leave(waiting)
                waiting.refuse(LeaseLost("the worker's lease is over", remedy="register anew"))

    def _send_away(self, line: Line, waiting: Waiting) -> None:
        """It has waited long enough."""
        line.leave(waiting)
        if waiting.unanswered:
            lost = "the database did not say what was claimed"
            waiting.refuse(StoreUnavailable(lost, remedy="ask again with the same number"))
        else:
            waiting.serve(Turn([]))

    async def read_lanes(self) -> bool:
        """Learn of lanes that are new; true when there were any."""
        self._lanes_read_at = monotonic()
        fresh, gone = await self._lanes.read()
        for line in self._lines.values():
            line.forget(gone)
            line.learn(fresh)
        if fresh:
            self._paused_read_at = _LONG_AGO  # a new lane may belong to a queue that is paused
        return bool(fresh)

    async def tick(self) -> float:
        began = monotonic()
        delay = await self._serve_lines()
        if self._lanes_read_at >= began or delay == _NOBODY:
            return delay
        # It was too soon to read the lanes: what woke this loop may wait in a new one.
        return min(delay, max(0.0, self._lanes_read_at + _LANES_EVERY - monotonic()) + _GATHER)

    async def _serve_lines(self) -> float:
        lines = [line for line in self._lines.values() if line.waiting]
        if not lines:
            return _NOBODY
        for line in lines:
            # What they may have taken is seen by no look.
            await self._serve(line, line.unanswered(), [])
        if self._stop_asked:
            self._stop_asked = False
            await self._pass_on_cancellations(lines)
        served = [line for line in lines if any(waiting.room for waiting in line.waiting.values())]
        if monotonic() - self._paused_read_at >= _PAUSES_HOLD:
            await self._learn()
        # Else what is new is learned beside the look, not before it: most runs wait in lanes that are known.
        fresh, seen = await asyncio.gather(self._learn(), self._look(served))
        if seen is None:
            return 0.0 if fresh else self._full.until_the_next(monotonic(), self._poll)
        look, depth = seen
        dealt = 0
        for line in served:
            dealt += await self._deal(line, look, depth)
        if dealt:
            return _GATHER
        return 0.0 if fresh else self._until_the_next(look)

    async def _learn(self) -> bool:
        """Which lanes are new, and which are paused; true when there are new ones."""
        if monotonic() - self._paused_read_at >= _PAUSES_EVERY:
            self._paused_read_at = monotonic()
            self._paused = await self._store.paused_lanes()
            self._rules = await self._store.rules()
        return monotonic() - self._lanes_read_at >= _LANES_EVERY and await self.read_lanes()

    async def _look(self, lines: Sequence[Line]) -> tuple[Look, int] | None:
        """What is to be had for these lines, and how deep the look went."""
        self._full.forget(monotonic())
        lanes = list(
            {lane: None for line in lines for lane in line.lanes if lane not in self._paused and lane not in self._full}
        )
        if not lanes:
            return None
        room = max(sum(waiting.room for waiting in line.waiting.values()) for line in lines)
        depth = depth_of_look(len(lanes), min(room, MOST))
        return await self._store.look(lanes, depth), depth

    def _until_the_next(self, look: Look) -> float:
        soonest = min((sight.ready_at[0] for sight in look.sights), default=None)
        most = min(self._poll, self._full.until_the_next(monotonic(), self._poll))
        if soonest is None or soonest <= look.now:
            return most
        return min(most, (soonest - look.now).total_seconds() + 0.0005)

    async def _deal(self, line: Line, look: Look, depth: int) -> int:
        sights: dict[int, list[Sight]] = {trial: [] for trial in Trial}
        for sight in look.sights:
            if sight.lane_id in line.lanes:
                sights[self._rules.suspicion.trial(line.lanes[sight.lane_id].key)].append(sight)
        dealt = await self._deal_trials(line, sights[Trial.SUSPECT] + sights[Trial.PROBED], look, depth)
        dealt += await self._deal_trusted(line, sights[Trial.NONE], look, depth)
        return dealt + await self._deal_alone(line, sights[Trial.ALONE], look, depth)

    async def _deal_trusted(self, line: Line, sights: Sequence[Sight], look: Look, depth: int) -> int:
        asking = line.with_room()
        free = min(MOST, sum(waiting.room for waiting in asking))
        agenda = Agenda.of(sights, line.lanes, line.places, TrialRoom(), look.now, depth)
        takes = line.shares.deal(agenda, [free])
        wanted = sum(take for _, take in takes)
        chosen, room = [], 0
        for waiting in asking:
            if room >= wanted:
                break
            chosen.append(waiting)
            room += waiting.room
        return await self._claim(line, chosen, takes, agenda)

    async def _deal_trials(self, line: Line, sights: Sequence[Sight], look: Look, depth: int) -> int:
        """Runs that are not trusted go to one worker at a time, as many as that one bears."""
        for asking in line.with_room() if sights else ():
            if dealt := await self._deal_untrusted(line, asking, sights, asking.trials, look, depth):
                return dealt
        return 0

    async def _deal_alone(self, line: Line, sights: Sequence[Sight], look: Look, depth: int) -> int:
        """A run that is tried alone goes to a worker that holds nothing, and that nothing else could be dealt to; to
        any worker when it has waited for long."""
        for sight, waited in self._rules.suspicion.alone(sights, line.lanes, look.now):
            for asking in line.with_room():
                if asking.trials.alone and (not asking.held or waited > PATIENCE):
                    return await self._deal_untrusted(line, asking, [sight], TrialRoom(alone=1), look, depth)
        return 0

    async def _deal_untrusted(
        self, line: Line, asking: Waiting, sights: Sequence[Sight], room: TrialRoom, look: Look, depth: int
    ) -> int:
        suspicion = self._rules.suspicion
        agenda = Agenda.of(sights, line.lanes, line.places, room, look.now, depth, suspicion=suspicion)
        return await self._claim(line, [asking], line.shares.deal(agenda, [asking.room]), agenda)

    async def _claim(
        self, line: Line, chosen: Sequence[Waiting], takes: Sequence[tuple[int, int]], agenda: Agenda
    ) -> int:
        if not takes or not chosen:
            return 0
        claimed = await self._serve(line, chosen, takes)
        line.shares.settle(agenda, takes, claimed)
        self._full.learn(takes, claimed, self._is_limited, monotonic())
        return len(claimed)

    async def _serve(self, line: Line, chosen: Sequence[Waiting], takes: Sequence[tuple[int, int]]) -> list[Claimed]:
        """Claim for these workers, and give each what it got, now or before: a claim has a number."""
        if not chosen:
            return []
        serving = asyncio.get_running_loop().create_future()
        for waiting in chosen:
            waiting.serving, waiting.unanswered = serving, True
        try:
            dealt = await self._store.claim_many([waiting.seat for waiting in chosen], takes)
            for waiting in chosen:
                if runs := dealt.get(waiting.worker_id):
                    turn = Turn(await self.begin(waiting.worker_id, runs))
                    line.leave(waiting)
                    waiting.serve(turn)
                else:
                    line.to_the_end(waiting)
                waiting.unanswered = False
        finally:
            serving.set_result(None)
            for waiting in chosen:
                waiting.serving = None
                if self._closed and not waiting.turn.done():
                    self._send_away(line, waiting)
        return [run for runs in dealt.values() for run in runs]

    def _is_limited(self, lane_id: int) -> bool:
        lane = self._lanes.by_id.get(lane_id)
        return lane is not None and self._rules.is_limited(lane.key)

    async def begin(self, worker_id: UUID, runs: Sequence[Claimed]) -> list[tuple[LaneKey, Claimed]]:
        """What of a claim shall be tried: a run that cannot be opened, or that waited too long, ends here."""
        begun, ended = [], []
        if any(run.lane_id not in self._lanes.by_id for run in runs):
            await self.read_lanes()  # another server made the claim, from lanes that nobody has asked for here
        for run in runs:
            outcome = not_tried(run)
            if outcome is None:
                begun.append((self._rules.suspicion.tried(self._lanes.by_id[run.lane_id].key), run))
            else:
                ended.append(complete(run, outcome, None))
        if ended:
            await self._store.complete(worker_id, ended)
        begun.sort(key=lambda pair: (pair[0].tier, pair[1].ready, pair[1].run_id))
        return begun

    async def _pass_on_cancellations(self, lines: Sequence[Line]) -> None:
        here = {waiting.worker_id for line in lines for waiting in line.waiting.values()}
        try:
            asked = await self._store.cancellations_of(list(here))
        except StoreUnavailable:
            self._stop_asked = True
            raise
        for line in lines:
            for waiting in list(line.waiting.values()):
                if waiting.worker_id in asked and waiting.serving is None:
                    line.leave(waiting)
                    waiting.serve(Turn([], asked[waiting.worker_id]))

    def _line(self, wants: Capabilities) -> Line:
        line = self._lines.get(wants)
        if line is None:
            if len(self._lines) >= _KEEP_LINES:
                self._lines = {key: line for key, line in self._lines.items() if line.waiting}
            line = self._lines[wants] = Line(wants, strict=self._strict)
            line.learn(self._lanes.by_id.values())
        return line
