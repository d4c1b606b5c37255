"""What a store guarantees to the service around it: tenants, keys, lists, queues, payloads, events.

The rules of `store.py` hold here too: the docstrings are the contract, each method is atomic, and the store's clock
decides. Where a method takes a `tenant_id`, another tenant's objects behave exactly as missing ones.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple, Protocol
from uuid import UUID

from duetime.crypto.envelope import WrappedKey
from duetime.model.access import ApiKey, NewKey
from duetime.model.alert import Alert, AlertRule
from duetime.model.attempt import Completion, Run
from duetime.model.audit import Audited, AuditEntry
from duetime.model.breaker import Breaker, BreakerPolicy, BreakerState, Tally
from duetime.model.bulk import Bulk, BulkStep, NewBulk
from duetime.model.defaults import Defaults
from duetime.model.event import Event, EventKind, EventMark
from duetime.model.idempotency import KeyedRequest
from duetime.model.issuer import Issuer, StoredIssuer
from duetime.model.lane import Tier
from duetime.model.limits import QueueLimits
from duetime.model.lists import (
    DeadFilter,
    DeadGroups,
    DeadLetter,
    JobFilter,
    JobItem,
    JobReport,
    JobsByName,
    NamePlace,
    Page,
    Replayed,
    ReplayPace,
    RunEnd,
    RunFilter,
    RunItem,
)
from duetime.model.notification import RunNews, Subscription
from duetime.model.overview import Ahead, AheadPage, Recent, Standing
from duetime.model.scope import Facts
from duetime.model.secret import SecretBinding, SecretInfo, SigningSecret, StoredSecret
from duetime.model.session import NewSession, Opened, Session, SessionScope
from duetime.model.source import Source, SourceProgress, StoredSource
from duetime.model.tenant import NewTenant, Queue, QueueHead, TaskInfo, Tenant, TenantChange
from duetime.model.token_bucket import TokenAsk, TokenGrant
from duetime.model.worker import Lost

JudgeLost = Callable[[Sequence[Lost]], Sequence[Completion]]


class Tenants(Protocol):
    """The limits of a tenant on rows that are not in `ESTIMATED` hold for every method of a store that adds such a row:
    it raises `QuotaExceeded`, and nothing is stored, once the tenant has as many as it may have."""

    async def create_tenant(self, tenant: NewTenant) -> Tenant:
        """Add a tenant. Raises `NameTaken`."""

    async def tenant(self, name: str) -> Tenant:
        """A tenant by its name. Raises `NotFound`."""

    async def tenant_by_id(self, tenant_id: int) -> Tenant:
        """A tenant by its number, as keys and rows have it. Raises `NotFound`."""

    async def tenants(self, after: int = 0, limit: int = 100) -> list[Tenant]:
        """The tenants with an id above `after`, in order of id."""

    async def update_tenant(self, tenant_id: int, change: TenantChange) -> Tenant:
        """Change what is given. Raises `NotFound`, `NameTaken`."""

    async def change_defaults(self, tenant_id: int, change: Callable[[Defaults], Defaults]) -> Tenant:
        """Replace the default options of the tenant's jobs by what `change` makes of the current ones, however other
        changes race. Nothing changes if it raises, and it may be called again. Raises `NotFound`."""

    async def usage(self, tenant_id: int, kind: str, most: int) -> int:
        """How much the tenant has of a kind that is checked against an estimate (`ESTIMATED`), counted up to `most`.

        It reads up to `most` index entries (all rows, for bytes), so it is called now and then, never for each
        submission.
        """

    async def encrypting_tenants(self) -> frozenset[int]:
        """The tenants whose content is encrypted (`encrypt_args`)."""

    async def tenants_of_runs(self, run_ids: Sequence[UUID]) -> dict[UUID, int]:
        """The tenant of each of these runs. Runs that are not live are omitted."""

    async def secret(self, name: str, fresh: bytes) -> bytes:
        """A secret that all nodes share (to sign cursors). The first call stores `fresh`; every call returns that
        value."""


class Allowances(Protocol):
    async def take_tokens(self, asks: Sequence[TokenAsk]) -> list[TokenGrant]:
        """Take tokens out of buckets that all nodes share, each as `model/token_bucket.py` defines, in the order of
        the asks. No token is granted twice, also to concurrent callers. A bucket that was never used is full."""


class Access(Protocol):
    async def create_key(self, key: NewKey) -> ApiKey:
        """Add a key."""

    async def keys(self, tenant_id: int | None, after: UUID | None = None, limit: int = 100) -> list[ApiKey]:
        """The keys of a tenant, or (None) the root keys, oldest first; revoked and expired ones too."""

    async def key_by_hash(self, hash: bytes) -> ApiKey | None:
        """The key whose text has this hash, if it may be used now: not revoked, not expired. One index probe."""

    async def revoke_key(self, tenant_id: int | None, key_id: UUID) -> ApiKey:
        """Revoke a key and its sessions. Idempotent. Raises `NotFound`, and `Conflict` for the last usable root key: of
        two root keys that revoke each other at once, one stays."""

    async def rotate_key(
        self, tenant_id: int | None, key_id: UUID, successor: Callable[[ApiKey], NewKey], overlap: timedelta
    ) -> ApiKey:
        """Add a successor with the role, tenant, queues and scope of a key. The old key works for another `overlap`.

        `successor` gets the old key, and may raise. Of its result, only id, hash, hint, name, expiry and networks are
        used. Raises `NotFound`, and `Conflict` for a revoked or expired key.
        """

    async def touch_keys(self, key_ids: Sequence[UUID]) -> None:
        """Record that these keys were used about now. Written at most once a minute for each key."""


class Sessions(Protocol):
    """Browser sessions of API keys and of people. The store knows tokens only by their hashes."""

    async def begin_session(self, session: NewSession, lifetime: timedelta, idle: timedelta) -> Session | None:
        """Begin a session of a key, or of a person; None when the key cannot be used, or a session with this id exists.
        It ends after `lifetime`, or earlier after `idle` without use. If the key or the person would have more than
        `MOST_SESSIONS`, the oldest sessions end."""

    async def session_of(self, hash: bytes) -> Opened | None:
        """The session whose token has this hash, with its key or person, while both can be used. Two index probes."""

    async def sessions(self, scope: SessionScope, before: UUID | None = None, limit: int = 100) -> list[Session]:
        """The sessions that have not ended, newest first, below the id `before`."""

    async def touch_sessions(self, session_ids: Sequence[UUID], idle: timedelta) -> None:
        """Record that these sessions were used about now: they last for another `idle`. Written at most once a minute
        for each session. An ended session stays ended."""

    async def end_session(self, scope: SessionScope, session_id: UUID) -> Session:
        """End a session. Raises `NotFound` if it has ended, or is outside the scope."""

    async def end_session_of(self, hash: bytes) -> bool:
        """End the session whose token has this hash; returns whether there was one."""

    async def add_login_link(self, key_id: UUID, hash: bytes, lasts: timedelta) -> datetime | None:
        """Add a token that can begin one session of a key, and return when it expires; None when the key cannot be
        used. If the key would have more than `MOST_LINKS`, its oldest links are removed."""

    async def take_login_link(self, hash: bytes) -> ApiKey | None:
        """Consume a link and return its key; None if the link was used or has expired, or the key cannot be used."""


class Audit(Protocol):
    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """Append entries that the audit log does not have yet. No method or statement can change or remove an entry."""

    async def audit(self, tenant_id: int | None, before: UUID | None = None, limit: int = 100) -> list[Audited]:
        """The entries of a tenant, or (None) of all and of none, newest first, below the id `before`."""


class Lists(Protocol):
    async def list_jobs(
        self, tenant_id: int, filter: JobFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[JobItem]:
        """A page of jobs, newest first by id, from all homes in one snapshot: a job that moves between homes appears
        exactly once. The cost of a page is bounded; see `model/lists.py`. Deleted jobs are omitted."""

    async def list_jobs_by_name(
        self, tenant_id: int, filter: JobFilter, after: NamePlace | None = None, limit: int = 50, *, down: bool = False
    ) -> JobsByName:
        """A page of the jobs that have a name, by name in the database's order, then by id; with `down` the other way
        round. As bounded as `list_jobs`. The filter has no search, no labels and no ids."""

    async def list_runs(
        self, tenant_id: int, filter: RunFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[RunItem]:
        """A page of runs, newest first by id (so by the time they were due), from both homes in one snapshot."""

    async def list_dead_letters(
        self, tenant_id: int, filter: DeadFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[DeadLetter]:
        """A page of dead letters, newest first by the id of their run."""

    async def group_dead_letters(self, tenant_id: int, limit: int = 50, most: int = 100_000) -> DeadGroups:
        """The newest `most` dead letters, grouped by what went wrong."""

    async def job_status(self, tenant_id: int, job_id: UUID) -> JobReport:
        """The status of a job. Raises `NotFound`."""

    async def facts_of_jobs(self, tenant_id: int, job_ids: Collection[UUID]) -> dict[UUID, Facts]:
        """What decides whether these jobs are in a scope. A job that does not exist, or was deleted, has no owner, no
        tags and no queue, or is omitted."""

    async def jobs_of_runs(self, tenant_id: int, run_ids: Collection[UUID]) -> dict[UUID, UUID]:
        """The job of each of these runs. Runs that do not exist, or are only in the archive, are omitted."""


class Figures(Protocol):
    """Sums and samples for dashboards. Each has a bounded cost, and says whether it is exact."""

    async def recent(self, tenant_id: int, window: timedelta, step: timedelta) -> Recent:
        """The runs that ended in the window before now, by steps. Reads history from its newest row, up to a bound."""

    async def standing(self, tenant_id: int) -> Standing:
        """How many jobs, running runs and dead letters there are, up to a cap, and how many due runs wait."""

    async def ahead(self, tenant_id: int, start: datetime, step: timedelta, steps: int) -> Ahead:
        """The schedules of the tenant's jobs, and the existing runs that are due in each of `steps` intervals: of all
        jobs, or of a random sample if there are too many. Rows of other tenants have no influence on it."""

    async def ahead_page(
        self, tenant_id: int, start: datetime, end: datetime, before: UUID | None, most: int
    ) -> AheadPage:
        """The same for the tenant's newest `most` jobs below the id `before`, and which of them have an existing run
        that is due in this interval."""

    async def recent_runs(self, tenant_id: int, job_ids: Sequence[UUID], most: int) -> dict[UUID, list[RunEnd]]:
        """How the last runs of each of these jobs ended, newest first; nothing for a job that does not exist."""


class Replay(Protocol):
    """Retry, replay, discard and delete."""

    async def delete_job(self, tenant_id: int, job_id: UUID) -> None:
        """Delete a job. It makes no further runs, waiting runs end CANCELLED, and running ones are asked to stop. Its
        runs stay in history. Raises `NotFound`."""

    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        """Retry a run. A RETRYING run becomes ready now. A run that ended FAILED, CANCELLED or SKIPPED gets a new run,
        due now, whose options name it (`replays`); its dead letter is removed. An occurrence that made no run is
        replayed with the job's current options. A run is replayed once: if this method or `replay_dead_letters` has
        replayed it before, the answer is that replay.

        Raises `NotFound`, and `Conflict` for a run in any other state, or of a job that was deleted.
        """

    async def replay_dead_letters(
        self, tenant_id: int, filter: DeadFilter, pace: ReplayPace, nonce: bytes, request: KeyedRequest | None = None
    ) -> Replayed:
        """Repeat dead letters that match, oldest first, by new runs that become ready at `rate` a second, from `delay`
        on, so that several calls together can keep to one rate.

        Each dead letter is replayed once, also by concurrent calls. Dead letters of deleted jobs are skipped.
        """

    async def discard_dead_letters(self, tenant_id: int, filter: DeadFilter, limit: int = 1000) -> int:
        """Remove dead letters that match, oldest first; returns how many."""


class Answers(Protocol):
    """Requests with idempotency keys whose responses the service stores separately from their effects."""

    async def begin_request(self, tenant_id: int, request: KeyedRequest) -> bytes | None:
        """Reserve the key for this request; None when it is new, else the stored response to the same request.

        Raises `KeyReused` if the key was used with another request, and `KeyInFlight` while the first request runs.
        """

    async def end_request(self, tenant_id: int, request: KeyedRequest, answer: bytes | None) -> None:
        """Store the response to a request that has begun; or (None) delete the request, because it had no effect."""


class Queues(Protocol):
    async def pause_queue(self, tenant_id: int, queue: str) -> Queue:
        """Start no more runs of a queue, which need not exist yet. Running runs continue. Idempotent."""

    async def resume_queue(self, tenant_id: int, queue: str) -> Queue:
        """Start runs of the queue again. Idempotent."""

    async def limit_queue(self, tenant_id: int, queue: str, limits: QueueLimits) -> Queue:
        """Set all limits of a queue. They apply on all nodes within a second. Running runs continue."""

    async def queue(self, tenant_id: int, queue: str, cap: int = 10_000) -> Queue:
        """One queue, paused or not. A queue that was never used is empty."""

    async def queues(self, tenant_id: int, cap: int = 10_000) -> list[Queue]:
        """The queues of a tenant by name, with their waiting runs, counted up to `cap` for each lane."""

    async def queue_heads(self, tenant_id: int, since: datetime, queue: str | None = None) -> dict[str, QueueHead]:
        """The due runs that wait in each queue that has any, with those due since a moment, up to a cap."""

    async def tasks(self, tenant_id: int, name: str | None = None) -> list[TaskInfo]:
        """The tasks that live workers have for this tenant, by name, or one of them."""

    async def task_names(self, tenant_id: int) -> frozenset[str]:
        """The names of these tasks."""

    async def task_defaults(self, tenant_id: int) -> dict[str, Defaults]:
        """The job defaults of tasks, by name, as the last worker that registered them declared, alive or not. Tasks
        without defaults are omitted."""

    async def task_schemas(self, tenant_id: int, name: str | None = None) -> dict[str, str]:
        """The digests of the argument schemas of tasks, by name, declared like the defaults."""

    async def schemas(self, tenant_id: int, digests: Sequence[str]) -> dict[str, bytes]:
        """Declared schemas by their digests. One that was replaced meanwhile is missing."""


class Breakers(Protocol):
    """Circuit breakers of targets, shared by all nodes."""

    async def report_attempts(self, tallies: Sequence[Tally], policy: BreakerPolicy) -> list[Breaker]:
        """Count the results of attempts, and let breakers open, probe or recover by the policy. Returns the state of
        each of these targets, with the counts of all nodes within the window."""

    async def advance_breakers(self) -> int:
        """Move breakers whose time is over: from open to probing, from recovering to closed. Returns how many."""

    async def breakers(self, tenant_id: int) -> list[Breaker]:
        """The breakers of a tenant that are not closed, or whose target was tried within the window; by target."""

    async def reset_breaker(self, tenant_id: int, target: str) -> Breaker:
        """Close a breaker now, and reset its counts."""


NOTHING_ANSWERED: Mapping[UUID, int] = MappingProxyType({})
"""The default of `renew_many`: it is unknown which answers the workers have received."""


class TableFigures(NamedTuple):
    name: str
    rows: int
    """An estimate, or a count up to a cap."""
    size: int | None = None
    """Bytes, with indexes; None if the store does not know the size of a single table."""


class Survey(NamedTuple):
    """The size of the database, and what waits in it."""

    waiting: Mapping[Tier, int]
    """Due runs that no worker has claimed."""
    dead_letters: int
    tables: tuple[TableFigures, ...]
    size: int
    """Bytes, of all tables together."""
    breakers: Mapping[BreakerState, int]
    """Breakers that are not closed."""


class Rewind(NamedTuple):
    """The database went back to an earlier state: a standby without the last commits took over, or a backup was
    restored."""

    at: datetime
    """When a node noticed it."""
    lost: datetime
    """The last observation of a node that the database has lost."""
    kept: datetime | None
    """The last observation that it still has. What was committed between the two is lost."""


class ClockSeen(NamedTuple):
    """The store's clock, and what the nodes have observed; None: nothing yet."""

    now: datetime
    seen_at: datetime | None
    """The time at the last observation by a node."""
    stepped_at: datetime | None
    """The time at the first observation after a step forward, or after a long gap without observations."""
    trusted_at: datetime | None
    """The time from which the pruner counts ages."""
    served_at: datetime | None = None
    """The time at the last observation by an API server."""
    served_since: datetime | None = None
    """The time at the first observation by an API server after a long gap without any, or after a clock step."""
    readings: int = 0
    """How many observations the nodes have stored. The number never falls, unless the database goes back."""
    rewind: Rewind | None = None
    """The last time that the database went back."""


