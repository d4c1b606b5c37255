"""A queue of remote workers that wait for runs: all of one tenant, with the same tasks and queues.

It is first in, first out. A worker that got no runs (its lease may have expired) moves to the end, so that it does not
block the others.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from duetime.model.attempt import Claimed
from duetime.model.lane import LaneKey
from duetime.model.planner import Planner
from duetime.model.suspicion import TrialRoom
from duetime.model.worker import Seat


class Capabilities(NamedTuple):
    """Workers with equal capabilities share a wait queue."""

    tenant_id: int
    tasks: frozenset[str]
    queues: frozenset[str]
    """Empty: all."""


class ClaimAnswer(NamedTuple):
    """The answer to a waiting worker."""

    runs: list[tuple[LaneKey, Claimed]]
    cancelled: tuple[UUID, ...] = ()


class WaitingClaim:
    """One waiting claim of a worker."""

    __slots__ = ("answer", "claim_no", "held", "room", "serving", "trials", "unanswered", "worker_id")

    def __init__(self, worker_id: UUID, claim_no: int, room: int, trials: TrialRoom, held: int = 0) -> None:
        self.worker_id = worker_id
        self.claim_no = claim_no
        self.room = room
        self.trials = trials
        self.held = held
        """How many runs the worker reports that it holds."""
        self.answer: asyncio.Future[ClaimAnswer] = asyncio.get_running_loop().create_future()
        self.serving: asyncio.Future[None] | None = None
        """Set while the store is asked for runs for this worker, and done after that: the worker must not leave before
        the answer."""
        self.unanswered = False
        """Whether the answer of the store was lost. The store may have given runs to the worker, and these appear in no
        look."""

    @property
    def seat(self) -> Seat:
        return Seat(self.worker_id, self.claim_no, self.room)

    def serve(self, answer: ClaimAnswer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def refuse(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # mark it as retrieved: the caller may be gone


class WaitQueue:
    def __init__(self, wants: Capabilities, *, strict: bool = False) -> None:
        self.planner = Planner(dict.fromkeys(wants.tasks, 0), wants.queues, wants.tenant_id, strict=strict)
        self.waiting: dict[tuple[UUID, int], WaitingClaim] = {}

    def leave(self, waiting: WaitingClaim) -> None:
        self.waiting.pop((waiting.worker_id, waiting.claim_no), None)

    def move_to_end(self, waiting: WaitingClaim) -> None:
        key = (waiting.worker_id, waiting.claim_no)
        if self.waiting.pop(key, None) is waiting:
            self.waiting[key] = waiting

    def with_room(self) -> list[WaitingClaim]:
        """The claims that can be served, one per worker, in order. A claim that may have taken runs is left out: it
        must be asked about first (`unanswered`)."""
        return self._once(waiting for waiting in self._left_alone() if waiting.room and not waiting.unanswered)

    def unanswered(self) -> list[WaitingClaim]:
        """The claims whose answer was lost, one per worker: they may have taken runs."""
        return self._once(waiting for waiting in self._left_alone() if waiting.unanswered)

    def _left_alone(self) -> Iterable[WaitingClaim]:
        """The claims that are not being served now. The dealer and the runs from streams serve claims independently."""
        return (waiting for waiting in self.waiting.values() if waiting.serving is None)

    def _once(self, all: Iterable[WaitingClaim]) -> list[WaitingClaim]:
        found: dict[UUID, WaitingClaim] = {}
        for waiting in all:
            found.setdefault(waiting.worker_id, waiting)
        return list(found.values())
