"""The dealer claims runs for all remote workers that wait at this server, and distributes the runs among them.

However many workers wait, one look covers all their lanes, and each wait queue (workers with the same capabilities)
needs one claim. The planner splits a claim between lanes, as it does for a worker that claims for itself
(`model/planner.py`). When no worker waits, the dealer sends no statement to the store.
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
from duetime.model.completion import complete, not_tried
from duetime.model.lane import LaneKey, Look
from duetime.model.shares import Takes
from duetime.model.suspicion import TrialRoom
from duetime.process.loop import Loop, spread
from duetime.store.protocol.store import Hint, Store
from duetime.store.shared.known_lanes import KnownLanes

MOST = 1000
"""The maximum number of runs in one claim."""
_GATHER = 0.003
_RULES_EVERY = 0.4
_RULES_HOLD = 0.8
"""Seconds after which nothing is dealt before pauses and rules have been read again."""
_KEEP_LINES = 1000
_NOBODY = 3600.0
_SERVED_WITHIN = 5.0
_ASKED_WITHIN = 1.0
_SPREAD = 0.1


class Dealer:
    def __init__(self, store: Store, poll: timedelta, *, strict: bool = False) -> None:
        self._store = store
        self._strict = strict
        self._poll = poll.total_seconds()
        self._lines: dict[Capabilities, Line] = {}
        self._lanes = KnownLanes(store, rules_every=_RULES_EVERY)
        self._stop_asked = False
        self._closed = False
        self.loop = Loop("dealer", self.tick)

    def hint(self, hint: Hint) -> None:
        if hint is Hint.CANCEL:
            self._stop_asked = True
        else:
            self._lanes.hint()
        self.loop.wake()

    async def wait(self, wants: Capabilities, waiting: Waiting, within: float, gone: asyncio.Future[None]) -> Turn:
        """Wait until the worker gets an answer, `within` seconds have passed, or the connection is `gone`."""
        if self._closed:
            raise StoreUnavailable("this server is shutting down", remedy="retry")
        line = self._line(wants)
        key = (waiting.worker_id, waiting.claim_no)
        # A worker that reconnects with the same claim may still be in the queue.
        waiting = line.waiting.setdefault(key, waiting)
        self.loop.wake()
        either: set[asyncio.Future[Any]] = {waiting.turn, gone}
        # An earlier claim of this worker may hold runs that it does not know of. Leave time to ask the store.
        within = max(within, _ASKED_WITHIN) if waiting.unanswered else within
        # Spread the timeouts: thousands of workers reconnect together after a restart.
        await asyncio.wait(either, timeout=spread(within, _SPREAD), return_when=asyncio.FIRST_COMPLETED)
        while waiting.serving is not None and not gone.done() and not waiting.turn.done():
            await asyncio.wait({*either, waiting.serving}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.turn.done():
            if waiting.serving is not None:
                return Turn([])  # the claim has a number, so the worker finds its runs again
            self._send_away(line, waiting)
        return waiting.turn.result()

    def close(self) -> None:
        """Answer all waiting workers now, and refuse new ones."""
        self._closed = True
        for line in self._lines.values():
            for waiting in [waiting for waiting in line.waiting.values() if waiting.serving is None]:
                self._send_away(line, waiting)

    async def call_out(self, worker_id: UUID, claim_no: int) -> bool:
        """Remove a claim from its queue; false when it is not queued, or has already been served."""
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
        """Refuse the waiting claims of a worker whose lease has expired."""
        for line in self._lines.values():
            for waiting in [waiting for waiting in line.waiting.values() if waiting.worker_id == worker_id]:
                line.leave(waiting)
                waiting.refuse(LeaseLost("the worker's lease has expired", remedy="register again"))

    def _send_away(self, line: Line, waiting: Waiting) -> None:
        """End the wait without runs."""
        line.leave(waiting)
        if waiting.unanswered:
            lost = "the database did not answer: whether runs were claimed is unknown"
            waiting.refuse(StoreUnavailable(lost, remedy="retry with the same claim number"))
        else:
            waiting.serve(Turn([]))

    async def tick(self) -> float:
        began = monotonic()
        delay = await self._serve_lines()
        if self._lanes.read_at >= began or delay == _NOBODY:
            return delay
        # It was too soon to read the lanes: what woke this loop may wait in a new one.
        return min(delay, self._lanes.until_read + _GATHER)

    async def _serve_lines(self) -> float:
        lines = [line for line in self._lines.values() if line.waiting]
        if not lines:
            return _NOBODY
        for line in lines:
            # A look cannot see runs that an unanswered claim has already taken.
            await self._serve(line, line.unanswered(), [])
        if self._stop_asked:
            self._stop_asked = False
            await self._pass_on_cancellations(lines)
        served = [line for line in lines if any(waiting.room for waiting in line.waiting.values())]
        if self._lanes.rules_age >= _RULES_HOLD:
            await self._learn()
        # Else what is new is learned beside the look, not before it: most runs wait in lanes that are known.
        fresh, look = await asyncio.gather(self._learn(), self._look(served))
        dealt = 0
        if look is not None:
            for line in served:
                dealt += await self._deal(line, look)
        if dealt:
            return _GATHER
        return 0.0 if fresh else self._lanes.until_next(look, self._poll)

    async def _learn(self) -> bool:
        """Whether there are new lanes that a line is served from."""
        await self._lanes.read_rules()
        return await self._lanes.read()

    async def _look(self, lines: Sequence[Line]) -> Look | None:
        room = max((sum(waiting.room for waiting in line.waiting.values()) for line in lines), default=0)
        return await self._lanes.look([line.planner for line in lines], min(room, MOST))

    async def _deal(self, line: Line, look: Look) -> int:
        found = line.planner.by_trust(look)
        dealt = await self._deal_trials(line, found.on_trial)
        dealt += await self._deal_trusted(line, found.trusted)
        return dealt + await self._deal_alone(line, found.alone)

    async def _deal_trusted(self, line: Line, look: Look) -> int:
        asking = line.with_room()
        line.planner.plan(look, TrialRoom())
        takes = line.planner.deal([min(MOST, sum(waiting.room for waiting in asking))])
        wanted = sum(take for _, take in takes)
        chosen, room = [], 0
        for waiting in asking:
            if room >= wanted:
                break
            chosen.append(waiting)
            room += waiting.room
        return await self._claim(line, chosen, takes)

    async def _deal_trials(self, line: Line, look: Look) -> int:
        """Runs that are not trusted go to one worker at a time, as many as that one bears."""
        for asking in line.with_room() if look.sights else ():
            line.planner.plan(look, asking.trials)
            if dealt := await self._claim(line, [asking], line.planner.deal([asking.room])):
                return dealt
        return 0

    async def _deal_alone(self, line: Line, look: Look) -> int:
        """A run that is tried alone goes to a worker that holds nothing, and that nothing else could be dealt to; to
        any worker when it has waited for long."""
        for asking in line.with_room() if look.sights else ():
            if asking.trials.alone and line.planner.plan_alone(look, idle=not asking.held):
                return await self._claim(line, [asking], line.planner.deal([asking.room]))
        return 0

    async def _claim(self, line: Line, chosen: Sequence[Waiting], takes: Takes) -> int:
        if not takes or not chosen:
            return 0
        claimed = await self._serve(line, chosen, takes)
        line.planner.settle(takes, claimed)
        self._lanes.learn_what_is_full(takes, claimed)
        return len(claimed)

    async def _serve(self, line: Line, chosen: Sequence[Waiting], takes: Takes) -> list[Claimed]:
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

    async def begin(self, worker_id: UUID, runs: Sequence[Claimed]) -> list[tuple[LaneKey, Claimed]]:
        """The runs of a claim that will be attempted. A run that cannot be decrypted, or that waited too long, ends
        here."""
        begun, ended = [], []
        await self._lanes.read_those_of(runs)
        for run in runs:
            outcome = not_tried(run)
            if outcome is None:
                begun.append((self._lanes.tried(run.lane_id), run))
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
                self._lanes.keep(line.planner for line in self._lines.values())
            line = self._lines[wants] = Line(wants, strict=self._strict)
            self._lanes.add(line.planner)
        return line
