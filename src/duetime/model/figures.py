"""Figures: how a tenant stands now, what happened lately, and what is to come.

Every figure costs a bounded effort, however many jobs there are: counts stop at a cap, what happened lately is read
from the newest end of history, and what is to come is a sample where there is too much of it. Each says whether it is
exact.
"""

from collections.abc import Sequence
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


class Upcoming(msgspec.Struct, frozen=True):
    """The next fire of a job, or a run that is made already."""

    at: datetime
    queue: str
    stretch: int
    """In which of the stretches that were asked for it was found."""
    job_id: UUID | None = None
    schedule: bytes | None = None
    """None: there is no other fire behind this one."""
    options: bytes | None = None


class Stretch(msgspec.Struct, frozen=True):
    """How many cursors there are in a stretch of time, and how many of them were looked at."""

    looked: int = 0
    there: int = 0
    whole: bool = True
    """Everything was counted."""

    @property
    def weight(self) -> float:
        """How many cursors one that was looked at stands for."""
        return max(1.0, self.there / self.looked) if self.looked else 1.0


class Ahead(msgspec.Struct, frozen=True):
    """What is to come, as far as it was looked at."""

    upcoming: tuple[Upcoming, ...]
    stretches: Sequence[Stretch]