class Clocks(Protocol):
    """Observations of the store's clock, for the guard against clock steps (`engine/clock_guard.py`)."""

    async def clock_seen(self) -> ClockSeen:
        """The clock, and what the nodes have observed."""

    async def keep_clock_seen(self, seen_at: datetime, *, stepped: bool) -> int:
        """Store a node's observation, and whether the clock had stepped forward before it; returns how many there are
        now."""

    async def keep_rewind(self, rewound_at: datetime, rewound_from: datetime) -> None:
        """Store that a node found the database in an earlier state, and the last observation that is lost."""

    async def keep_trusted(self, trusted_at: datetime, seen_at: datetime) -> None:
        """Store the time from which ages are counted, while the clock shows `seen_at`."""

    async def keep_served(self, gap: timedelta) -> None:
        """Store that an API server is up. After more than `gap` without one, `served_since` begins anew."""

    async def shift_back(self) -> None:
        """Move intervals that begin after now so that they begin now, with the same length: leases, claims, handovers,
        breakers, starts that count for a rate. Such rows were written before the clock was set back."""


class Surveys(Protocol):
    async def survey(self, cap: int = 10_000) -> Survey:
        """The contents of the whole database: estimates, or counts up to `cap`, so that the cost does not grow."""

    def connections(self) -> tuple[int, int]:
        """The number of database connections in use, and the maximum."""


