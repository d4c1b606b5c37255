"""What a store promises to the service around it: tenants, keys, lists, queues, payloads, events.

The same rules hold as in `protocol.py`: the words are the contract, each method takes effect as a whole or not at all,
the store's clock decides. Where a method takes a `tenant_id`, another tenant's things answer exactly as missing ones.
"""

from collections.abc import Callable, Mapping, Sequence
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
from duetime.model.defaults import Defaults
from duetime.model.event import Event, EventKind, EventMark
from duetime.model.idempotency import KeyedRequest
from duetime.model.lane import Tier
from duetime.model.limits import QueueLimits
from duetime.model.lists import (
    DeadFilter,
    DeadGroups,
    DeadLetter,
    JobFilter,
    JobItem,
    JobReport,
    Page,
    Replayed,
    RunEnd,
    RunFilter,
    RunItem,
)
from duetime.model.notification import RunNews, Subscription
from duetime.model.overview import Ahead, AheadPage, Recent, Standing
from duetime.model.secret import SecretBinding, SecretInfo, SigningSecret, StoredSecret
from duetime.model.session import NewSession, Opened, Session, SessionScope
from duetime.model.tenant import NewTenant, Queue, TaskInfo, Tenant, TenantChange
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

    async def usage(self, tenant_id: int, kind: str, most: int) -> int:
        """How much the tenant has of a kind that is checked against an estimate (`ESTIMATED`), counted up to `most`.

        It reads up to `most` index entries (all rows, for bytes), so it is asked now and then, never for each
        submission.
        """

    async def encrypting_tenants(self) -> frozenset[int]:
        """The tenants whose content is encrypted (`encrypt_args`)."""

    async def tenants_of_runs(self, run_ids: Sequence[UUID]) -> dict[UUID, int]:
        """Whose runs these are; those that are not live are left out."""

    async def secret(self, name: str, fresh: bytes) -> bytes:
        """A secret that all nodes share (to sign cursors with): `fresh` the first time, and from then on that."""


class Allowances(Protocol):
    async def take_tokens(self, asks: Sequence[TokenAsk]) -> list[TokenGrant]:
        """Take tokens out of buckets that all nodes share, each as `model/token_bucket.py` says, in the order of the
        asks. No token is given twice, however many callers ask at once. A bucket that was never asked is full."""


class Access(Protocol):
    async def create_key(self, key: NewKey) -> ApiKey:
        """Add a key."""

    async def keys(self, tenant_id: int | None, after: UUID | None = None, limit: int = 100) -> list[ApiKey]:
        """The keys of a tenant, or (None) the root keys, oldest first; revoked and expired ones too."""

    async def key_by_hash(self, hash: bytes) -> ApiKey | None:
        """The key whose text has this hash, if it may be used now: not revoked, not expired. One index probe."""

    async def revoke_key(self, tenant_id: int | None, key_id: UUID) -> ApiKey:
        """It cannot be used any more, and neither can its sessions. Again changes nothing. Raises `NotFound`, and
        `Conflict` for the last root key that can be used: of two that revoke each other at once, one stays."""

    async def rotate_key(
        self, tenant_id: int | None, key_id: UUID, successor: Callable[[ApiKey], NewKey], overlap: timedelta
    ) -> ApiKey:
        """Add a successor with the role, tenant and queues of a key, which goes on working for `overlap` only.

        `successor` is given the old key, and may raise. Of what it returns, id, hash, hint, name, expiry and networks
        count. Raises `NotFound`, and `Conflict` for a key that cannot be used any more.
        """

    async def touch_keys(self, key_ids: Sequence[UUID]) -> None:
        """Note that these keys were used about now. Written at most once a minute for each."""


class Sessions(Protocol):
    """Browsers that act for a key. Tokens are known here by their hashes alone."""

    async def begin_session(self, session: NewSession, lifetime: timedelta, idle: timedelta) -> Session | None:
        """Begin a session of a key; None when the key cannot be used. It ends after `lifetime`, or before that when it
        was not used for `idle`. The oldest sessions of the key end where it would have more than `MOST_SESSIONS`."""

    async def session_of(self, hash: bytes) -> Opened | None:
        """The session whose token has this hash, with its key, while both can be used. Two index probes."""

    async def sessions(self, scope: SessionScope, before: UUID | None = None, limit: int = 100) -> list[Session]:
        """The sessions that have not ended, newest first, below the id `before`."""

    async def touch_sessions(self, session_ids: Sequence[UUID], idle: timedelta) -> None:
        """Note that these sessions were used about now: they last for another `idle`. Written at most once a minute for
        each. One that has ended stays ended."""

    async def end_session(self, scope: SessionScope, session_id: UUID) -> Session:
        """End a session. Raises `NotFound` for one that has ended, or is outside the scope."""

    async def end_session_of(self, hash: bytes) -> bool:
        """End the session whose token has this hash; returns whether there was one."""

    async def add_login_link(self, key_id: UUID, hash: bytes, lasts: timedelta) -> datetime | None:
        """A token that begins one session of a key, until the moment returned; None when the key cannot be used. The
        key's oldest links go where it would have more than `MOST_LINKS`."""

    async def take_login_link(self, hash: bytes) -> ApiKey | None:
        """Use a link: the key that it is for, once, while the link lasts and the key can be used."""


