"""A tenant: the owner of jobs, keys and limits; the isolation boundary. A queue: a named line of runs inside it."""

from datetime import datetime
from enum import IntEnum

import msgspec

from duetime.model.limits import NO_QUEUE_LIMITS, QueueLimits

DEFAULT_TIER = "standard"
DEFAULT_WEIGHT = 100


class TenantState(IntEnum):
    """The numbers are stored: never reuse one."""

    ACTIVE = 0
    SUSPENDED = 1
    """Nothing of it is submitted, changed, fired or started, and nothing is called; what runs goes on to its end, and
    everything can be read. Once it is active again, what waited starts, and misfire policies decide about what was
    missed."""


class TenantLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of the service a tenant may use; None: as much as there is."""

    stored_jobs: int | None = None
    """Jobs that are not over, and runs that wait or run. Checked against an estimate: see `engine/quota.py`."""
    running_runs: int | None = None
    submissions_per_second: float | None = None
    fires_per_second: float | None = None
    """Fires above it come later, in order. A tenant may save up for a second."""

    # Rows of other kinds. Those in `ESTIMATED` are checked against an estimate, the others in the transaction that adds
    # the row: see `store/rules/quotas.py`.
    stored_bytes: int | None = None
    """Bytes of the arguments of stored jobs and runs."""
    idempotency_keys: int | None = None
    """Keys of requests, of jobs and of repeated runs that are remembered."""
    graphs: int | None = None
    """Graphs that are not over."""
    payloads: int | None = None
    payload_bytes: int | None = None
    """Bytes of all payloads together, encrypted as they are stored."""
    calendars: int | None = None
    queues: int | None = None
    """Names of queues that are paused or limited, or that jobs have named within a day."""
    subscriptions: int | None = None
    alerts: int | None = None
    secrets: int | None = None
    signing_secrets: int | None = None
    """Signing secrets that are valid at once."""
    api_keys: int | None = None
    """Keys that can be used: neither revoked nor expired."""
    workers: int | None = None
    """Remote workers with a lease."""
    tasks: int | None = None
    """Tasks whose defaults remote workers have told."""


NO_LIMITS = TenantLimits()
COLUMNS = ("stored_jobs", "running_runs", "submissions_per_second", "fires_per_second")
"""Limits with a column of their own. The others are one JSON object, `quotas`, where a missing name means no limit."""
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
    alerts=100,
    secrets=1_000,
    signing_secrets=10,
    api_keys=1_000,
    workers=1_000,
    tasks=10_000,
)
"""The limits of a new tenant, where its operator sets no others."""
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
)
"""The limits of the tenant `default`, which has the whole server to itself until another one is created."""


class NewTenant(msgspec.Struct, frozen=True):
    """A tenant that has been checked and is about to be stored."""

    name: str
    tier: str = DEFAULT_TIER
    """What it pays for, in the operator's own words."""
    weight: int = DEFAULT_WEIGHT
    """Its share when workers are short, against the weights of others."""
    limits: TenantLimits = DEFAULT_LIMITS
    encrypt_args: bool = False


class TenantChange(msgspec.Struct, frozen=True):
    """What to change; None: as it is. Limits are replaced as a whole."""

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
    created_at: datetime


class Depth(msgspec.Struct, frozen=True):
    """How many runs wait, by priority. Counted up to a cap, so that a long queue costs no more than a short one."""

    high: int = 0
    medium: int = 0
    low: int = 0
    capped: bool = False
    """At least one of the numbers is the cap: there may be more."""


class Queue(msgspec.Struct, frozen=True):
    tenant_id: int
    name: str
    paused: bool = False
    paused_at: datetime | None = None
    depth: Depth = Depth()
    limits: QueueLimits = NO_QUEUE_LIMITS
    running: int = 0
    """How many run under its limit; not counted where there is none."""
    held_back: int = 0
    """How many wait because of their keys: for a slot, or for their rate."""


class TaskInfo(msgspec.Struct, frozen=True):
    """A task that live workers have registered, and where."""

    name: str
    workers: int
    queues: tuple[str, ...] = ()
    """The queues that those workers serve; none: all of them."""
