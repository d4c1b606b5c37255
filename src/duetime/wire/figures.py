"""Figures in answers: sums and samples for people."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from duetime.spec.fields import Length, Moment, Request
from duetime.wire.fields import Stale
from duetime.wire.runs import RunStateName
from duetime.wire.service import DepthView
from duetime.wire.sso import UserView

CountKind = Literal["exact", "estimate", "at_least"]


class CountView(Struct, frozen=True):
    value: int
    kind: CountKind
    """`estimate` is the database's own estimate; `at_least` is a count that stopped at a cap."""


class LagView(Struct, frozen=True):
    """Seconds from when runs were due to when they first started."""

    p50: float
    p95: float
    most: float


class StepView(Struct, frozen=True):
    """What ended in one interval."""

    at: datetime
    succeeded: int
    failed: int
    cancelled: int
    skipped: int
    retried: int
    """Attempts that failed and are retried."""
    lost: int
    """Attempts whose worker's lease expired."""


class FailingView(Struct, frozen=True):
    task: str
    failed: int
    attempts: int


class WaitingView(Struct, frozen=True):
    """Due runs of a task in a queue that have not started."""

    task: str
    queue: str
    since: datetime
    has_worker: bool
    """Whether a live worker provides the task."""
    paused: bool
    """Whether its queue is paused."""


class StatsQuery(Request, frozen=True):
    window: Annotated[Length, Meta(description="The period to cover: a minute to an hour. Default: 5m.")] = 300.0


class Stats(Stale, frozen=True, kw_only=True):
    """The state of a tenant, and recent activity."""

    at: datetime
    since: datetime
    """The start of the covered period: later than requested when more runs ended than are read."""
    step: float
    """Seconds per step."""
    steps: tuple[StepView, ...]
    lag: LagView | None
    """Null when nothing started."""
    failing: tuple[FailingView, ...]
    """The tasks with the most failed attempts."""
    jobs: CountView
    """Live jobs."""
    running: CountView
    dead_letters: CountView
    depth: DepthView
    """Waiting runs, over all queues."""
    waiting: tuple[WaitingView, ...]
    """Due runs that have not started, longest waiting first."""
    paused_queues: tuple[str, ...]
    workers: int
    """Live workers."""
    slots: int


class FiresQuery(Request, frozen=True):
    start: Annotated[Moment, Meta(description="Default: now.")] | None = None
    end: Annotated[Moment, Meta(description="Default: an hour later. At most 35 days later.")] | None = None
    step: Annotated[
        Length, Meta(description="The length of an interval; at most 400 intervals. Default: a minute.")
    ] = 60.0


class FireCount(Struct, frozen=True):
    at: datetime
    """The start of the interval."""
    queue: str
    count: int


class Fires(Stale, frozen=True, kw_only=True):
    """How many future runs are due when. Intervals and queues without runs are omitted."""

    start: datetime
    end: datetime
    step: float
    at: datetime
    """When this was counted. Runs that were created and due before it are not counted."""
    exact: bool
    """True: exactly so many runs will be due, unless something is changed."""
    estimate: str | None
    """How the numbers were estimated if they are not exact."""
    items: tuple[FireCount, ...]


class RecentRunsQuery(Request, frozen=True):
    job_ids: Annotated[str, Meta(min_length=1, max_length=6000, description="Up to 100 job ids, separated by commas.")]
    count: Annotated[int, Meta(ge=1, le=50, description="Number of runs per job.")] = 12


class RecentRun(Struct, frozen=True):
    run_id: str
    status: RunStateName
    due_at: datetime
    duration: float | None
    """Seconds of its last attempt; null for a run that never started."""


class RecentRunsOfJob(Struct, frozen=True):
    job_id: str
    runs: tuple[RecentRun, ...]
    """Ended runs, newest first."""


class RecentRuns(Stale, frozen=True):
    items: tuple[RecentRunsOfJob, ...]


class ScopeView(Struct, frozen=True):
    """The jobs that a key or token may see and control: those with all of this."""

    owner: str | None = None
    tag: str | None = None
    queue: str | None = None


class Me(Struct, frozen=True, kw_only=True):
    """The requesting key, token or person, and its permissions."""

    key_name: str
    role: Literal["root", "admin", "operator", "submitter", "viewer", "worker"]
    tenant: str
    may: tuple[str, ...]
    """Such as read, submit, control."""
    now: datetime
    version: str
    """The server's version."""
    scope: ScopeView | None = None
    """Null: all jobs of the tenant."""
    user: UserView | None = None
    """The person of an identity provider; null for a key or a token of an issuer."""
    tenants: tuple[str, ...] = ()
    """The tenants that the person has a role in."""


class PercentilesView(Struct, frozen=True):
    """Seconds, exact to five percent."""

    p50: float
    p95: float


class TrendStepView(Struct, frozen=True):
    """What ended in one interval."""

    at: datetime
    succeeded: int
    failed: int
    cancelled: int
    skipped: int
    retried: int
    lost: int
    lag: PercentilesView | None
    """From when runs were due to when they first started; null if none started."""
    duration: PercentilesView | None
    """Of attempts."""


class TrendsQuery(Request, frozen=True):
    range: Annotated[
        Literal["hour", "day", "week"],
        Meta(description="The last hour by minutes, the last day by quarters of an hour, or the last week by hours."),
    ] = "hour"


class Trends(Stale, frozen=True):
    range: Literal["hour", "day", "week"]
    start: datetime
    step: float
    """Seconds."""
    steps: tuple[TrendStepView, ...]
    exact: bool
    """False: in some minutes more attempts ended than were read, and their counts are estimates."""
