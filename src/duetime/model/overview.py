"""Figures: the current state of a tenant, recent activity, and what is to come.

Every figure costs a bounded effort, however many jobs there are: counts stop at a cap, recent activity is read from the
newest end of history, and a forecast uses a sample if there is too much. Each says whether it is exact.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

import msgspec

from duetime.model.tenant import TenantState


class Count(msgspec.Struct, frozen=True):
    value: int
    kind: Literal["exact", "estimate", "at_least"] = "exact"


class Step(msgspec.Struct, frozen=True):
    """What ended in one interval: runs by final state, and attempts that did not end their run."""

    at: datetime
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    retried: int = 0
    """Attempts that failed and are retried."""
    lost: int = 0
    """Attempts whose worker's lease expired."""


class Lag(msgspec.Struct, frozen=True):
    """From when runs were due to when they first started."""

    p50: timedelta
    p95: timedelta
    most: timedelta


class Failing(msgspec.Struct, frozen=True):
    """A task with failed attempts."""

    task: str
    failed: int
    attempts: int


class Recent(msgspec.Struct, frozen=True):
    """What ended recently."""

    since: datetime
    """The start of the covered period: later than requested when more runs ended than are read."""
    until: datetime
    steps: tuple[Step, ...]
    lag: Lag | None
    failing: tuple[Failing, ...]
    """Those with the most failures first."""


class Waiting(msgspec.Struct, frozen=True):
    """Due runs of a task in a queue that have not started."""

    task: str
    queue: str
    since: datetime
    """When the first of them became ready."""


class Standing(msgspec.Struct, frozen=True):
    """The current state."""

    jobs: Count
    """Live jobs."""
    running: Count
    dead_letters: Count
    waiting: tuple[Waiting, ...]
    """Longest waiting first."""


class ComingJob(msgspec.Struct, frozen=True, gc=False):
    """A job with a cursor, with the fields that its fires depend on."""

    job_id: UUID
    queue: str
    recurring: bool
    schedule: bytes
    options: bytes | None
    next_fire_at: datetime
    made: int = 0
    owed: bytes | None = None
    """Occurrences before the cursor whose runs were withdrawn."""
    scan_at: datetime | None = None
    """When the cursor comes into the scanner's view, or did: its place in the order of fires."""


class Ahead(msgspec.Struct, frozen=True):
    """What is to come, as far as it was read: all of it in one snapshot."""

    now: datetime
    jobs: Sequence[ComingJob]
    made: Mapping[tuple[int, str], int]
    """Existing runs that are due later, by interval and queue."""
    looked: int
    """How many of the tenant's jobs were read, including those that do not fire. If fewer than there are, they are a
    random sample."""
    there: int
    whole: bool = True
    """False: there are more jobs, or more existing runs, than were counted."""
    state: TenantState = TenantState.ACTIVE
    """Of a tenant in another state nothing was read: nothing of it fires."""
    fires_per_second: float | None = None
    """The rate of the tenant's fires; None: no limit."""
    stored_jobs: int | None = None
    """The tenant's limit of stored jobs; None: no limit."""
    is_full: bool = False
    """Whether it is reached: then the occurrences of recurring jobs are skipped (`engine/fire_quota.py`)."""

    @property
    def weight(self) -> float:
        """How many jobs each of the sampled ones stands for."""
        return self.there / self.looked if self.looked else 1.0


class AheadPage(msgspec.Struct, frozen=True):
    """What is to come of some of a tenant's jobs: those below an id, the newest first."""

    now: datetime
    jobs: Sequence[ComingJob]
    made: Mapping[tuple[UUID, str], int]
    """How many existing runs are due in the requested time, by job and queue."""
    horizon: UUID | None
    """The lowest id that was read; None: the end was reached."""
    is_limited: bool = False
    """Whether the tenant has a limit that fires are held to."""