class Payloads(Protocol):
    """Bytes that jobs refer to. The store does not know their meaning, or whether they are encrypted."""

    async def put_payload(self, tenant_id: int, payload_id: UUID, body: bytes) -> None:
        """Store bytes under a new id. They stay while a job's options refer to it (`pay_…`)."""

    async def payload(self, tenant_id: int, payload_id: UUID) -> bytes:
        """The bytes. Raises `NotFound`."""

    async def held_payload(self, worker_id: UUID, payload_id: UUID) -> tuple[int, bytes]:
        """Their tenant and the bytes, for a worker that holds a run of a job that refers to them. Raises `NotFound`."""

    async def drop_payload(self, tenant_id: int, payload_id: UUID) -> None:
        """Erase it, even if jobs refer to it. Raises `NotFound`."""


class Secrets(Protocol):
    """Secrets of tenants, and wrapped keys, as opaque bytes: the caller encrypts them."""

    async def data_keys(self) -> list[WrappedKey]:
        """The wrapped data keys of the database, newest first."""

    async def add_data_key(self, name: str, wrapped_by: str, wrapped: bytes) -> None:
        """Store a new data key."""

    async def rewrap_data_key(self, name: str, old: bytes, wrapped_by: str, wrapped: bytes) -> None:
        """Replace the wrapping of a data key, unless another caller has replaced `old` in the meantime."""

    async def put_secret(self, tenant_id: int, name: str, value: bytes, binding: SecretBinding) -> datetime:
        """Create or replace a secret; returns the time of the change."""

    async def tenant_secrets(self, tenant_id: int) -> list[SecretInfo]:
        """The secrets of a tenant by name, without their values."""

    async def tenant_secret(self, tenant_id: int, name: str) -> StoredSecret:
        """A secret. Raises `NotFound`."""

    async def drop_secret(self, tenant_id: int, name: str) -> None:
        """Remove it. Raises `NotFound`."""

    async def signing_secrets(self, tenant_id: int) -> list[SigningSecret]:
        """The secrets that sign a tenant's requests now, newest first, ten at most."""

    async def add_signing_secret(
        self, tenant_id: int, secret_id: UUID, value: bytes, overlap: timedelta | None
    ) -> SigningSecret:
        """Add a signing secret. The others sign for another `overlap`; with None, add it only if the tenant has none.
        Returns the newest."""


