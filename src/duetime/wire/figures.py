"""Figures as answers have them: sums and samples for people who look."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from duetime.spec.fields import Length, Moment, Request
from duetime.wire.runs import RunStateName
from duetime.wire.service import DepthView

CountKind = Literal["exact", "estimate", "at_least"]


class CountView(Struct, frozen=True):
    value: int
    kind: CountKind
    """An estimate is what the database believes; at least so many were counted, and then no further."""


class LagView(Struct, frozen=True):
    """Seconds from when runs were due to when they first started."""

    p50: float
    p95: float
    most: float


class StepView(Struct, frozen=True):
    """What ended in one stretch of time."""

    at: datetime
    succeeded: int
    failed: int
    cancelled: int
    skipped: int
    retried: int
    """Attempts that failed, and are tried again."""
    lost: int
    """Attempts whose worker's lease ran out."""


class FailingView(Struct, frozen=True):
    task: str
    failed: int
    attempts: int


class WaitingView(Struct, frozen=True):
    """Runs of a task in a queue that are due and have not started."""

    task: str
    queue: str
    since: datetime
    has_worker: bool
    """Whether a live worker has the task."""
    paused: bool
    """Whether its queue is paused."""


class StatsQuery(Request, frozen=True):
    window: Annotated[
        Length, Meta(description="How far back to look: a minute to an hour; 5m when it is left out.")
    ] = 300.0


class Stats(Struct, frozen=True, kw_only=True):
    """How a tenant stands, and what happened lately."""

    at: datetime
    since: datetime
    """From when on everything was seen: later than asked for when more ended than is read."""
    step: float
    """Seconds that each step is long."""
    steps: tuple[StepView, ...]
    lag: LagView | None
    """Null when nothing started."""
    failing: tuple[FailingView, ...]
    """The tasks with the most failed attempts."""
    jobs: CountView
    """Those that have a future."""
    running: CountView
    dead_letters: CountView
    depth: DepthView
    """What waits, over all queues."""
    waiting: tuple[WaitingView, ...]
    """What is due and has not started, longest waiting first."""
    paused_queues: tuple[str, ...]
    workers: int
    """Those that are alive."""
    slots: int


class FiresQuery(Request, frozen=True):
    start: Annotated[Moment, Meta(description="Now when it is left out.")] | None = None
    end: Annotated[Moment, Meta(description="An hour later when it is left out; 35 days later at most.")] | None = None
    step: Annotated[
        Length, Meta(description="How long each stretch is; at most 400 of them. A minute when it is left out.")
    ] = 60.0


class FireCount(Struct, frozen=True):
    at: datetime
    """Where the stretch begins."""
    queue: str
    count: int


class Fires(Struct, frozen=True, kw_only=True):
    """How many runs are due when, of those that are still to come. Stretches and queues without any are left out."""

    start: datetime
    end: datetime
    step: float
    at: datetime
    """When this was counted. Runs that were made and due before it are not still to come."""
    exact: bool
    """True: while nothing is changed, so many runs will be due."""
    estimate: str | None
    """How the numbers were estimated where they are not exact."""
    items: tuple[FireCount, ...]


class RecentRunsQuery(Request, frozen=True):
    job_ids: Annotated[
        str, Meta(min_length=1, max_length=6000, description="Up to 100 ids of jobs, with commas between them.")
    ]
    count: Annotated[int, Meta(ge=1, le=50, description="How many runs of each.")] = 12


class RecentRun(Struct, frozen=True):
    run_id: str
    status: RunStateName
    due_at: datetime
    duration: float | None
    """Seconds of its last attempt; null for a run that was never started."""


class RecentRunsOfJob(Struct, frozen=True):
    job_id: str
    runs: tuple[RecentRun, ...]
    """Those that are over, newest first."""


class RecentRuns(Struct, frozen=True):
    items: tuple[RecentRunsOfJob, ...]


class Me(Struct, frozen=True, kw_only=True):
    """Who asks, and what they may do."""

    key_name: str
    role: Literal["root", "admin", "operator", "submitter", "viewer", "worker"]
    tenant: str
    may: tuple[str, ...]
    """Such as read, submit, control."""
    now: datetime
    version: str
    """Of the server."""
