"""What a store promises. The words here are the contract; one suite of tests holds every store to it.

A row lives in exactly one home (jobs, runs, history) and moves in one transaction. Times in answers are the store's
own: its clock decides what is due and which lease is over. Every method either takes effect as a whole or not at all,
and raises `StoreUnavailable` when the database cannot be reached or asks to be tried again, `StoreRejected` when it
refuses the rows themselves. All methods may be called by any number of processes at the same time.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Protocol
from uuid import UUID

import msgspec

from duetime.crypto.sealer import Sealer
from duetime.model.attempt import Claimed, Completion, Run, RunNote
from duetime.model.calendar import Calendar
from duetime.model.edit import Changes
from duetime.model.firing import Decided, DueJob, PassedBy, SetAside
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import Job, NewJob, Submitted
from duetime.model.lane import Lane, LaneChanges, LaneTurn, Look
from duetime.model.worker import Renewal, Seat, Worker, WorkerInfo
from duetime.store.protocol.graphs import Graphs
from duetime.store.protocol.ready import Ready
from duetime.store.protocol.service import (
    NOTHING_ANSWERED,
    Access,
    Allowances,
    Answers,
    Audit,
    Breakers,
    Clocks,
    Events,
    Figures,
    JudgeLost,
    Lists,
    Notifications,
    Payloads,
    Queues,
    Replay,
    Secrets,
    Sessions,
    Surveys,
    Tenants,
)
from duetime.store.rules.encrypted_columns import Reencryption
from duetime.store.rules.limit_scopes import Rules


class Completed(msgspec.Struct, frozen=True):
    """Which completions were not accepted: those runs belong to another worker by now, or are over."""

    refused: frozenset[UUID] = frozenset()
    over: frozenset[UUID] = frozenset()
    """Those of the refused that are known to be over."""


class Scan(msgspec.Struct, frozen=True):
    """What a scan did."""

    fired: int
    set_aside: tuple[SetAside, ...]
    seen: int
    """How many cursors were in view, up to the limit."""
    next_in: timedelta | None
    """How long until the next cursor comes into view; None when there is none, or when as many were seen as there may
    be: more may be in view."""
    passed_by: tuple[PassedBy, ...] = ()
    """Jobs that the plan left to other nodes: nothing of them was changed."""
    held_back: int = 0
    """How many cursors went to the backlogs of their tenants, which may not fire them yet."""
    kept_waiting: bool = False
    """Whether others waited meanwhile for the one writer of an embedded file."""


class Counts(msgspec.Struct, frozen=True):
    """How many rows each home holds."""

    jobs: int
    runs: int
    history: int
    dead_letters: int


class Hint(Enum):
    """Why somebody might want to look: hints are coalesced, may be missed, and are never needed to be correct."""

    READY = "ready"
    """Runs may have become ready, or will soon."""
    CANCEL = "cancel"
    """Somebody asked a running run to stop."""
    ENDED = "ended"
    """A run has ended that somebody waits for."""


PlanFires = Callable[[Sequence[DueJob], datetime], Sequence[Decided]]


class Lifecycle(Protocol):
    """Opening, closing, and the schema."""

    embedded: bool
    """Whether the database lives in this process: then one store serves every event loop and thread of it."""

    async def open(self) -> None:
        """Connect. Raises `StoreUnavailable` when the database cannot be reached; does not look at the schema."""

    async def close(self) -> None:
        """Let go of everything. Safe to call twice, and on a store that was never opened."""

    async def migrate(self) -> list[int]:
        """Bring the schema to this code's version; returns the versions applied. Two at once are safe.

        Where somebody reads or writes what has to change, it waits in turns for up to a minute, and says for whom.
        """

    async def check_schema(self) -> int:
        """The schema's version. Raises `SchemaMismatch`, with the command to run, when this code cannot use it."""

    async def now(self) -> datetime:
        """The store's clock."""

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        """Be told, on this store's event loop, when it may be worth to look; returns how to stop listening."""


