"""What a store guarantees. These docstrings are the contract; one test suite checks it for every store.

A row lives in exactly one home (jobs, runs, history) and moves in one transaction. Times in answers come from the
store's clock, which decides what is due and which lease is over. Every method is atomic. It raises `StoreUnavailable`
when the database cannot be reached or the call can be retried, and `StoreRejected` when the database refuses the rows
themselves. Any number of processes may call all methods concurrently.
"""

from abc import ABC, abstractmethod
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
from duetime.model.defaults import Defaults
from duetime.model.edit import Changes
from duetime.model.firing import Backfill, Decided, DueJob, PassedBy, SetAside
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import Job, NewJob, Submitted
from duetime.model.lane import Lane, LaneChanges, LaneTurn, Look
from duetime.model.worker import PastWorker, Renewal, Seat, Worker, WorkerInfo
from duetime.store.protocol.alert_subjects import AlertSubjects
from duetime.store.protocol.archives import Archives
from duetime.store.protocol.checkins import CheckIns
from duetime.store.protocol.demand import Demand
from duetime.store.protocol.erasures import Erasures
from duetime.store.protocol.exports import Exports
from duetime.store.protocol.graphs import Graphs
from duetime.store.protocol.ready import Ready
from duetime.store.protocol.reencryption import Reencryption
from duetime.store.protocol.service import (
    NOTHING_ANSWERED,
    Access,
    Allowances,
    Answers,
    Audit,
    Breakers,
    BulkActions,
    Clocks,
    Events,
    Figures,
    Issuers,
    JudgeLost,
    Lists,
    Notifications,
    Payloads,
    Queues,
    Replay,
    SearchIndex,
    Secrets,
    Sessions,
    Sources,
    Surveys,
    Tenants,
)
from duetime.store.protocol.streams import Streams
from duetime.store.protocol.trends import Trends
from duetime.store.protocol.usage_counts import UsageCounts
from duetime.store.protocol.waiting import Waiting
from duetime.store.rules.limit_scopes import Rules


class Completed(msgspec.Struct, frozen=True):
    """The completions that were not accepted: another worker holds those runs now, or they have ended."""

    refused: frozenset[UUID] = frozenset()
    over: frozenset[UUID] = frozenset()
    """The refused runs that are known to have ended."""


class Scan(msgspec.Struct, frozen=True):
    """The result of a scan."""

    fired: int
    set_aside: tuple[SetAside, ...]
    seen: int
    """How many cursors were in view, up to the limit."""
    next_in: timedelta | None
    """The time until the next cursor comes into view; None when there is none, or when the limit was reached and more
    cursors may be in view."""
    passed_by: tuple[PassedBy, ...] = ()
    """Jobs that the plan left unchanged for other nodes."""
    held_back: int = 0
    """How many cursors went to their tenant's backlog, because the tenant's fire rate is used up."""
    kept_waiting: bool = False
    """Whether other callers waited for the one writer of an embedded file in the meantime."""


class Counts(msgspec.Struct, frozen=True):
    """How many rows each home holds."""

    jobs: int
    runs: int
    history: int
    dead_letters: int


class Hint(Enum):
    """Why a listener should look now. Hints are coalesced and may be lost; correctness never depends on them."""

    READY = "ready"
    """Runs may have become ready, or will soon."""
    CANCEL = "cancel"
    """The cancellation of a running run was requested."""
    ENDED = "ended"
    """A run has ended that a job or a graph depends on."""


PlanFires = Callable[[Sequence[DueJob], datetime], Sequence[Decided]]


class Lifecycle(Protocol):
    """Opening, closing, and the schema."""

    embedded: bool
    """Whether the database lives in this process: then one store serves all its event loops and threads."""

    async def open(self) -> None:
        """Connect. Raises `StoreUnavailable` when the database cannot be reached; does not check the schema."""

    async def close(self) -> None:
        """Release all resources. Safe to call twice, and on a store that was never opened."""

    async def migrate(self) -> list[int]:
        """Bring the schema to this code's version; returns the versions applied. Concurrent calls are safe.

        If other transactions hold a table that must change, it tries for up to a minute, and names the holders.
        """

    async def check_schema(self) -> int:
        """The schema's version. Raises `SchemaMismatch`, with the command to run, when this code cannot use it."""

    async def now(self) -> datetime:
        """The store's clock."""

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        """Call `callback` on this store's event loop with each hint. Returns a function that stops it."""