class Events(Protocol):
    """The event log. Stores write to it only while a listener exists, so that it costs nothing otherwise."""

    async def keep_listening(self, period: timedelta) -> EventMark:
        """Write events for at least `period` from now. Returns the position after which new ones appear."""

    async def append_events(self, kind: EventKind, tenant_id: int, ids: Sequence[UUID]) -> None:
        """Append an event that no change of a row causes."""

    async def events(self, after: EventMark, limit: int = 1000) -> list[Event]:
        """The events after a position, in order. An event that commits later never comes before one that was read, and
        no event waits for another transaction."""


class HearingRule(NamedTuple):
    tenant_id: int
    rule: AlertRule
    good_at: datetime | None
    """The last success that was recorded for it."""


class Notifications(Protocol):
    """Subscriptions of tenants, the position up to which events were sent, and the figures that alert rules watch."""

    async def put_subscription(self, tenant_id: int, subscription: Subscription) -> None:
        """Create or replace a subscription. Everything that commits after this call is notified, even if no node is
        running at that time."""

    async def subscriptions(self, tenant_id: int | None = None) -> list[tuple[int, Subscription]]:
        """The subscriptions of a tenant, or (None) of all tenants, each with its tenant."""

    async def delete_subscription(self, tenant_id: int, name: str) -> None:
        """Remove a subscription. Raises `NotFound`."""

    async def take_notifying(self, holder: UUID, period: timedelta) -> EventMark | None:
        """Become the notifier for `period`: the position up to which all notifications were sent. None without
        subscriptions, or while another node is the notifier."""

    async def notified(self, until: EventMark) -> None:
        """Record that everything up to this position was sent. The position never moves back."""

    async def news_of_runs(
        self, tenant_id: int, run_ids: Sequence[UUID], *, started: datetime | None = None, ended: datetime | None = None
    ) -> list[RunNews]:
        """What notifications say about these runs: about the attempt that started, or ended, at a moment, whatever
        happened to the run since; without a moment, about their state now. Runs that were pruned are omitted."""

    async def slow_runs(self) -> list[tuple[int, UUID]]:
        """The runs, each with its tenant, that have been running for longer than their job's `warn_after`."""

    async def count_dead_letters(self, tenant_id: int, queue: str | None, cap: int) -> int:
        """How many dead letters there are, counted up to `cap`."""

    async def count_ready(self, tenant_id: int, queue: str | None, cap: int, *, without: str) -> int:
        """How many ready runs of a tenant, or of one of its queues, wait for a worker: up to a cap in each lane, and
        none of the queue `without`."""

    async def held_slots(self) -> dict[UUID, int]:
        """How many runs each worker holds. Workers without runs are omitted."""

    async def put_alert(self, tenant_id: int, rule: AlertRule) -> Alert:
        """Create or replace a rule by its name. An open alert stays open until its new rule closes it."""

    async def alerts(self, tenant_id: int, name: str | None = None) -> list[Alert]:
        """The alerts of a tenant, or one of them, by name."""

    async def delete_alert(self, tenant_id: int, name: str) -> None:
        """Remove a rule. Raises `NotFound`."""

    async def take_alerts(self, every: timedelta, limit: int = 100) -> list[Alert]:
        """Reserve alerts, of any tenant, that were not checked for `every`: no other node gets them within that
        time."""

    async def keep_alert(self, alert: Alert, seen: int) -> bool:
        """Store the state of an alert, except `told`; false if its version is not `seen` any more, or its rule has
        changed. A success that was heard of since it was read stays."""

    async def mark_alert_notified(self, alert: Alert) -> None:
        """Record that the notifications about this version are stored."""

    async def hearing_alerts(self) -> list[HearingRule]:
        """The rules, of all tenants, that learn of runs from events. While there is one, events are written."""

    async def heard_success(self, tenant_id: int, rule: AlertRule, at: datetime) -> None:
        """Record that a run which a rule covers succeeded at a moment. An earlier moment changes nothing."""

    async def events_read(self, until: datetime) -> None:
        """Record that the notifier has read all events until a moment."""

    async def events_read_until(self) -> datetime | None:
        """The moment until which the notifier has read all events."""