class Intake(Protocol):
    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Store all of these jobs, or none; answers in their order.

        A job due within the look-ahead goes straight to its run. An idempotency key that was used before with the
        same fingerprint (that of the request, where it has one) answers the first job again; with another one raises
        `KeyReused`. A key of either kind that another transaction holds uncommitted raises `KeyInFlight` without
        waiting; its `field` says which kind. `key` names one live job of the tenant: the same fingerprint changes
        nothing, another one edits the job as `edit_job` does (same id, next version); a one-off whose run exists is
        replaced in place, unless it has started, which raises `JobBusy`. A calendar that does not exist raises
        `InvalidInput`.
        """

    async def known_keys(self, tenant_id: int, keys: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """Those of these keys, as (kind, key) of `store/rules/caller_keys.py`, that lead to an earlier request or to a
        job that is not over: a submission with one of them adds no job."""


class Firing(Protocol):
    async def fire_due(self, limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
        """Fire up to `limit` cursors in view, as `plan` decides, in one transaction.

        No occurrence is fired twice, whoever else is firing. A cursor that another node holds is passed over, and so
        is a job whose live run would be replaced while another transaction holds that run.

        A job that the plan sets aside is paused where its cursor stands: resuming it applies the misfire policy to
        everything from there on, as after any pause. One that the plan passes by stays as it is. The jobs in `without`
        are not looked at, and hide none behind them.
        """

    async def unblock(self, limit: int) -> int:
        """Let runs start that waited for other runs of their job, now that those are over; returns how many.

        Also those that wait for a key with room, though nobody has asked for it for seconds: nothing waits for ever.
        """


class Claims(Ready, Protocol):
    async def lanes(self) -> list[Lane]:
        """The lanes that are awake, in order of id: all that have runs, and those that had some a moment ago."""

    async def lane_changes(self, after: LaneTurn) -> LaneChanges:
        """What woke and fell asleep after a turn; after `NO_TURN`, or one that was too long ago, all that is awake.

        Raises `StoreRewound` when the database went back behind that turn.
        """

    async def tidy_lanes(self) -> int:
        """Let lanes without runs fall asleep: a few calls after the last run, seconds apart; how many did now.

        No run is ever stored in a lane that is asleep: it is woken before. An id is never used for another lane.
        """

    async def paused_lanes(self) -> frozenset[int]:
        """The lanes that nobody may claim from now: of paused queues, and of suspended tenants.

        Whoever claims asks at least once a second.
        """

    async def rules(self) -> Rules:
        """The weights of tenants, and the limits that are set. Whoever claims asks at least once a second."""

    async def look(self, lane_ids: Sequence[int], depth: int) -> Look:
        """The first `depth` unclaimed runs of each lane, ready or not; lanes without any are left out."""

    async def claim(self, worker_id: UUID, claim_no: int, takes: Sequence[tuple[int, int]]) -> list[Claimed]:
        """Lease up to `take` ready runs of each (lane, take), earliest `ready_at` first, then by id.

        No run is leased twice at once. A worker's claim numbers count up from 1: `renew(answered=0)` says that it has
        had no answer. Asking again with the same `claim_no` returns the same runs, if they were claimed. A worker
        whose lease is over gets nothing, and one that is bound to a tenant gets nothing of others.

        No limit is exceeded, whoever else claims: of a tenant, a queue or a key. A run whose key is full leaves its
        lane until a slot of the key is free, one whose rate is used up waits for its moment.
        """

    async def claim_many(self, seats: Sequence[Seat], takes: Sequence[tuple[int, int]]) -> dict[UUID, list[Claimed]]:
        """Lease up to `take` ready runs of each (lane, take), and deal them to the seats in order, each up to its room.

        What `claim` promises holds for each seat: no run is leased twice, asking again with the same number returns the
        same runs, a worker whose lease is over gets nothing, and one that is bound to a tenant or to queues gets
        nothing from other lanes. Seats of different tenants must not be mixed. Every seat is in the answer.
        """

    async def release(self, worker_id: UUID, claim_nos: Sequence[int]) -> int:
        """Make what was claimed under these numbers wait again as if it had not been claimed; returns how many runs.

        For a worker that leaves without knowing what it has claimed: a claim under one of these numbers that is still
        on its way takes nothing.
        """


class Leases(Protocol):
    async def register(self, worker: WorkerInfo, lease: timedelta) -> datetime:
        """Begin a worker's lease; returns its end. What it tells of its tasks is kept when it is gone."""

    async def renew(self, worker_id: UUID, lease: timedelta, open_claims: Sequence[int], answered: int = 0) -> Renewal:
        """Extend the lease, from now. Raises `LeaseLost` when the worker was reaped, has left or is unknown.

        A lease that is over, but that nobody has reaped, is extended like any other: a clock that steps forward takes
        nothing from workers that live. What the worker holds has its whole timeout from then on, as `reap` sees it.

        Claims older than a lease that the worker does not list are freed, nothing spent: it does not hold them. Of
        claims up to `answered` it had the answers, so their runs may have begun: the reaper judges those as lost.
        """

    async def renew_many(
        self,
        workers: Sequence[tuple[UUID, Sequence[int]]],
        lease: timedelta,
        answered: Mapping[UUID, int] = NOTHING_ANSWERED,
    ) -> dict[UUID, Renewal | None]:
        """Renew many leases (worker, its open claims) at once; None for a worker whose lease is over."""

    async def cancellations(self, worker_id: UUID) -> tuple[UUID, ...]:
        """Runs held by this worker that somebody asked to stop."""

    async def cancellations_of(self, worker_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, ...]]:
        """What `cancellations` says, for many workers at once; a worker that is asked nothing is left out."""

    async def unaccounted(self, worker_id: UUID, claim_nos: Sequence[int], run_ids: Sequence[UUID]) -> list[UUID]:
        """The runs that the store has under these claims of the worker, other than these: the worker has reported
        them, or the store has lost what it reported."""

    async def disown(self, worker_id: UUID, run_ids: Sequence[UUID]) -> int:
        """The worker does not hold these runs, though it names their claims: the reaper judges them as lost. Returns
        how many it had, as far as the store knew."""

    async def leave(self, worker_id: UUID) -> None:
        """End a worker's lease; what it still holds becomes free for the reaper."""

    async def worker(self, worker_id: UUID) -> Worker:
        """A worker that has not left. Raises `NotFound`."""

    async def held_runs(self, worker_id: UUID, run_ids: Sequence[UUID]) -> list[Claimed]:
        """Those of the runs that this worker holds now, as it claimed them."""

    async def workers(self, tenant_id: int | None = None) -> list[Worker]:
        """The workers that have neither left nor been reaped: all, or those that work for a tenant."""


