"""Lists: what is asked for, and what a page shows. No payload (arguments, results, logs) is ever part of a list.

A page holds up to `limit` items, newest first by an id that never changes. It may be shorter, even empty, while `next`
says that there is more: a list reads only so many rows for one page, whatever the filter. Ask again with
`before=next`, until `next` is None.
"""

from datetime import datetime
from enum import Enum
from typing import Generic, TypeVar
from uuid import UUID

import msgspec

from duetime.model.failure import FailureClass
from duetime.model.job import JobState, Options
from duetime.model.lane import Tier
from duetime.model.run import RunState
from duetime.model.schedule import Schedule

T = TypeVar("T")

MOST_ON_A_PAGE = 1000


class JobStatus(Enum):
    """What a job shows: a one-off the state of its run (PENDING before it has one), a recurring job its own."""

    PENDING = "PENDING"
    BLOCKED = "BLOCKED"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    ENDED = "ENDED"


def status_of_run(state: RunState) -> JobStatus:
    return JobStatus[state.name]


def status_of_job(state: JobState, *, recurring: bool) -> JobStatus:
    """The status of a job in its first home."""
    if not recurring and state is JobState.ACTIVE:
        return JobStatus.PENDING
    return JobStatus[state.name]


class JobFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that is given must hold. Times are of the due time: `due_from` included, `due_until` not."""

    status: JobStatus | None = None
    owner: str | None = None
    name: str | None = None
    tag: str | None = None
    key: str | None = None
    task: str | None = None
    queue: str | None = None
    recurring: bool | None = None
    due_from: datetime | None = None
    due_until: datetime | None = None
    ids: tuple[UUID, ...] | None = None
    """Only these jobs. No label (owner, name, tag, key) can be asked for beside them."""


class RunFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    job_id: UUID | None = None
    state: RunState | None = None
    task: str | None = None
    queue: str | None = None
    due_from: datetime | None = None
    due_until: datetime | None = None


class DeadFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    run_id: UUID | None = None
    job_id: UUID | None = None
    task: str | None = None
    queue: str | None = None
    failure: FailureClass | None = None
    died_from: datetime | None = None
    died_until: datetime | None = None
    error: str | None = None
    """A text that the error contains."""
    fingerprint: str | None = None
    """What tells errors of one kind from others: see `model/fingerprint.py`."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    items: tuple[T, ...]
    next: UUID | None = None
    """Where to go on (`before=`); None: this was the end."""


class JobItem(msgspec.Struct, frozen=True):
    """A job in a list."""

    id: UUID
    tenant_id: int
    task: str
    queue: str
    tier: Tier
    status: JobStatus
    recurring: bool
    schedule: Schedule
    next_run: datetime | None
    options: Options
    version: int
    created_at: datetime
    problem: str | None = None


class RunItem(msgspec.Struct, frozen=True):
    """A run in a list."""

    id: UUID
    job_id: UUID
    tenant_id: int
    task: str
    queue: str
    tier: Tier
    state: RunState
    attempt: int
    lost: int
    due_at: datetime
    ready_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker_id: UUID | None
    failure: FailureClass | None
    error: str | None
    """Its beginning."""
    replays: str | None = None
    """The id of the run that this one repeats."""
    first_started_at: datetime | None = None
    """When it started for the first time; `started_at` is of its last attempt."""


class RunEnd(msgspec.Struct, frozen=True):
    """How a run ended, in short."""

    run_id: UUID
    state: RunState
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime


class DeadLetter(msgspec.Struct, frozen=True):
    """A run whose attempts are spent."""

    run_id: UUID
    job_id: UUID
    tenant_id: int
    task: str
    queue: str
    tier: Tier
    attempt: int
    lost: int
    failure: FailureClass | None
    error: str | None
    due_at: datetime
    died_at: datetime
    options: Options
    fingerprint: str | None = None


class DeadGroup(msgspec.Struct, frozen=True):
    """Dead letters that went wrong alike."""

    fingerprint: str
    count: int
    failure: FailureClass | None
    error: str | None
    """That of the newest, its beginning."""
    tasks: tuple[str, ...]
    first_died_at: datetime
    last_died_at: datetime
    newest_run: UUID


class DeadGroups(msgspec.Struct, frozen=True):
    """The groups, the largest first."""

    groups: tuple[DeadGroup, ...]
    counted: int
    """How many dead letters were looked at, the newest ones."""
    more: bool
    """There are others that were not."""


class JobReport(msgspec.Struct, frozen=True):
    """How a job stands: what it shows, its last and its next run."""

    job_id: UUID
    status: JobStatus
    last_run: RunItem | None
    """The run that started or ended last."""
    next_run: datetime | None
    attempts: int
    """How often the last run was tried."""
    retry_count: int
    """How often it was tried again after a failure."""
    failure_reason: str | None


class Replayed(msgspec.Struct, frozen=True):
    """Dead letters that became new runs: (the run that died, the run that repeats it)."""

    runs: tuple[tuple[UUID, UUID], ...]
    more: bool
    """There are others that match."""
