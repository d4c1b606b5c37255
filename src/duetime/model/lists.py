"""Lists: filters, and the items of a page. No payload (arguments, results, logs) is ever part of a list.

A page has up to `limit` items, newest first by an id that never changes. It may be shorter, even empty, while `next`
says that there are more: a list reads a bounded number of rows per page, whatever the filter. Continue with
`before=next` until `next` is None.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic, TypeVar
from uuid import UUID

import msgspec

from duetime.model.failure import FailureClass
from duetime.model.job import JobState, Options
from duetime.model.lane import Tier
from duetime.model.run import RunState
from duetime.model.schedule import Schedule
from duetime.model.scope import Scope

T = TypeVar("T")

MOST_ON_A_PAGE = 1000


class JobStatus(StrEnum):
    """The displayed status: for a one-off the state of its run (PENDING before it has one), for a recurring job its
    own."""

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
    IN_STREAM = "IN_STREAM"
    """No row has it: its run may be a message in the stream of its queue."""


def status_of_run(state: RunState) -> JobStatus:
    return JobStatus[state.name]


def status_of_job(state: JobState, *, recurring: bool) -> JobStatus:
    """The status of a job that is still in the `jobs` table."""
    if not recurring and state is JobState.ACTIVE:
        return JobStatus.PENDING
    return JobStatus[state.name]


class JobFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """All given conditions must hold. Times are due times: `due_from` inclusive, `due_until` exclusive."""

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
    search: str | None = None
    """Text that its name, task, one of its tags, its owner or key contains, or its id begins with, in any case: see
    `model/search.py`."""
    ids: tuple[UUID, ...] | None = None
    """Only these jobs. It cannot be combined with a label (owner, name, tag, key), or a scope."""
    within: Scope | None = None
    """Only jobs in this scope. Its queue is given as `queue` too."""


class RunFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    job_id: UUID | None = None
    state: RunState | None = None
    task: str | None = None
    queue: str | None = None
    due_from: datetime | None = None
    due_until: datetime | None = None
    within: Scope | None = None
    """Only runs of jobs in this scope."""


class DeadFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    run_id: UUID | None = None
    job_id: UUID | None = None
    task: str | None = None
    queue: str | None = None
    failure: FailureClass | None = None
    died_from: datetime | None = None
    died_until: datetime | None = None
    error: str | None = None
    """Text that the error contains."""
    fingerprint: str | None = None
    """The fingerprint of the error: see `model/fingerprint.py`."""
    within: Scope | None = None
    """Only runs of jobs in this scope."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    items: tuple[T, ...]
    next: UUID | None = None
    """Where to continue (`before=`); None at the end."""
    archived: bool = False
    """Whether items were read from the archive."""


class NamePlace(msgspec.Struct, frozen=True):
    """A place among the jobs by name."""

    name: str
    job_id: UUID


class JobsByName(msgspec.Struct, frozen=True):
    items: tuple["JobItem", ...]
    next: NamePlace | None
    """Where to continue (`after=`); None at the end."""


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
    """When it started for the first time; `started_at` is the start of its last attempt."""
    archived: bool = False
    """Whether it was read from the archive."""


class RunEnd(msgspec.Struct, frozen=True):
    """How a run ended, in short."""

    run_id: UUID
    state: RunState
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime


class DeadLetter(msgspec.Struct, frozen=True):
    """A run that used up its attempts."""

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
    """Dead letters with the same kind of error."""

    fingerprint: str
    count: int
    failure: FailureClass | None
    error: str | None
    """The beginning of the newest error."""
    tasks: tuple[str, ...]
    first_died_at: datetime
    last_died_at: datetime
    newest_run: UUID


class DeadGroups(msgspec.Struct, frozen=True):
    """The groups, the largest first."""

    groups: tuple[DeadGroup, ...]
    counted: int
    """How many dead letters were read, the newest ones."""
    more: bool
    """Whether there are older ones that were not read."""


class JobReport(msgspec.Struct, frozen=True):
    """The state of a job: its status, its last and its next run."""

    job_id: UUID
    status: JobStatus
    last_run: RunItem | None
    """The run that started or ended last."""
    next_run: datetime | None
    attempts: int
    """The number of attempts of the last run."""
    retry_count: int
    """The number of retries after a failure."""
    failure_reason: str | None


class ReplayPace(msgspec.Struct, frozen=True):
    """How many dead letters are replayed together, and how fast."""

    limit: int = 1000
    rate: float = 100.0
    """How many runs become ready in a second."""
    delay: timedelta = timedelta(0)
    """When the first one becomes ready, so that several calls together can keep to one rate."""


class Replayed(msgspec.Struct, frozen=True):
    """Dead letters that became new runs: (the dead run, the run that repeats it)."""

    runs: tuple[tuple[UUID, UUID], ...]
    more: bool
    """Whether more match."""