class Completions(Protocol):
    async def complete(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        """Apply what a worker reports; each is accepted only while run, fence and worker match.

        An end moves the run to history (and a FAILED one to the dead letters too); a retry or release makes it wait
        again, its `ready_at` stamped anew, with a row in history for the attempt (none for a release without an
        attempt state of its own). One that is handed over stays RUNNING: it leaves its claim, keeps its fence, and
        has a deadline of its own (`finish`). A run that somebody asked to cancel ends CANCELLED instead of going on.
        `closed_claims` are the claim numbers of which nothing is left.
        """

    async def complete_many(
        self, reports: Sequence[tuple[UUID, Sequence[Completion], Sequence[int]]]
    ) -> list[frozenset[UUID]]:
        """What `complete` does, for each (worker, completions, closed claims), in one transaction; returns in their
        order which runs were refused."""

    async def finish(self, run_id: UUID, fence: int, judge: JudgeLost) -> bool:
        """End the attempt with this fence as `judge` says, if it is under way: handed over, or still in the hands of
        its worker, whose own word comes too late then. False when it is over."""

    async def hand_back(self, worker_id: UUID, runs: Sequence[tuple[UUID, int]]) -> int:
        """Make (run, fence) pairs wait again as if they had not been claimed; returns how many."""

    async def held_in_transactions(self, run_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Those of these runs that an open transaction holds, such as one that a task completes its run in: what is
        written to them would wait for its end."""

    async def note(self, worker_id: UUID, notes: Sequence[RunNote]) -> Completed:
        """Remember progress and checkpoints of running attempts, fenced like completions."""


class Reaping(Protocol):
    async def reap(self, limit: int, judge: JudgeLost, overdue: timedelta) -> int:
        """Free runs of workers whose lease is over or whose row is gone, and runs past their timeout by `overdue`;
        and those that were handed over and are past their deadline, or shall be cancelled.

        How long a run has had is counted from its start, or from when its worker's lease was renewed after it was over.
        What was written before the clock was put back is brought to the present first (`shift_back`).

        Waiting runs that have expired before their first start are judged too, within a pass of the walk over all runs
        (`store/rules/strays.py`). They do not count in the result.

        A worker whose lease is over is removed in the same step, whether it holds runs or not: it cannot renew after
        that.

        `judge` decides what follows for each. A run in the middle of its completion is left alone. Returns how many
        runs were judged.
        """


class Control(Protocol):
    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        """No further run; runs that wait end CANCELLED, running ones are asked to stop. Raises `NotFound`."""

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        """End a waiting run as CANCELLED, or ask a running one to stop. Raises `NotFound`."""

    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job:
        """Fire no more until it is resumed. Every run that no worker has held is withdrawn, and owed again, except for
        those that were asked for (a trigger, a backfill). Of a job that runs after another, they are skipped instead.

        Raises `Conflict` for a job that has ended, or whose only run exists already.
        """

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job:
        """Go on from where the cursor was held: what was withdrawn, and what was missed meanwhile, is for the misfire
        policy to decide. No occurrence is lost, and none that has a run is fired again, even if the clock was put back.
        """

    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job:
        """Change a job that has a future; its version is raised, unless nothing changes.

        Another schedule starts from now: waiting runs of the old one are withdrawn, and nothing is owed for the past
        of the new one. Any other change leaves the rhythm, and is taken on by runs that no worker has held and nobody
        asked for; a job that becomes one to decide when it is due takes back a run that was made ahead. State and
        counts stay. Raises `StaleVersion` when `version` is not the current one, `Conflict` as pausing does.
        """

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        """Make an extra run now, without touching the rhythm. The same nonce at the same moment makes the same run.

        With a `request`, here and below, its key is kept in the same transaction: the same request again has no effect
        and gets the first answer, another one under the key raises `KeyReused`, and one whose twin has not committed
        raises `KeyInFlight` without waiting.
        """

    async def backfill_job(
        self,
        tenant_id: int,
        job_id: UUID,
        fires: Sequence[datetime],
        nonce: bytes,
        rate: float,
        request: KeyedRequest | None = None,
    ) -> int:
        """Make a run for each of these moments that is not ahead of now, ready one after the other at `rate` a second;
        returns how many."""


class Calendars(Protocol):
    """Days with a name, for a tenant's jobs to leave out."""

    async def set_calendar(self, tenant_id: int, name: str, dates: Sequence[date]) -> Calendar:
        """Set the dates of a calendar, new or not. When it returns, the cursors of all jobs that use it are computed
        anew: a run made ahead for a day that is left out now is withdrawn, and nothing is owed for the past."""

    async def calendar(self, tenant_id: int, name: str) -> Calendar:
        """One calendar. Raises `NotFound`, for another tenant's calendar too."""

    async def calendars(self, tenant_id: int) -> list[Calendar]:
        """All calendars of a tenant, by name."""

    async def delete_calendar(self, tenant_id: int, name: str) -> None:
        """Remove a calendar. Raises `CalendarInUse` while a job that is not over uses it, and `NotFound`."""


class Recompute(Protocol):
    """Cursors whose rules have changed. Safe on every node at once."""

    async def recompute_calendars(self, limit: int) -> int:
        """Compute the cursors of up to `limit` jobs that an earlier version of a calendar stands behind: those that
        `set_calendar` left when it was interrupted. Returns how many; 0 when none is left but those that this node
        cannot read and another one may."""

    async def report_zones(self, version: str, *, starting: bool) -> bool:
        """A node that goes by this version of the time zone database is alive, or is starting; says whether it has to
        check the cursors with `recompute_zones`: when it starts and another version stands behind some of them, or
        when the last node with another version has been silent for two minutes. Nodes report every half minute."""

    async def recompute_zones(self, version: str, limit: int) -> int:
        """Compute the cursors of the next `limit` recurring jobs anew, if the store's cursors were computed with
        another time zone database than this version. Returns how many were looked at; 0 when all have been, or when a
        live node checks them by another version."""


class Reads(Protocol):
    async def job(self, tenant_id: int, job_id: UUID) -> Job:
        """A job, wherever it lives. Raises `NotFound`, for another tenant's job too."""

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        """A run with its attempts, wherever it lives. Raises `NotFound`, for another tenant's run too."""

    async def runs_of_job(self, tenant_id: int, job_id: UUID, limit: int = 100) -> list[Run]:
        """The runs of a job, newest first."""

    async def counts(self) -> Counts:
        """How many rows each home holds (exact, so not for the hot path)."""


class Pruning(Protocol):
    async def prune(
        self,
        retention: timedelta,
        dead_letter_retention: timedelta,
        batch: int = 1000,
        *,
        idempotency_retention: timedelta = timedelta(days=1),
        now: datetime | None = None,
    ) -> int:
        """Remove what is older than its retention, in small steps; returns rows or partitions removed this time.

        Ages count back from `now`; None: from the store's clock, which may be wrong (`engine/clock_guard.py`).

        A key goes when its job is over and the key is older than `idempotency_retention`: until then an idempotency key
        answers its first request again. (A `key` names its job only while that lives, however long its row stays.)
        Also keeps room for history ahead of time where the store needs it made.
        """


class CallerTransactions(Protocol):
    """What is done inside a transaction that the caller holds open, on the caller's own connection."""

    async def submit_within(self, connection: object, tenant_id: int, job: NewJob) -> UUID:
        """Store a one-off job that commits or rolls back with the caller's transaction; returns its id.

        Raises `InvalidInput` when the connection is not one to this kind of store.
        """

    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        """End a run as SUCCEEDED in the caller's transaction, fenced. Raises `LeaseLost` when it is not accepted."""


@dataclass(eq=False, repr=False)
class Store:
    """All roles of a store, one attribute each. Sealing, observing and quotas replace single roles in a copy of the
    store (`store/wrappers/overlay.py`)."""

    lifecycle: Lifecycle
    intake: Intake
    firing: Firing
    claims: Claims
    leases: Leases
    completions: Completions
    reaping: Reaping
    control: Control
    calendars: Calendars
    recompute: Recompute
    reads: Reads
    pruning: Pruning
    caller_transactions: CallerTransactions
    tenants: Tenants
    allowances: Allowances
    access: Access
    sessions: Sessions
    audit: Audit
    lists: Lists
    figures: Figures
    replay: Replay
    answers: Answers
    queues: Queues
    breakers: Breakers
    clocks: Clocks
    payloads: Payloads
    events: Events
    graphs: Graphs
    notifications: Notifications
    secrets: Secrets
    reencryption: Reencryption
    survey: Surveys
    sealer: Sealer | None = field(default=None, kw_only=True)
    """What its content is encrypted with; None for a store that encrypts nothing."""

    @property
    def embedded(self) -> bool:
        return self.lifecycle.embedded

    async def open(self) -> None:
        await self.lifecycle.open()

    async def close(self) -> None:
        await self.lifecycle.close()

    async def migrate(self) -> list[int]:
        return await self.lifecycle.migrate()

    async def check_schema(self) -> int:
        return await self.lifecycle.check_schema()

    async def now(self) -> datetime:
        return await self.lifecycle.now()

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        return self.lifecycle.listen(callback)

    def companion(self) -> "Store":
        """A store on the same database for another event loop (the heartbeat's); the caller opens and closes it."""
        raise NotImplementedError


ROLES = tuple(each.name for each in fields(Store) if each.name != "sealer")
"""The attributes of a store that are roles."""
