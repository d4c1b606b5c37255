"""The carried runs that this worker holds. Their messages are acknowledged after the store has committed.

    held ──success──► ended in the store ──► acknowledged
      └──any other outcome, a report, a third of a lease──► landed ──► acknowledged

A run lands under a claim of this worker, once. The worker's event loop lands runs, and so does the heartbeat's thread:
a task that blocks the event loop must not look like a dead worker. A lock decides who acts on a run. A landing whose
answer was lost is repeated with the same claim.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

import msgspec

from duetime.clock import monotonic
from duetime.errors import LeaseLost, StoreRejected
from duetime.model.attempt import Completion
from duetime.model.carried import CarriedRun, UnderClaim
from duetime.store.protocol.store import Store
from duetime.streams.protocol import Delivery
from duetime.telemetry.meters import Meters
from duetime.worker.session import Session

_POLL = 0.02

Acknowledge = Callable[[list[Delivery]], None]
"""Acknowledges messages; may be called from any thread."""


class Landing:
    """Runs that land together, under one claim."""

    def __init__(self, held: "list[Held]", session: Session, reason: str) -> None:
        self.held = held
        self.session = session
        self.reason = reason
        self.claim_no = session.begin_claim()
        self.busy = False
        self.answered = False
        self.acknowledged = False
        self.stored: frozenset[UUID] = frozenset()
        """The runs that have landed here. The others have ended or landed before, or the lease is lost."""
        self.reported: set[UUID] = set()
        """Of these, the runs whose end has been sent to the store."""

    @property
    def is_over(self) -> bool:
        return self.answered and self.reported >= self.stored


class Held(msgspec.Struct, eq=False, gc=False):
    run: CarriedRun
    session: Session
    acknowledge: Acknowledge
    deliveries: list[Delivery]
    """Its message, which may have been delivered more than once."""
    started: int
    """In microseconds of the store's clock."""
    fetched: float
    extended: float
    """When it was fetched, and when its message was last extended, on the monotonic clock."""
    landing: Landing | None = None
    ending: bool = False
    """Whether its outcome is known: it need not land because of its age."""
    over: bool = False
    """Whether it has ended in the store."""

    @property
    def is_stored(self) -> bool:
        """Whether the store knows of it, so that its messages need no further delivery."""
        return self.over or (self.landing is not None and self.landing.acknowledged)


class CarriedRuns:
    def __init__(self, meters: Meters) -> None:
        self.held: dict[UUID, Held] = {}
        self._meters = meters
        self._lock = threading.Lock()
        self._landings: dict[Landing, None] = {}
        """Landings without an answer."""

    def divide(self, completions: Sequence[Completion]) -> tuple[list[tuple[Held, Completion]], list[Completion]]:
        """The completions of carried runs, and the others. The outcomes of these runs are known: only the caller lands
        them from now on. If a late report landed a run whose end is on its way to history, the store would refuse the
        end, and the run would never end."""
        held = self.held
        if not held:
            return [], list(completions)
        mine, others = [], []
        with self._lock:
            for item in completions:
                each = held.get(item.run_id)
                if each is None:
                    others.append(item)
                else:
                    each.ending = True
                    mine.append((each, item))
        return mine, others

    def forget(self, held: Iterable[Held]) -> None:
        for each in held:
            self.held.pop(each.run.run_id, None)

    def drop(self, session: Session) -> None:
        """The session is over: what it still held is redelivered."""
        self.forget([each for each in self.held.values() if each.session is session])

    def unanswered(self, session: Session) -> list[int]:
        """The claims of landings that may have taken effect without an answer."""
        return [landing.claim_no for landing in list(self._landings) if landing.session is session]

    def count_landed(self, reason: str, runs: int) -> None:
        with self._lock:
            self._meters.landed[reason] += runs

    async def land_overdue(self, store: Store, worker_id: UUID, age: float) -> None:
        """Land the runs of this worker that have been held for so many seconds."""
        before = monotonic() - age
        late = [each for each in list(self.held.values()) if each.fetched <= before and each.session.id == worker_id]
        if late:
            await self.land(late, store, "long")

    async def land(self, held: Sequence[Held], store: Store, reason: str, *, has_ended: bool = False) -> None:
        """Land these runs, and wait for those that another thread is landing. Runs whose outcome is known are left out,
        unless `has_ended` is set. Raises `StoreUnavailable` and `StoreRejected`; may be repeated."""
        with self._lock:
            fresh: dict[Session, list[Held]] = {}
            for each in held:
                if each.landing is None and (has_ended or not each.ending):
                    fresh.setdefault(each.session, []).append(each)
            for session, group in fresh.items():
                landing = Landing(group, session, reason)
                self._landings[landing] = None
                for each in group:
                    each.landing = landing
        for each in held:
            if each.landing is not None:
                await self._finish(each.landing, store)

    async def _finish(self, landing: Landing, store: Store) -> None:
        while not landing.answered:
            with self._lock:
                mine = not landing.busy
                landing.busy = True
            if not mine:
                await asyncio.sleep(_POLL)  # the other thread does it
                continue
            try:
                await self._send(landing, store)
            finally:
                landing.busy = False

    async def _send(self, landing: Landing, store: Store) -> None:
        session, held = landing.session, landing.held
        runs, started = [each.run for each in held], [each.started for each in held]
        try:
            stored = await store.streams.land(runs, UnderClaim(session.id, landing.claim_no, started))
        except LeaseLost:
            self._answered(landing, frozenset())
            return
        except StoreRejected:
            # The caller tries them in smaller groups.
            session.landed(landing.claim_no, 0)
            del self._landings[landing]
            for each in landing.held:
                each.landing = None
            landing.answered = True
            raise
        self._answered(landing, stored)
        self.count_landed(landing.reason, len(stored))
        landing.acknowledged = True
        for each in landing.held:
            each.acknowledge(each.deliveries)

    def _answered(self, landing: Landing, stored: frozenset[UUID]) -> None:
        landing.session.landed(landing.claim_no, len(stored))
        landing.stored = stored
        landing.answered = True
        del self._landings[landing]