class Issuers(Protocol):
    """Who signs tokens for the users of tenants."""

    async def put_issuer(self, tenant_id: int, issuer: Issuer) -> StoredIssuer:
        """Create or replace an issuer. One that is replaced keeps its id."""

    async def issuers(self, tenant_id: int, name: str | None = None) -> list[StoredIssuer]:
        """The issuers of a tenant, or those with one name, by name."""

    async def issuer(self, tenant_id: int, name: str) -> StoredIssuer:
        """Raises `NotFound`."""

    async def delete_issuer(self, tenant_id: int, name: str) -> None:
        """Remove it: its tokens are worthless from then on. Raises `NotFound`."""


class Sources(Protocol):
    """Messages of other programs that create jobs."""

    async def put_source(self, tenant_id: int, source: Source, *, paused: bool) -> StoredSource:
        """Create or replace a source. One that is replaced keeps its counts, and how far it was read."""

    async def sources(self, tenant_id: int | None = None, name: str | None = None) -> list[StoredSource]:
        """The sources of a tenant, or (None) of all tenants; or those with one name."""

    async def source(self, tenant_id: int, name: str) -> StoredSource:
        """Raises `NotFound`."""

    async def delete_source(self, tenant_id: int, name: str) -> None:
        """Raises `NotFound`."""

    async def pause_source(self, tenant_id: int, name: str, *, paused: bool) -> StoredSource:
        """Pause or resume a source. A node that reads it stops when it next keeps something. Raises `NotFound`."""

    async def take_source(self, source: StoredSource, holder: UUID, period: timedelta) -> dict[str, str] | None:
        """Become the node that reads a source for `period`: how far each part of it was read. None if another node is,
        or if the source was changed, paused or stopped, or its tenant is not active."""

    async def keep_source(
        self, source: StoredSource, holder: UUID, period: timedelta, progress: SourceProgress
    ) -> bool:
        """Add what was done, and continue for `period`. False, and nothing is added, if the holder lost the source, it
        was changed or paused, or its tenant is not active."""

    async def release_source(self, source: StoredSource, holder: UUID) -> None:
        """Let another node read it at once."""


