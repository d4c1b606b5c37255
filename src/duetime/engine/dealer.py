"""The dealer claims runs for all remote workers that wait at this server, and distributes the runs among them.

However many workers wait, one look covers all their lanes, and each wait queue (workers with the same capabilities)
needs one claim. The planner splits a claim between lanes, as it does for a worker that claims for itself
(`model/planner.py`). When no worker waits, the dealer sends no statement to the store. Runs from streams have no row
yet: they land under the workers' claims, in one statement for each wait queue.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any
from uuid import UUID

from duetime.clock import monotonic
from duetime.engine.wait_queue import Capabilities, ClaimAnswer, WaitingClaim, WaitQueue
from duetime.errors import LeaseLost, StoreRejected, StoreUnavailable
from duetime.model.attempt import Claimed
from duetime.model.carried import CarriedRun
from duetime.model.completion import complete, not_tried
from duetime.model.lane import LaneKey, Look
from duetime.model.shares import Takes
from duetime.model.suspicion import TrialRoom
from duetime.model.worker import Seat
from duetime.process.loop import Loop, spread
from duetime.store.protocol.store import Hint, Store
from duetime.store.shared.known_lanes import KnownLanes

MOST = 1000
"""The maximum number of runs in one claim."""
_LINGER = 0.003
_RULES_EVERY = 0.4
_RULES_HOLD = 0.8
"""Seconds after which paused queues and rules must be read again before the next claim."""
_KEEP_WAIT_QUEUES = 1000
_IDLE = 3600.0
_SERVED_WITHIN = 5.0
_ASKED_WITHIN = 1.0
_SPREAD = 0.1


class Dealer:
    def __init__(self, store: Store, poll: timedelta, *, strict: bool = False) -> None:
        self._store = store
        self.strict = strict
        self._poll = poll.total_seconds()
        self._wait_queues: dict[Capabilities, WaitQueue] = {}
        self._lanes = KnownLanes(store.claims, rules_every=_RULES_EVERY)
        self._stop_asked = False
        self._closed = False
        self.on_wait: Callable[[], None] = lambda: None
        """Called when a worker begins to wait."""
        self.loop = Loop("dealer", self.tick)

    def hint(self, hint: Hint) -> None:
        if hint is Hint.CANCEL:
            self._stop_asked = True
        else:
            self._lanes.hint()
        self.loop.wake()

    async def wait(
        self, capabilities: Capabilities, waiting: WaitingClaim, within: float, gone: asyncio.Future[None]
    ) -> ClaimAnswer:
        """Wait until the worker gets an answer, `within` seconds have passed, or the connection is `gone`."""
        if self._closed:
            raise StoreUnavailable("this server is shutting down", remedy="retry")
        wait_queue = self._wait_queue(capabilities)
        key = (waiting.worker_id, waiting.claim_no)
        # A worker that reconnects with the same claim may still be in the queue.
        waiting = wait_queue.waiting.setdefault(key, waiting)
        self.loop.wake()
        self.on_wait()
        either: set[asyncio.Future[Any]] = {waiting.answer, gone}
        # An earlier claim of this worker may hold runs that it does not know of. Leave time to ask the store.
        within = max(within, _ASKED_WITHIN) if waiting.unanswered else within
        # Spread the timeouts: thousands of workers reconnect together after a restart.
        await asyncio.wait(either, timeout=spread(within, _SPREAD), return_when=asyncio.FIRST_COMPLETED)
        while waiting.serving is not None and not gone.done() and not waiting.answer.done():
            await asyncio.wait({*either, waiting.serving}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.answer.done():
            if waiting.serving is not None:
                return ClaimAnswer([])  # the claim has a number, so the worker finds its runs again
            self._end_wait(wait_queue, waiting)
        return waiting.answer.result()

    def rooms(self) -> dict[tuple[int, frozenset[str]], int]:
        """The free slots of waiting workers, by their tenant and their queues."""
        found: dict[tuple[int, frozenset[str]], int] = {}
        for wants, wait_queue in self._wait_queues.items():
            if room := sum(waiting.room for waiting in wait_queue.waiting.values()):
                key = wants.tenant_id, wants.queues
                found[key] = found.get(key, 0) + room
        return found

    def serves(self, lane: LaneKey) -> bool:
        """Whether a worker waits that could run such runs."""
        return any(each.waiting and each.planner.serves(lane) for each in self._wait_queues.values())

    @property
    def weights(self) -> Mapping[int, int]:
        """The shares of tenants."""
        return self._lanes.rules.weights

    async def assign(self, runs: Sequence[CarriedRun]) -> frozenset[UUID]:
        """Land runs from streams under the claims of waiting workers, and answer these. Returns the runs that have
        landed. The others are for no waiting worker, are tried with care, or found no free slot. Raises
        `StoreUnavailable`: then any of them may have landed."""
        await self._lanes.read_rules()
        landed: set[UUID] = set()
        for wait_queue in list(self._wait_queues.values()):
            serves, is_trusted = wait_queue.planner.serves, wait_queue.planner.is_trusted
            fits = {lane: serves(lane) and is_trusted(lane) for lane in {run.lane for run in runs}}
            mine = iter([run for run in runs if fits[run.lane] and run.run_id not in landed])
            chosen: list[WaitingClaim] = []
            given: list[tuple[CarriedRun, int]] = []
            for place, waiting in enumerate(wait_queue.with_room()):
                if not (taken := list(islice(mine, waiting.room))):
                    break
                chosen.append(waiting)
                given += [(run, place) for run in taken]
            if not given:
                continue
            try:
                await self._answer(wait_queue, chosen, partial(self._store.streams.assign, runs=given))
            except (LeaseLost, StoreRejected):
                continue  # nothing was stored
            landed.update(run.run_id for run, _ in given)
        return frozenset(landed)

    def close(self) -> None:
        """Answer all waiting workers now, and refuse new ones."""
        self._closed = True
        for wait_queue in self._wait_queues.values():
            for waiting in [waiting for waiting in wait_queue.waiting.values() if waiting.serving is None]:
                self._end_wait(wait_queue, waiting)

    async def withdraw(self, worker_id: UUID, claim_no: int) -> bool:
        """Remove a claim from its queue; false when it is not queued, or has already been served."""
        for wait_queue in self._wait_queues.values():
            waiting = wait_queue.waiting.get((worker_id, claim_no))
            if waiting is None:
                continue
            if waiting.serving is not None:
                await asyncio.wait({waiting.serving}, timeout=_SERVED_WITHIN)
            if waiting.serving is not None or waiting.answer.done():
                return False
            self._end_wait(wait_queue, waiting)
            return not waiting.unanswered
        return False

    def refuse_worker(self, worker_id: UUID) -> None:
        """Refuse the waiting claims of a worker whose lease has expired."""
        for wait_queue in self._wait_queues.values():
            for waiting in [waiting for waiting in wait_queue.waiting.values() if waiting.worker_id == worker_id]:
                wait_queue.leave(waiting)
                waiting.refuse(LeaseLost("the worker's lease has expired", remedy="register again"))

    def _end_wait(self, wait_queue: WaitQueue, waiting: WaitingClaim) -> None:
        """End the wait without runs."""
        wait_queue.leave(waiting)
        if waiting.unanswered:
            lost = "the database did not answer: whether runs were claimed is unknown"
            waiting.refuse(StoreUnavailable(lost, remedy="retry with the same claim number"))
        else:
            waiting.serve(ClaimAnswer([]))

    async def tick(self) -> float:
        began = monotonic()
        delay = await self._serve_wait_queues()
        if self._lanes.read_at >= began or delay == _IDLE:
            return delay
        # The lanes were read too recently to read them again now. The hint that woke this loop may be about a new lane.
        return min(delay, self._lanes.until_read + _LINGER)

    async def _serve_wait_queues(self) -> float:
        wait_queues = [wait_queue for wait_queue in self._wait_queues.values() if wait_queue.waiting]
        if not wait_queues:
            return _IDLE
        for wait_queue in wait_queues:
            # A look cannot see runs that an unanswered claim has already taken.
            await self._serve(wait_queue, wait_queue.unanswered(), [])
        if self._stop_asked:
            self._stop_asked = False
            await self._pass_on_cancellations(wait_queues)
        served = [each for each in wait_queues if any(waiting.room for waiting in each.waiting.values())]
        if self._lanes.rules_age >= _RULES_HOLD:
            await self._learn()
        # Read new lanes concurrently with the look, not before it: most runs wait in known lanes.
        fresh, look = await asyncio.gather(self._learn(), self._look(served))
        dealt = 0
        if look is not None:
            for wait_queue in served:
                dealt += await self._deal(wait_queue, look)
        if dealt:
            return _LINGER
        return 0.0 if fresh else self._lanes.until_next(look, self._poll)

    async def _learn(self) -> bool:
        """Read which lanes are new and which are paused; true when there are new ones."""
        await self._lanes.read_rules()
        return await self._lanes.read()

    async def _look(self, wait_queues: Sequence[WaitQueue]) -> Look | None:
        room = max((sum(waiting.room for waiting in each.waiting.values()) for each in wait_queues), default=0)
        return await self._lanes.look([wait_queue.planner for wait_queue in wait_queues], min(room, MOST))

    async def _deal(self, wait_queue: WaitQueue, look: Look) -> int:
        found = wait_queue.planner.by_trust(look)
        dealt = await self._deal_trials(wait_queue, found.on_trial)
        dealt += await self._deal_trusted(wait_queue, found.trusted)
        return dealt + await self._deal_alone(wait_queue, found.alone)

    async def _deal_trusted(self, wait_queue: WaitQueue, look: Look) -> int:
        asking = wait_queue.with_room()
        wait_queue.planner.plan(look, TrialRoom())
        takes = wait_queue.planner.deal([min(MOST, sum(waiting.room for waiting in asking))])
        wanted = sum(take for _, take in takes)
        chosen, room = [], 0
        for waiting in asking:
            if room >= wanted:
                break
            chosen.append(waiting)
            room += waiting.room
        return await self._claim(wait_queue, chosen, takes)

    async def _deal_trials(self, wait_queue: WaitQueue, look: Look) -> int:
        """Claim untrusted runs for one worker at a time, as many as its trial room allows."""
        for asking in wait_queue.with_room() if look.sights else ():
            wait_queue.planner.plan(look, asking.trials)
            if dealt := await self._claim(wait_queue, [asking], wait_queue.planner.deal([asking.room])):
                return dealt
        return 0

    async def _deal_alone(self, wait_queue: WaitQueue, look: Look) -> int:
        """Claim a run that is tried alone for an idle worker that gets nothing else; for any worker after a long
        wait."""
        for asking in wait_queue.with_room() if look.sights else ():
            if asking.trials.alone and wait_queue.planner.plan_alone(look, idle=not asking.held):
                return await self._claim(wait_queue, [asking], wait_queue.planner.deal([asking.room]))
        return 0

    async def _claim(self, wait_queue: WaitQueue, chosen: Sequence[WaitingClaim], takes: Takes) -> int:
        if not takes or not chosen:
            return 0
        claimed = await self._serve(wait_queue, chosen, takes)
        wait_queue.planner.settle(takes, claimed)
        self._lanes.learn_what_is_full(takes, claimed)
        return len(claimed)

    async def _serve(self, wait_queue: WaitQueue, chosen: Sequence[WaitingClaim], takes: Takes) -> list[Claimed]:
        """Claim for these workers, and answer each with its runs. The claim number also finds the runs of an earlier,
        unanswered claim."""
        if not chosen:
            return []
        return await self._answer(wait_queue, chosen, lambda seats: self._store.claims.claim_many(seats, takes))

    async def _answer(
        self,
        wait_queue: WaitQueue,
        chosen: Sequence[WaitingClaim],
        claim: Callable[[Sequence[Seat]], Awaitable[dict[UUID, list[Claimed]]]],
    ) -> list[Claimed]:
        serving = asyncio.get_running_loop().create_future()
        for waiting in chosen:
            waiting.serving, waiting.unanswered = serving, True
        try:
            dealt = await claim([waiting.seat for waiting in chosen])
            for waiting in chosen:
                if runs := dealt.get(waiting.worker_id):
                    answer = ClaimAnswer(await self.begin(waiting.worker_id, runs))
                    wait_queue.leave(waiting)
                    waiting.serve(answer)
                else:
                    wait_queue.move_to_end(waiting)
                waiting.unanswered = False
        finally:
            serving.set_result(None)
            for waiting in chosen:
                waiting.serving = None
                if self._closed and not waiting.answer.done():
                    self._end_wait(wait_queue, waiting)
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
            await self._store.completions.complete(worker_id, ended)
        begun.sort(key=lambda pair: (pair[0].tier, pair[1].ready, pair[1].run_id))
        return begun

    async def _pass_on_cancellations(self, wait_queues: Sequence[WaitQueue]) -> None:
        here = {waiting.worker_id for wait_queue in wait_queues for waiting in wait_queue.waiting.values()}
        try:
            asked = await self._store.leases.cancellations_of(list(here))
        except StoreUnavailable:
            self._stop_asked = True
            raise
        for wait_queue in wait_queues:
            for waiting in list(wait_queue.waiting.values()):
                if waiting.worker_id in asked and waiting.serving is None:
                    wait_queue.leave(waiting)
                    waiting.serve(ClaimAnswer([], asked[waiting.worker_id]))

    def _wait_queue(self, wants: Capabilities) -> WaitQueue:
        wait_queue = self._wait_queues.get(wants)
        if wait_queue is None:
            if len(self._wait_queues) >= _KEEP_WAIT_QUEUES:
                self._wait_queues = {key: each for key, each in self._wait_queues.items() if each.waiting}
                self._lanes.keep(wait_queue.planner for wait_queue in self._wait_queues.values())
            wait_queue = self._wait_queues[wants] = WaitQueue(wants, strict=self.strict)
            self._lanes.add(wait_queue.planner)
        return wait_queue
