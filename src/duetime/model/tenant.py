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
    """Jobs that are not over. Checked against an estimate: see `engine/quota.py`."""
    running_runs: int | None = None
    submissions_per_second: float | None = None
    fires_per_second: float | None = None
    """Fires above it come later, in order. A tenant may save up for a second."""


NO_LIMITS = TenantLimits()
DEFAULT_LIMITS = TenantLimits(fires_per_second=100.0)
"""Of tenants that are created without limits of their own."""


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
    """What shall be different; None: as it is. Limits are replaced as a whole."""

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