class Audit(Protocol):
    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """Add to the audit log what is not in it. Nothing can be changed or removed there, by any method or
        statement."""

    async def audit(self, tenant_id: int | None, before: UUID | None = None, limit: int = 100) -> list[Audited]:
        """The entries of a tenant, or (None) of all and of none, newest first, below the id `before`."""


class Lists(Protocol):
    async def list_jobs(
        self, tenant_id: int, filter: JobFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[JobItem]:
        """A page of jobs, newest first by id, from all homes in one snapshot: a job that moves is neither missed nor
        doubled. The effort for a page is bounded; see `model/lists.py`. Deleted jobs are not shown."""

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
        """How a job stands. Raises `NotFound`."""


class Figures(Protocol):
    """Sums and samples, for people who look. Each costs a bounded effort, and says whether it is exact."""

    async def recent(self, tenant_id: int, window: timedelta, step: timedelta) -> Recent:
        """What ended in the window before now, in steps: from the newest end of history, read up to a bound."""

    async def standing(self, tenant_id: int) -> Standing:
        """How many jobs, running runs and dead letters there are, up to a cap; and what is due and waits."""

    async def ahead(self, tenant_id: int, start: datetime, step: timedelta, steps: int) -> Ahead:
        """What the tenant's jobs have ahead of them, and the runs that are made already and are due in each of `steps`
        stretches of time: of all jobs, or of some drawn by lot where there are too many. No other tenant's row has a
        part in it."""

    async def ahead_page(
        self, tenant_id: int, start: datetime, end: datetime, before: UUID | None, most: int
    ) -> AheadPage:
        """The same of the tenant's newest `most` jobs below the id `before`, and which of them have a run that is made
        already and is due in this time."""

    async def recent_runs(self, tenant_id: int, job_ids: Sequence[UUID], most: int) -> dict[UUID, list[RunEnd]]:
        """How the last runs of each of these jobs ended, newest first; nothing for a job that is not there."""


class Replay(Protocol):
    """Putting right what went wrong, and removing what is not wanted."""

    async def delete_job(self, tenant_id: int, job_id: UUID) -> None:
        """No further run; waiting ones end CANCELLED, running ones are asked to stop; from now on there is no such
        job, while its runs stay in history. Raises `NotFound`."""

    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        """Try a run again. One that is RETRYING becomes ready now; one that ended FAILED, CANCELLED or SKIPPED is
        repeated by a new run, due now, which says so in its options (`replays`), and is a dead letter no more. An
        occurrence that made no run is repeated with what its job says now. A run is repeated once: asked again, by
        this or by `replay_dead_letters` before, the answer is the run that repeats it.

        Raises `NotFound`, and `Conflict` for a run in any other state, or of a job that was deleted.
        """

    async def replay_dead_letters(
        self,
        tenant_id: int,
        filter: DeadFilter,
        nonce: bytes,
        limit: int = 1000,
        rate: float = 100.0,
        delay: timedelta = timedelta(0),
        request: KeyedRequest | None = None,
    ) -> Replayed:
        """Repeat dead letters that match, oldest first, by new runs that become ready at `rate` a second, from `delay`
        on: so that many calls together keep to one rate.

        Each dead letter is repeated once, whoever else asks. Those of deleted jobs are passed over.
        """

    async def discard_dead_letters(self, tenant_id: int, filter: DeadFilter, limit: int = 1000) -> int:
        """Remove dead letters that match, oldest first; returns how many."""


class Answers(Protocol):
    """Requests with idempotency keys whose answers the service keeps, apart from what they did."""

    async def begin_request(self, tenant_id: int, request: KeyedRequest) -> bytes | None:
        """Take the key for this request; None when it is new, else what the same request was answered before.

        Raises `KeyReused` where the key came with another request, and `KeyInFlight` where the same one has not ended.
        """

    async def end_request(self, tenant_id: int, request: KeyedRequest, answer: bytes | None) -> None:
        """Keep the answer of a request that has begun; or (None) forget the request: it did nothing."""


class Queues(Protocol):
    async def pause_queue(self, tenant_id: int, queue: str) -> Queue:
        """Start nothing more from a queue, which need not exist yet; what runs goes on. Again changes nothing."""

    async def resume_queue(self, tenant_id: int, queue: str) -> Queue:
        """Start again. Again changes nothing."""

    async def limit_queue(self, tenant_id: int, queue: str, limits: QueueLimits) -> Queue:
        """Set what a queue may do at most, as a whole; it holds everywhere within a second. What runs goes on."""

    async def queue(self, tenant_id: int, queue: str, cap: int = 10_000) -> Queue:
        """One queue, paused or not; a queue that nobody has used is empty."""

    async def queues(self, tenant_id: int, cap: int = 10_000) -> list[Queue]:
        """The queues of a tenant by name, with what waits in them, counted up to `cap` for each lane."""

    async def tasks(self, tenant_id: int) -> list[TaskInfo]:
        """The tasks that live workers have for this tenant, by name."""

    async def task_defaults(self, tenant_id: int) -> dict[str, Defaults]:
        """What tasks say of their jobs, by name, as the worker told that registered last, alive or not; those that say
        nothing are left out."""


class Breakers(Protocol):
    """What stands before targets that fail, for all nodes together."""

    async def report_attempts(self, tallies: Sequence[Tally], policy: BreakerPolicy) -> list[Breaker]:
        """Count what attempts came to, and let breakers open, probe or recover as the policy says; returns how each of
        these targets stands then, with what everybody has counted within the window."""

    async def tend_breakers(self) -> int:
        """Take breakers on whose time is over: from open to probing, from recovering to closed. Returns how many."""

    async def breakers(self, tenant_id: int) -> list[Breaker]:
        """Those of a tenant that are not closed, or whose target was tried within the window; by target."""

    async def reset_breaker(self, tenant_id: int, target: str) -> Breaker:
        """Close a breaker at once, and forget what was counted."""


NOTHING_ANSWERED: Mapping[UUID, int] = MappingProxyType({})
"""Of no worker it is known which of its claims it had answers to."""


class TableFigures(NamedTuple):
    name: str
    rows: int
    """An estimate, or counted up to a cap."""
    size: int | None = None
    """Bytes, with indexes; None where the store does not know it of one table."""


class Survey(NamedTuple):
    """How much there is of everything."""

    waiting: Mapping[Tier, int]
    """Due runs that wait."""
    dead_letters: int
    tables: tuple[TableFigures, ...]
    size: int
    """Bytes, of all tables together."""
    breakers: Mapping[BreakerState, int]
    """Breakers that are not closed."""


class ClockSeen(NamedTuple):
    """The store's clock, and what the nodes have seen of it; None: nothing yet."""

    now: datetime
    seen_at: datetime | None
    """What it showed when a node looked last."""
    stepped_at: datetime | None
    """What it showed when it was first seen after a step forward, or after no node had looked for long."""
    trusted_at: datetime | None
    """The time from which the pruner counts ages."""


class Clocks(Protocol):
    """What is known of the store's clock, for the guard against its steps (`engine/clock_guard.py`)."""

    async def clock_seen(self) -> ClockSeen:
        """The clock, and what the nodes have seen of it."""

    async def keep_clock_seen(self, seen_at: datetime, *, stepped: bool) -> None:
        """Remember what a node saw, and whether the clock had stepped forward before that."""

    async def keep_trusted(self, trusted_at: datetime, seen_at: datetime) -> None:
        """Remember from when ages are counted, while the clock shows `seen_at`."""

    async def shift_back(self) -> None:
        """Let what seems to begin after now begin now, and end as much later: leases, claims, handovers, breakers,
        starts that count for a rate. Such rows were written before the clock was put back."""


class Surveys(Protocol):
    async def survey(self, cap: int = 10_000) -> Survey:
        """What is in the whole database: estimated, or counted up to `cap`, so that it costs the same at any size."""

    def connections(self) -> tuple[int, int]:
        """How many connections to the database are in use, and how many there may be."""


class Payloads(Protocol):
    """Bytes kept beside jobs that refer to them. What they mean, and whether they are encrypted, is not known here."""

    async def put_payload(self, tenant_id: int, payload_id: UUID, body: bytes) -> None:
        """Keep bytes under a fresh id. A job whose options refer to it (`pay_…`) keeps it."""

    async def payload(self, tenant_id: int, payload_id: UUID) -> bytes:
        """The bytes. Raises `NotFound`."""

    async def held_payload(self, worker_id: UUID, payload_id: UUID) -> tuple[int, bytes]:
        """Their tenant and the bytes, for a worker that holds a run of a job that refers to them. Raises `NotFound`."""

    async def drop_payload(self, tenant_id: int, payload_id: UUID) -> None:
        """Erase it, whoever refers to it. Raises `NotFound`."""


class Secrets(Protocol):
    """Secrets of tenants, and wrapped keys. What they mean, and that they are encrypted, is not known here."""

    async def data_keys(self) -> list[WrappedKey]:
        """The wrapped data keys of the database, newest first."""

    async def add_data_key(self, name: str, wrapped_by: str, wrapped: bytes) -> None:
        """Keep a new data key."""

    async def rewrap_data_key(self, name: str, old: bytes, wrapped_by: str, wrapped: bytes) -> None:
        """Keep a data key as another key wraps it, unless that has happened meanwhile."""

    async def put_secret(self, tenant_id: int, name: str, value: bytes, binding: SecretBinding) -> datetime:
        """Keep a secret, new or not; returns when it was changed."""

    async def tenant_secrets(self, tenant_id: int) -> list[SecretInfo]:
        """What may be told of the secrets of a tenant, by name."""

    async def tenant_secret(self, tenant_id: int, name: str) -> StoredSecret:
        """A secret. Raises `NotFound`."""

    async def drop_secret(self, tenant_id: int, name: str) -> None:
        """Remove it. Raises `NotFound`."""

    async def signing_secrets(self, tenant_id: int) -> list[SigningSecret]:
        """What a tenant's requests are signed with now, newest first, ten at most."""

    async def add_signing_secret(
        self, tenant_id: int, secret_id: UUID, value: bytes, overlap: timedelta | None
    ) -> SigningSecret:
        """Add one, and let the others sign for `overlap` only; with None, add it only where there is none. Returns the
        newest."""


class Events(Protocol):
    """What changes, for those who watch. Written only while somebody does, so that others do not pay for it."""

    async def keep_listening(self, period: timedelta) -> EventMark:
        """Have events written for at least `period` from now on; returns the place after which new ones come."""

    async def tell(self, kind: EventKind, tenant_id: int, ids: Sequence[UUID]) -> None:
        """Add an event that comes from no change of a row."""

    async def events(self, after: EventMark, limit: int = 1000) -> list[Event]:
        """The events after a place, in order. None that commits later will stand before one that was read, and none
        waits for a transaction other than its own."""


class Notifications(Protocol):
    """What tenants want to be told, how far they have been told, and the figures that they have watched."""

    async def put_subscription(self, tenant_id: int, subscription: Subscription) -> None:
        """Set what is told under a name. Everything that commits after this is told, whoever is up to see it."""

    async def subscriptions(self, tenant_id: int | None = None) -> list[tuple[int, Subscription]]:
        """What a tenant, or (None) everybody, wants to be told, each with its tenant."""

    async def delete_subscription(self, tenant_id: int, name: str) -> None:
        """Tell it no more. Raises `NotFound`."""

    async def take_notifying(self, holder: UUID, period: timedelta) -> EventMark | None:
        """The place up to which everything was told. None while nobody wants to know, or another node is at it."""

    async def notified(self, until: EventMark) -> None:
        """Everything up to this place was told. It never moves back."""

    async def news_of_runs(
        self, tenant_id: int, run_ids: Sequence[UUID], *, started: datetime | None = None, ended: datetime | None = None
    ) -> list[RunNews]:
        """What notifications say of these runs: of the attempt that started, or ended, at a moment, whatever has become
        of the run since; without a moment, of how they stand. Those that are nowhere any more are left out."""

    async def slow_runs(self) -> list[tuple[int, UUID]]:
        """The running runs, each with its tenant, that take longer than their job's `warn_after`."""

    async def count_dead_letters(self, tenant_id: int, queue: str | None, cap: int) -> int:
        """How many dead letters there are, counted up to `cap`."""

    async def count_ready(self, tenant_id: int, queue: str | None, cap: int, *, without: str) -> int:
        """How many runs of a tenant, or of one of its queues, wait though they could start now: up to a cap in each
        lane, and none of the queue `without`."""

    async def held_slots(self) -> dict[UUID, int]:
        """How many runs each worker holds; one that holds none is left out."""

    async def put_alert(self, tenant_id: int, rule: AlertRule) -> Alert:
        """Set a rule under its name. An alert that is open stays open until its new rule closes it."""

    async def alerts(self, tenant_id: int, name: str | None = None) -> list[Alert]:
        """The alerts of a tenant, or one of them, by name."""

    async def delete_alert(self, tenant_id: int, name: str) -> None:
        """Remove a rule. Raises `NotFound`."""

    async def take_alerts(self, every: timedelta, limit: int = 100) -> list[Alert]:
        """Alerts of any tenants that were not looked at for so long; they are nobody else's turn until then."""

    async def keep_alert(self, alert: Alert, seen: int) -> bool:
        """How an alert stands now; false if its version is not `seen` any more, or its rule another one."""
