"""Figures: how a tenant stands now, what happened lately, and what is to come.

Every figure costs a bounded effort, however many jobs there are: counts stop at a cap, what happened lately is read
from the newest end of history, and what is to come is a sample where there is too much of it. Each says whether it is
exact.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

import msgspec


class Count(msgspec.Struct, frozen=True):
    value: int
    kind: Literal["exact", "estimate", "at_least"] = "exact"


class Step(msgspec.Struct, frozen=True):
    """What ended in one stretch of time: runs by how they ended, and attempts that did not end their run."""

    at: datetime
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    retried: int = 0
    """Attempts that failed, and are tried again."""
    lost: int = 0
    """Attempts whose worker's lease ran out."""


class Lag(msgspec.Struct, frozen=True):
    """From when runs were due to when they first started."""

    p50: timedelta
    p95: timedelta
    most: timedelta


class Failing(msgspec.Struct, frozen=True):
    """A task with attempts that failed."""

    task: str
    failed: int
    attempts: int


class Recent(msgspec.Struct, frozen=True):
    """What ended lately."""

    since: datetime
    """From when on everything was seen: later than asked for when more ended than is read."""
    until: datetime
    steps: tuple[Step, ...]
    lag: Lag | None
    failing: tuple[Failing, ...]
    """Those with the most failures first."""


class Waiting(msgspec.Struct, frozen=True):
    """Runs of a task in a queue that are due and have not started."""

    task: str
    queue: str
    since: datetime
    """When the first of them became ready."""


class Standing(msgspec.Struct, frozen=True):
    """How things stand."""

    jobs: Count
    """Those that have a future."""
    running: Count
    dead_letters: Count
    waiting: tuple[Waiting, ...]
    """Longest waiting first."""


class ComingJob(msgspec.Struct, frozen=True, gc=False):
    """A job that has a cursor, as far as its fires depend on it."""

    job_id: UUID
    queue: str
    recurring: bool
    schedule: bytes
    options: bytes | None
    next_fire_at: datetime
    made: int = 0
    owed: bytes | None = None
    """Occurrences before the cursor whose runs were withdrawn."""


class Ahead(msgspec.Struct, frozen=True):
    """What is to come, as far as it was looked at: all of it in one snapshot."""

    now: datetime
    jobs: Sequence[ComingJob]
    made: Mapping[tuple[int, str], int]
    """Runs that are made already and are due later, by stretch and queue."""
    looked: int
    """How many of the tenant's jobs were looked at, those that do not fire included. Fewer than there are: they were
    drawn from all of them by lot."""
    there: int
    whole: bool = True
    """False: there are more jobs, or more runs made, than were counted."""

    @property
    def weight(self) -> float:
        """How many jobs one that was looked at stands for."""
        return self.there / self.looked if self.looked else 1.0


class AheadPage(msgspec.Struct, frozen=True):
    """What is to come of some of a tenant's jobs: those below an id, the newest first."""

    now: datetime
    jobs: Sequence[ComingJob]
    made: Mapping[UUID, str]
    """The jobs that have a run which is made already and is due in the time that was asked for, and their queues."""
    horizon: UUID | None
    """How far down was looked; None: to the end."""
