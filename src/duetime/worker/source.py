"""Where a worker's runs come from and where it reports: a store that it accesses directly, or a server over HTTP.

The guarantees are the store's (`duetime.store.protocol.store`): numbered claims, fenced completions, one lease per
worker. An unavailable source raises `StoreUnavailable`, whatever is between it and the database.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol
from uuid import UUID

import msgspec

from duetime.model.attempt import Claimed, Completion, RunNote
from duetime.model.breaker import Breaker, BreakerPolicy, Tally
from duetime.model.dependency import Parent
from duetime.model.lane import LaneKey
from duetime.model.target_health import Target
from duetime.model.worker import Renewal, WorkerInfo
from duetime.process.loop import Loop
from duetime.store.protocol.store import Completed, Hint
from duetime.worker.session import Session
from duetime.worker.slots import Slots
from duetime.worker.task import Place
from duetime.worker.trials import Trials

Start = Callable[[Session, int, Claimed, LaneKey], None]
"""Called with each claimed run and the number of its claim; 0 for a run that no claim holds."""


class Wants(msgspec.Struct, frozen=True):
    """What a worker can take, as its claimer needs it."""

    slots: Slots
    trials: Trials
    places: Mapping[str, Place]
    """Where each of its tasks runs."""
    queues: tuple[str, ...]
    """Empty: all."""
    poll: timedelta
    start: Start
    backlog: Callable[[], int]
    """How many completions the source has not accepted yet."""
    holds: Callable[[UUID], bool] = lambda _: False
    """Whether a run is in progress here."""
    abandon: Callable[[Sequence[UUID]], None] = lambda _: None
    """Stop these runs, and report nothing about them."""
    rewound: Callable[[], None] = lambda: None
    """Called when the database went back to an earlier state: it does not know what this worker has claimed since."""
    strict: bool = False
    """Whether a higher tier always goes first, instead of by shares."""
    open_targets: Callable[[], frozenset[Target]] = frozenset
    """Targets with an open breaker: nothing is claimed for them."""


class Claims(Protocol):
    """Claims for the free slots in `Slots`, never more, as long as it has a session."""

    session: Session | None
    """The session that claims are made for; None stops claiming."""

    @property
    def loops(self) -> Sequence[Loop]:
        """The loops that make the claims."""

    def begin(self, session: Session) -> None:
        """Claim for this session from now on."""

    def hint(self) -> None:
        """Runs may have become ready."""

    def slot_freed(self) -> None: ...

    async def stopped_claiming(self, within: float) -> None:
        """Once it has no session: wait until the claims in progress are answered and their runs have started."""

    def unanswered(self, session: Session) -> list[int]:
        """The claims of a session that may have taken effect without an answer."""

    async def close(self) -> None: ...


class Source(Protocol):
    @property
    def embedded(self) -> bool:
        """Whether it works on a thread of this process."""

    async def open(self) -> None:
        """Prepare for use on this event loop."""

    async def close(self) -> None: ...

    def companion(self) -> "Source":
        """The same source for another event loop (the heartbeat's); the caller opens and closes it."""

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        """Subscribe to hints that a look may be worthwhile; returns a function that unsubscribes."""

    def claimer(self, wants: Wants) -> Claims:
        """A claimer for a worker with these capabilities."""

    async def register(self, worker: WorkerInfo, lease: timedelta) -> UUID:
        """Begin a worker's lease; returns the worker's id."""

    async def renew(self, worker_id: UUID, lease: timedelta, open_claims: Sequence[int], answered: int) -> Renewal:
        """Extend the lease. Names the claims that are still held, and the number up to which all were answered. Raises
        `LeaseLost`."""

    async def cancellations(self, worker_id: UUID) -> tuple[UUID, ...]:
        """Runs of this worker whose cancellation was requested."""

    async def complete(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed: ...

    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        """End a run as SUCCEEDED in the task's own transaction, where the source supports that."""

    async def held_in_transactions(self, run_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Those of these runs that an open transaction locks: reports about them would wait for its end."""

    async def release(self, worker_id: UUID, claim_nos: Sequence[int]) -> int:
        """Make the runs claimed under these numbers ready again, and prevent further claims under them."""

    async def hand_back(self, worker_id: UUID, runs: Sequence[tuple[UUID, int]]) -> int: ...

    async def unaccounted(self, worker_id: UUID, claim_nos: Sequence[int], run_ids: Sequence[UUID]) -> list[UUID]:
        """The runs that the store has under these claims, except for these, which are all that the worker holds."""

    async def disown(self, worker_id: UUID, run_ids: Sequence[UUID]) -> int:
        """Declare that the worker does not hold these runs, although the store has them under its claims."""

    async def note(self, worker_id: UUID, notes: Sequence[RunNote]) -> Completed: ...

    async def parents(self, worker_id: UUID, run_id: UUID) -> list[Parent]:
        """The parents of a run that this worker holds. Raises `LeaseLost` when it does not hold the run."""

    async def leave(self, worker_id: UUID) -> None: ...

    async def report_attempts(self, tallies: Sequence[Tally], policy: BreakerPolicy) -> list[Breaker]:
        """Report the outcomes of attempts by target; returns the state of their breakers, where the source leaves that
        to a worker."""
