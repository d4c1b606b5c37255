"""The claimer of a remote worker: a long poll for each place that has free slots.

The server answers when it has claimed runs for this worker. Every poll has a number. After an abandoned poll (the
connection broke, the worker stops), a request with the same number returns the runs that it claimed.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from uuid import UUID

import msgspec

from duetime.errors import LeaseLost, NotFound
from duetime.ids import parse
from duetime.model.attempt import Claimed
from duetime.model.lane import LaneKey, Tier
from duetime.model.microseconds import stamp
from duetime.process.loop import Loop, retry_until_available
from duetime.wire import workers as wire
from duetime.worker.session import Session
from duetime.worker.session_wire import SessionWire
from duetime.worker.source import Wants
from duetime.worker.task import Place

_WAIT = 25.0
"""Seconds that a poll waits for runs."""
_TRIAL_WAIT = 0.25
"""Seconds to wait while untrusted runs are tried: room for more of them may come soon."""
_SLACK = 10.0
_LINGER = 0.003
_MOST_BACKLOG = 10_000
_IDLE = 1.0


class HttpClaimer:
    def __init__(self, server: SessionWire, wants: Wants, stop_asked: Callable[[Sequence[UUID]], None]) -> None:
        self._server = server
        self._wants = wants
        self._stop_asked = stop_asked
        self._session: Session | None = None
        self._calls: set[asyncio.Task[wire.Dealt]] = set()
        self._polls = [_Poll(self, place, wants) for place in sorted(set(wants.places.values()))]
        self.loops = (
            *(Loop(f"claims for the {poll.place.name.lower()}", poll.tick) for poll in self._polls),
            Loop("requests to stop", self._wait_for_cancels),
        )

    @property
    def session(self) -> Session | None:
        return self._session

    @session.setter
    def session(self, session: Session | None) -> None:
        self._session = session
        if session is None:
            for call in self._calls:
                call.cancel()

    def begin(self, session: Session) -> None:
        self.session = session
        self._wake()

    def hint(self) -> None:
        """Does nothing: the server that answers the poll gets the hints itself."""

    def slot_freed(self) -> None:
        if any(poll.hungry for poll in self._polls):
            self._wake()

    async def stopped_claiming(self, within: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                for poll in self._polls:
                    await retry_until_available(poll.settle)
        await asyncio.sleep(0)

    def unanswered(self, session: Session) -> list[int]:
        return [number for poll in self._polls for number in poll.unanswered(session)]

    async def close(self) -> None:
        self.session = None

    async def ask(self, session: Session, body: wire.Ask) -> wire.Dealt | None:
        """Runs, and runs to cancel; None when the poll was abandoned because the session ends."""
        asking = self._server.post(session.id, "claim", body, wire.Dealt, timeout=body.wait + _SLACK)
        call = asyncio.ensure_future(asking)
        self._calls.add(call)
        try:
            dealt = await call
        except asyncio.CancelledError:
            if not call.cancelled() or self._session is session:
                raise
            return None
        finally:
            self._calls.discard(call)
        if dealt.cancelled:
            self._stop_asked([parse("run", run) for run in dealt.cancelled])
        return dealt

    async def release(self, session: Session, claim_no: int) -> None:
        """Make sure that nothing is claimed under this number any more."""
        await self._server.post(session.id, "hand-back", wire.HandBack(claims=[claim_no]), wire.HandedBack)

    async def _wait_for_cancels(self) -> float:
        """While runs are in progress, wait for requests to cancel them."""
        session, slots = self._session, self._wants.slots
        if session is None or slots.idle:
            return _IDLE
        with contextlib.suppress(LeaseLost, NotFound):  # the heartbeat gets this error too
            await self.ask(session, wire.Ask(claim_no=0, room=0, wait=_WAIT))
        return _IDLE

    def _wake(self) -> None:
        for loop in self.loops:
            loop.wake()


class _Poll:
    """The claims for the slots of one place."""

    def __init__(self, claimer: HttpClaimer, place: Place, wants: Wants) -> None:
        self._claimer = claimer
        self._wants = wants
        self.place = place
        self.hungry = False
        self._tasks = [task for task, where in wants.places.items() if where is place]
        self._unanswered: tuple[Session, int] | None = None
        self._lock = asyncio.Lock()

    async def tick(self) -> float:
        session, slots = self._claimer.session, self._wants.slots
        if session is None:
            return _IDLE
        if self._wants.backlog() > _MOST_BACKLOG:
            return _LINGER
        if slots.free[self.place] > 0 and not slots.worth_claiming(self.place):
            await asyncio.sleep(_LINGER)  # a few more slots make the claim worth its round trip
        if self._wants.trials.alone:
            return _TRIAL_WAIT
        room = max(0, min(slots.free[self.place], wire.MOST_RUNS))
        self.hungry = not room
        if not room:
            return _IDLE
        async with self._lock:
            await self._claim(session, room)
        return 0.0

    def unanswered(self, session: Session) -> list[int]:
        return [self._unanswered[1]] if self._unanswered is not None and self._unanswered[0] is session else []

    async def settle(self) -> None:
        """Get the runs that an abandoned poll has claimed."""
        async with self._lock:
            if self._unanswered is not None:
                await self._claim(self._unanswered[0], 0)

    async def _claim(self, session: Session, room: int) -> None:
        again = self._unanswered is not None and self._unanswered[0] is session
        if self._unanswered is None or not again:
            if not room or self._claimer.session is not session:
                return
            self._unanswered = (session, session.begin_claim())
        claim_no = self._unanswered[1]
        trials = self._wants.trials
        trial_room = trials.room()
        body = wire.Ask(
            claim_no,
            room,
            self._tasks,
            _TRIAL_WAIT if trials.under_way else _WAIT,
            min(wire.MOST_RUNS, trial_room.suspects),
            trial_room.unproven,
            {task: min(wire.MOST_RUNS, count) for (_, task), count in trial_room.proven.items()},
            held=sum(self._wants.slots.used),
        )
        try:
            dealt = await self._claimer.ask(session, body)
        except (LeaseLost, NotFound):
            self._unanswered = None
            await asyncio.sleep(_IDLE)  # the heartbeat gets this error too, and ends the session
            return
        if dealt is None:
            return
        if again and not dealt.runs:
            # The earlier request may still be in progress, and would claim runs that no worker knows of.
            with contextlib.suppress(LeaseLost, NotFound):
                await self._claimer.release(session, claim_no)
        self._unanswered = None
        session.claimed(claim_no, len(dealt.runs))
        for run in dealt.runs:
            self._wants.start(session, claim_no, _claimed(run), _lane(run))


def _claimed(run: wire.DealtRun) -> Claimed:
    return Claimed(
        run_id=parse("run", run.run_id),
        job_id=parse("job", run.job_id),
        lane_id=0,
        fence=run.fence,
        attempt=run.attempt,
        lost=run.lost,
        due=stamp(run.due_at),
        ready=stamp(run.ready_at),
        started=stamp(run.started_at),
        args=bytes(run.args),
        options=_raw(run.options),
        timeout_ms=None if run.timeout is None else round(run.timeout * 1000),
        checkpoint=_raw(run.checkpoint),
    )


def _raw(value: object) -> bytes | None:
    return bytes(value) if isinstance(value, msgspec.Raw) else None


def _lane(run: wire.DealtRun) -> LaneKey:
    """The tenant is left out: only the server knows it."""
    return LaneKey(0, run.queue, Tier[run.priority], run.task, run.trial)