class Intake(Protocol):
    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Store all of these jobs, or none; answers in their order.

        A job due within the look-ahead is stored as its run. An idempotency key that was used before with the same
        fingerprint (of the request, if it has one) returns the first job; with another fingerprint it raises
        `KeyReused`. A key of either kind in an uncommitted transaction raises `KeyInFlight` without waiting; `field`
        says which kind. `key` names one live job of the tenant: the same fingerprint changes nothing, another one
        edits the job as `edit_job` does (same id, next version). A one-off whose run exists is replaced in place,
        unless the run has started, which raises `JobBusy`. A calendar that does not exist raises `InvalidInput`. If
        the queue has a stream, a plain job with a nonce raises `QueueChanged` unless it lands: it may be there.
        """

    def note_carried(self, count: int, seconds: float) -> None:
        """So many jobs were accepted by a stream instead, in this time: the store does nothing, its observers count."""

    async def known_keys(
        self, tenant_id: int, keys: Collection[tuple[str, str]], *, certain: bool = False
    ) -> frozenset[tuple[str, str]]:
        """Those of these keys, as (kind, key) of `store/rules/caller_keys.py`, that lead to an earlier request or to a
        job that is not over: a submission with one of them adds no job. With `certain`, a key in an uncommitted
        transaction raises `KeyInFlight`."""


class Firing(Protocol):
    async def fire_due(self, limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
        """Fire up to `limit` cursors in view, as `plan` decides, in one transaction.

        No occurrence is fired twice, also by concurrent nodes. Cursors that another node has locked are skipped, and
        so are jobs whose live run would be replaced while another transaction holds that run.

        A job that the plan sets aside is paused at its cursor: when it is resumed, the misfire policy applies to
        everything from there on, as after any pause. A job that the plan passes by stays unchanged. The jobs in
        `without` are skipped, and do not count towards the limit.
        """

    async def unblock(self, limit: int) -> int:
        """Make runs ready that waited for other runs of their job, once those have ended; returns how many.

        Also runs that wait for a free slot of a key, if no call has freed them for seconds: no run waits forever.
        """


class Claims(Ready, Protocol):
    async def lanes(self) -> list[Lane]:
        """The lanes that are awake, in order of id: all lanes with runs, and lanes that had runs a moment ago."""

    async def lane_changes(self, after: LaneTurn) -> LaneChanges:
        """The lanes that woke or fell asleep after a turn; after `NO_TURN`, or a turn that is no longer kept, all awake
        lanes, and `rewound` if the database was reset to a state before that turn.
        """

    async def tidy_lanes(self) -> int:
        """Let lanes without runs fall asleep, some calls and seconds after their last run; returns how many.

        A lane is woken before a run is stored in it. Ids are never reused.
        """

    async def paused_lanes(self) -> frozenset[int]:
        """The lanes of paused queues and suspended tenants, which no worker may claim from.

        Claimers call this at least once a second.
        """

    async def rules(self) -> Rules:
        """The weights of tenants, and the limits that are set. Claimers call this at least once a second."""

    async def look(self, lane_ids: Sequence[int], depth: int) -> Look:
        """The first `depth` unclaimed runs of each lane that are ready, and unless there are so many, the one that is
        ready next. Lanes without unclaimed runs are omitted."""

    async def claim(self, worker_id: UUID, claim_no: int, takes: Sequence[tuple[int, int]]) -> list[Claimed]:
        """Lease up to `take` ready runs of each (lane, take), earliest `ready_at` first, then by id.

        No run is leased twice at once. A worker's claim numbers count up from 1; `renew(answered=0)` reports that it
        has received no answer. A repeated `claim_no` returns the same runs, if they were claimed. A worker whose lease
        is over gets nothing, and a worker that is bound to a tenant gets only runs of that tenant.

        No limit of a tenant, queue or key is exceeded, also by concurrent claims. A run whose key has no free slot
        leaves its lane until there is one; a run whose rate is used up waits until the rate allows it.
        """

    async def claim_many(self, seats: Sequence[Seat], takes: Sequence[tuple[int, int]]) -> dict[UUID, list[Claimed]]:
        """Lease up to `take` ready runs of each (lane, take), and deal them to the seats in order, each up to its room.

        What `claim` promises holds for each seat: no run is leased twice, asking again with the same number returns the
        same runs, a worker whose lease is over gets nothing, and one that is bound to a tenant or to queues gets
        nothing from other lanes. Seats of different tenants must not be mixed. Every seat is in the answer.
        """

    async def release(self, worker_id: UUID, claim_nos: Sequence[int]) -> int:
        """Undo the claims with these numbers; returns how many runs wait again.

        For a worker that leaves without knowing what it has claimed: a claim with one of these numbers that arrives
        later gets nothing.
        """


class Leases(Protocol):
    async def register(self, worker: WorkerInfo, lease: timedelta) -> datetime:
        """Begin a worker's lease; returns its end. The defaults of its tasks are kept after the worker is gone."""

    async def renew(self, worker_id: UUID, lease: timedelta, open_claims: Sequence[int], answered: int = 0) -> Renewal:
        """Extend the lease, from now. Raises `LeaseLost` when the worker was reaped, has left or is unknown.

        A lease that is over, but was not reaped, is extended like any other: a forward clock step takes nothing from
        live workers. For `reap`, the timeouts of the worker's runs start anew then.

        Claims that are older than a lease and that the worker does not list are freed without spending an attempt: it
        does not hold them. It has received the answers to claims up to `answered`, so their runs may have started: the
        reaper treats those as lost.
        """

    async def renew_many(
        self,
        workers: Sequence[tuple[UUID, Sequence[int]]],
        lease: timedelta,
        answered: Mapping[UUID, int] = NOTHING_ANSWERED,
    ) -> dict[UUID, Renewal | None]:
        """Renew many leases (worker, its open claims) at once; None for a worker whose lease is over."""

    async def cancellations(self, worker_id: UUID) -> tuple[UUID, ...]:
        """The runs of this worker whose cancellation was requested."""

    async def cancellations_of(self, worker_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, ...]]:
        """What `cancellations` says, for many workers at once; a worker that is asked nothing is left out."""

    async def unaccounted(self, worker_id: UUID, claim_nos: Sequence[int], run_ids: Sequence[UUID]) -> list[UUID]:
        """The runs of these claims, other than `run_ids`: the worker has reported them, or the store has lost its
        report."""

    async def disown(self, worker_id: UUID, run_ids: Sequence[UUID]) -> int:
        """Record that the worker does not hold these runs, though it lists their claims: the reaper treats them as
        lost. Returns how many of them the store had assigned to it."""

    async def record_consumed(self, worker_id: UUID, streams: Collection[str]) -> None:
        """Record which streams a worker consumes, instead of what was recorded before."""

    async def leave(self, worker_id: UUID) -> None:
        """End a worker's lease. The reaper frees the runs that it still holds."""

    async def worker(self, worker_id: UUID) -> Worker:
        """A worker that has not left. Raises `NotFound`."""

    async def held_runs(self, worker_id: UUID, run_ids: Sequence[UUID]) -> list[Claimed]:
        """Those of the runs that this worker holds now, as it claimed them."""

    async def past_workers(self, tenant_id: int) -> list[PastWorker]:
        """The workers that worked for a tenant and left or were lost within a day, newest first, with what became of
        the tenant's runs that they held."""

    async def workers(self, tenant_id: int | None = None) -> list[Worker]:
        """The workers that have neither left nor been reaped: all, or those that work for a tenant."""


