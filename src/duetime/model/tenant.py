"""A tenant: the owner of jobs, keys and limits; the isolation boundary. A queue: a named set of runs inside it."""

from datetime import datetime
from typing import NamedTuple

import msgspec

from duetime.model.defaults import Defaults
from duetime.model.limits import NO_QUEUE_LIMITS, QueueLimits
from duetime.model.stored_enum import StoredEnum

DEFAULT_TIER = "standard"
DEFAULT_WEIGHT = 100


class TenantState(StoredEnum):
    """The numbers are stored: never reuse one."""

    ACTIVE = 0
    SUSPENDED = 1
    """Nothing of the tenant is submitted, changed, fired or started, and no target is called. Running runs continue to
    their end, and everything can be read. Once it is active again, waiting runs start, and misfire policies decide
    about missed occurrences."""
    DELETING = 2
    """As suspended, until it is erased (`model/erasure.py`). Reads see what is left."""


class TenantLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of a tenant; None: no limit."""

    stored_jobs: int | None = None
    """Live jobs, and runs that wait or run. Checked against an estimate: see `engine/quota.py`."""
    running_runs: int | None = None
    submissions_per_second: float | None = None
    fires_per_second: float | None = None
    """Fires above the limit are delayed, in order. A tenant may save up for a second."""

    # Rows of other kinds. Those in `ESTIMATED` are checked against an estimate, the others in the transaction that adds
    # the row: see `store/rules/quotas.py`.
    stored_bytes: int | None = None
    """Bytes of the arguments of stored jobs and runs."""
    idempotency_keys: int | None = None
    """Remembered keys of requests, of jobs and of repeated runs."""
    graphs: int | None = None
    """Live graphs."""
    payloads: int | None = None
    payload_bytes: int | None = None
    """Bytes of all payloads together, encrypted as they are stored."""
    calendars: int | None = None
    queues: int | None = None
    """Queues that are paused or limited, or that jobs have named within a day."""
    subscriptions: int | None = None
    sources: int | None = None
    """Places at brokers whose messages create jobs."""
    issuers: int | None = None
    """Issuers of tokens."""
    bulk_actions: int | None = None
    """Bulk actions that are not over."""
    alerts: int | None = None
    checkins: int | None = None
    """Jobs that run elsewhere and report here."""
    secrets: int | None = None
    signing_secrets: int | None = None
    """Signing secrets that are valid at once."""
    api_keys: int | None = None
    """Usable keys: neither revoked nor expired."""
    workers: int | None = None
    """Remote workers with a lease."""
    worker_tasks: int | None = None
    """Tasks of all of them, counted for each. Every node reads the workers of all tenants, with their tasks."""
    tasks: int | None = None
    """Tasks whose defaults remote workers have registered."""
    history_days: int | None = None
    """Days for which the database keeps its history; None: as the setting says."""
    archive_days: int | None = None
    """Days for which the archive keeps its history; 0: it is not archived; None: as the setting says."""


NO_LIMITS = TenantLimits()
COLUMNS = ("stored_jobs", "running_runs", "submissions_per_second", "fires_per_second")
"""Limits with their own column. The others are one JSON object, `quotas`, where a missing name means no limit."""
ESTIMATED = ("stored_jobs", "stored_bytes", "idempotency_keys", "graphs")
"""Limits on rows that are added on the hot path."""

_GIB = 1024**3
DEFAULT_LIMITS = TenantLimits(
    stored_jobs=1_000_000,
    fires_per_second=100.0,
    stored_bytes=10 * _GIB,
    idempotency_keys=10_000_000,
    graphs=100_000,
    payloads=10_000,
    payload_bytes=10 * _GIB,
    calendars=1_000,
    queues=1_000,
    subscriptions=100,
    sources=100,
    issuers=100,
    bulk_actions=20,
    alerts=100,
    checkins=100,
    secrets=1_000,
    signing_secrets=10,
    api_keys=1_000,
    workers=1_000,
    worker_tasks=100_000,
    tasks=10_000,
)
"""The limits of a new tenant, unless the operator sets others."""
FIRST_LIMITS = msgspec.structs.replace(
    DEFAULT_LIMITS,
    stored_jobs=None,
    fires_per_second=None,
    stored_bytes=None,
    idempotency_keys=None,
    graphs=None,
    payloads=None,
    payload_bytes=None,
    queues=None,
    workers=10_000,
    worker_tasks=1_000_000,
)
"""The limits of the tenant `default`, which has the whole server to itself until another one is created."""


class NewTenant(msgspec.Struct, frozen=True):
    """A validated tenant that is about to be stored."""

    name: str
    tier: str = DEFAULT_TIER
    """The operator's own label for its plan."""
    weight: int = DEFAULT_WEIGHT
    """Its share when slots are scarce, relative to the weights of others."""
    limits: TenantLimits = DEFAULT_LIMITS
    encrypt_args: bool = False


class TenantChange(msgspec.Struct, frozen=True):
    """What to change; None: unchanged. Limits are replaced as a whole."""

    name: str | None = None
    state: TenantState | None = None
    tier: str | None = None
    weight: int | None = None
    limits: TenantLimits | None = None
    encrypt_args: bool | None = None


class Tenant(msgspec.Struct, frozen=True):
    """A tenant as it is read back."""

    id: int
    name: str
    state: TenantState
    tier: str
    weight: int
    limits: TenantLimits
    encrypt_args: bool
    defaults: Defaults
    """The options that its jobs get unless a task or a submission gives others."""
    created_at: datetime


class Depth(msgspec.Struct, frozen=True):
    """How many runs wait, by priority. Counted up to a cap, so that a long queue costs no more than a short one."""

    high: int = 0
    medium: int = 0
    low: int = 0
    capped: bool = False
    """Whether at least one of the numbers is the cap: there may be more."""


class Queue(msgspec.Struct, frozen=True):
    tenant_id: int
    name: str
    paused: bool = False
    paused_at: datetime | None = None
    depth: Depth = Depth()
    limits: QueueLimits = NO_QUEUE_LIMITS
    running: int = 0
    """How many run under its limit; not counted if there is none."""
    held_back: int = 0
    """Runs that wait because of their keys: for a slot, or for their rate."""


class QueueHead(NamedTuple):
    """The due runs of a queue that wait."""

    oldest: datetime
    """When the first of them became ready."""
    arrived: int
    """How many of them were due since a moment."""


class TaskInfo(msgspec.Struct, frozen=True):
    """A task that live workers have registered, and where."""

    name: str
    workers: int
    queues: tuple[str, ...] = ()
    """The queues that those workers serve; none: all of them."""