class BulkActions(Protocol):
    """Actions on everything that a filter matches."""

    async def put_bulk(self, bulk: NewBulk, request: KeyedRequest | None = None) -> Bulk:
        """Store a bulk action, which then waits for a server. Of those that are over, the newest ones are kept."""

    async def bulks(self, tenant_id: int, limit: int = 50) -> list[Bulk]:
        """The bulk actions of a tenant, newest first."""

    async def bulk(self, tenant_id: int, bulk_id: UUID) -> Bulk:
        """Raises `NotFound`."""

    async def stop_bulk(self, tenant_id: int, bulk_id: UUID) -> Bulk:
        """End a bulk action where it is. One that is over stays as it is. Raises `NotFound`."""

    async def take_bulk(self, holder: UUID, period: timedelta) -> Bulk | None:
        """Reserve a bulk action of any tenant for `period`: of those that no other server holds, the one that was left
        alone for longest."""

    async def keep_bulk(self, bulk: Bulk, holder: UUID, step: BulkStep, period: timedelta) -> bool:
        """Add a batch, and hold the action for `period`. False, and nothing is added, if another server holds it, or
        it was stopped."""

    async def leave_bulk(self, bulk: Bulk, holder: UUID, wait: timedelta) -> None:
        """Let any server continue it, after `wait`."""


class SearchIndex(Protocol):
    """What jobs are found by, as an index that is kept off the hot path."""

    async def take_search(self, holder: UUID, period: timedelta) -> bytes | None:
        """Become the node that keeps the index, for `period`: what was kept last, or nothing. None if another node
        is."""

    async def keep_search(self, holder: UUID, body: bytes, period: timedelta) -> bool:
        """Keep how far the index has come, and continue for `period`. False if another node keeps it now."""

    async def index_labels(self, after: UUID, before: UUID, batch: int) -> tuple[int, UUID | None]:
        """Add the labels of jobs between two ids, oldest first: how many there were, and where to continue (None: that
        was all). Adding a label again does nothing."""

    async def prune_terms(self, after: tuple[int, str, str], batch: int) -> tuple[int, str, str] | None:
        """Remove terms that no job has any more, in a part of the index: where to continue (None: that was the
        last)."""