class Completions(Protocol):
    async def complete(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        """Apply a worker's completions. Each is accepted only while run, fence and worker match.

        An end moves the run to history, and a FAILED run also to the dead letters. A retry or release makes the run
        wait again with a new `ready_at`, and adds a row to history for the attempt (not for a release without an
        attempt state). A run that is handed over stays RUNNING: it leaves its claim, keeps its fence, and has its own
        deadline (`finish`). A run whose cancellation was requested ends CANCELLED instead of continuing.
        `closed_claims` are the claim numbers that have no runs left.
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
        """Undo the claims of these (run, fence) pairs; returns how many. The runs wait again, unless their job is
        paused: then those that have not started are withdrawn."""

    async def held_in_transactions(self, run_ids: Sequence[UUID]) -> frozenset[UUID]:
        """The runs among these that an open transaction holds, such as one in which a task completes its run: a write
        to them would wait for its end."""

    async def note(self, worker_id: UUID, notes: Sequence[RunNote]) -> Completed:
        """Store progress and checkpoints of running attempts, fenced like completions."""


class Reaping(Protocol):
    async def reap(self, limit: int, judge: JudgeLost, overdue: timedelta) -> int:
        """Free the runs of workers whose lease is over or whose row is gone, runs past their timeout by `overdue`, and
        runs that were handed over and are past their deadline or to be cancelled.

        A run's time counts from its start, or from the moment when its worker renewed a lease that was over. Times
        that were written before the clock was set back are corrected first (`shift_back`).

        Waiting runs that have expired before their first start are judged too, within a pass of the walk over all runs
        (`store/rules/strays.py`). They do not count in the result.

        A worker whose lease is over is removed in the same step, whether it holds runs or not: it cannot renew after
        that.

        `judge` decides the completion of each run. A run that is being completed is skipped. Returns how many runs
        were judged.
        """


class Control(Protocol):
    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        """Make no further runs. Waiting runs end CANCELLED, running ones are asked to stop. Raises `NotFound`."""

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        """End a waiting run as CANCELLED, or ask a running one to stop. Raises `NotFound`."""

    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job:
        """Stop firing until the job is resumed. Runs that have not started are withdrawn, and owed again, except for
        requested ones (a trigger, a backfill). What a worker holds is withdrawn when it comes back unstarted. For a job
        that runs after another, they are skipped instead.

        Raises `Conflict` for a job that has ended, or a one-off whose run exists.
        """

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job:
        """Continue at the cursor where the job was paused. The misfire policy decides about withdrawn and missed
        occurrences. No occurrence is lost, and none that has a run is fired again, even if the clock was set back.
        """

    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job:
        """Change a job that has not ended. Its version increases, unless nothing changes.

        A new schedule starts from now: waiting runs of the old one are withdrawn, and nothing is owed for the past of
        the new one. Any other change keeps the schedule, and also applies to runs that no worker has held, except for
        requested ones. A run that was made ahead is withdrawn if the changed job must be decided when it is due. State
        and counts stay. Raises `StaleVersion` when `version` is not the current one, and `Conflict` as pausing does.
        """

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        """Make an extra run now; the schedule stays unchanged. The same nonce at the same moment makes the same run.

        With a `request`, here and below, its key is stored in the same transaction: the same request again has no
        effect and gets the first answer, another request with this key raises `KeyReused`, and a request whose
        duplicate has not committed raises `KeyInFlight` without waiting.
        """

    async def backfill_job(
        self, tenant_id: int, job_id: UUID, backfill: Backfill, nonce: bytes, request: KeyedRequest | None = None
    ) -> int:
        """Make a run for each of these moments that is not in the future. They become ready one after the other at
        `rate` a second. Returns how many."""


class Calendars(Protocol):
    """Named sets of days that a tenant's jobs can exclude."""

    async def set_calendar(self, tenant_id: int, name: str, dates: Sequence[date]) -> Calendar:
        """Create or replace a calendar. When it returns, the cursors of all jobs that use it are recomputed: a run made
        ahead for a day that is now excluded is withdrawn, and nothing is owed for the past."""

    async def calendar(self, tenant_id: int, name: str) -> Calendar:
        """One calendar. Raises `NotFound`, also for another tenant's calendar."""

    async def calendars(self, tenant_id: int) -> list[Calendar]:
        """All calendars of a tenant, by name."""

    async def delete_calendar(self, tenant_id: int, name: str) -> None:
        """Remove a calendar. Raises `CalendarInUse` while a job that has not ended uses it, and `NotFound`."""


class Recompute(Protocol):
    """Cursors whose rules have changed. Safe on every node at once."""

    async def recompute_calendars(self, limit: int) -> int:
        """Recompute up to `limit` cursors that were computed with an earlier version of a calendar: those that an
        interrupted `set_calendar` left. Returns how many; 0 when none is left, except for jobs that this node cannot
        read and another one may."""

    async def report_zones(self, version: str, *, starting: bool) -> bool:
        """Report that a node with this version of the time zone database is alive, or is starting. Returns whether it
        must call `recompute_zones`: when it starts and some cursors were computed with another version, or when the
        last node with another version has been silent for two minutes. Nodes report every half minute."""

    async def recompute_zones(self, version: str, limit: int) -> int:
        """Recompute the cursors of the next `limit` recurring jobs, if the store's cursors were computed with another
        version of the time zone database. Returns how many were checked; 0 when all have been, or while a live node
        checks them with another version."""


class Reads(Protocol):
    async def job(self, tenant_id: int, job_id: UUID) -> Job:
        """A job from any home. Raises `NotFound`, also for another tenant's job."""

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        """A run with its attempts from any home. Raises `NotFound`, also for another tenant's run."""

    async def runs_of_job(self, tenant_id: int, job_id: UUID, limit: int = 100) -> list[Run]:
        """The runs of a job, newest first."""

    async def counts(self) -> Counts:
        """How many rows each home has. Exact, and therefore not for the hot path."""


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
        """Remove rows that are older than their retention, in small steps; returns how many rows or partitions.

        Ages count from `now`; None: from the store's clock, which may be wrong (`engine/clock_guard.py`).

        A key is removed when its job has ended and the key is older than `idempotency_retention`: until then an
        idempotency key returns the first answer. (A `key` names its job only while the job lives, however long its row
        stays.) Also creates partitions of history in advance if the store needs them.
        """

    async def retentions_of_jobs(self) -> Mapping[int, Sequence[int]]:
        """For how many days jobs keep runs that ended on a day, where that differs from all others, by the day."""


class CallerTransactions(Protocol):
    """Calls inside a transaction of the caller, on the caller's own connection."""

    async def submit_within(self, connection: object, tenant_id: int, job: NewJob) -> UUID:
        """Store a one-off job that commits or rolls back with the caller's transaction; returns its id.

        Raises `InvalidInput` if the store does not support this kind of connection.
        """

    async def defaults_within(self, connection: object, tenant_id: int) -> Defaults:
        """The default options of the tenant's jobs, read on the caller's connection."""

    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        """End a run as SUCCEEDED in the caller's transaction, fenced. Raises `LeaseLost` when it is refused."""


@dataclass(eq=False, repr=False)
class Store(ABC):
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
    archives: Archives
    erasures: Erasures
    usage_counts: UsageCounts
    exports: Exports
    caller_transactions: CallerTransactions
    tenants: Tenants
    allowances: Allowances
    access: Access
    sessions: Sessions
    audit: Audit
    lists: Lists
    waiting: Waiting
    figures: Figures
    demand: Demand
    trends: Trends
    replay: Replay
    answers: Answers
    queues: Queues
    breakers: Breakers
    clocks: Clocks
    payloads: Payloads
    events: Events
    graphs: Graphs
    notifications: Notifications
    alert_subjects: AlertSubjects
    checkins: CheckIns
    sources: Sources
    issuers: Issuers
    bulk: BulkActions
    search: SearchIndex
    secrets: Secrets
    reencryption: Reencryption
    streams: Streams
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

    @abstractmethod
    def companion(self) -> "Store":
        """A store on the same database for another event loop (the heartbeat's); the caller opens and closes it."""


ROLES = tuple(each.name for each in fields(Store) if each.name != "sealer")
"""The attributes of a store that are roles."""
