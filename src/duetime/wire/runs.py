"""Requests and answers about runs and dead letters."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from duetime.model.lists import JobStatus
from duetime.model.waiting import ReasonCode, in_words
from duetime.spec.fields import JobId, Moment, Name, PriorityName, Request, Text
from duetime.wire.fields import Cursor, InStreamView, PageSize, Stale

RunStateName = Literal["PENDING", "BLOCKED", "RUNNING", "RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]
AttemptStateName = Literal["SUCCEEDED", "FAILED", "LOST", "SNOOZED", "CANCELLED", "SKIPPED"]
FailureName = Literal["error", "timeout", "lost", "cancelled", "target_refused", "target_failed", "network", "gave_up"]
Fingerprint = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z", description="The fingerprint of a group.")]
LONGEST_DELAY = 86_400
"""Seconds before the first of the dead letters that one request replays."""
RunId = Annotated[str, Meta(pattern=r"^run_[0-9a-hjkmnp-tv-z]{26}\Z")]


class _Run(Struct, frozen=True, kw_only=True):
    run_id: str
    job_id: str
    attempt: int
    """The number of attempts, without lost ones."""
    lost: int
    """The number of attempts that lost their worker."""
    due_at: datetime
    ready_at: datetime | None
    first_started_at: datetime | None
    """When its first attempt started."""
    started_at: datetime | None
    """When its last attempt started."""
    finished_at: datetime | None
    lag: float | None
    """Seconds from its due time to its first start."""
    retry_delay: float | None
    """Seconds from its first start to the start of its last attempt; null if that was the first."""
    worker_id: str | None
    failure: FailureName | None
    error: str | None
    replays: str | None
    """The run that this one repeats."""
    archived: bool = False
    """Whether it was read from the archive: the database no longer has it."""


class RunSummary(_Run, frozen=True, kw_only=True):
    """A run in a list."""

    task: str
    queue: str
    priority: PriorityName
    status: RunStateName


class AttemptView(Struct, frozen=True, kw_only=True):
    attempt: int
    status: AttemptStateName
    worker_id: str | None
    started_at: datetime | None
    finished_at: datetime
    duration: float | None
    """Seconds."""
    failure: FailureName | None
    error: str | None
    logs: tuple[dict[str, Any], ...]


class RunView(_Run, frozen=True, kw_only=True):
    """A run with all its details."""

    status: RunStateName | Literal["IN_STREAM"]
    certain: bool
    """False for a run that may be in a stream (`IN_STREAM`): only its ids and its due time are known."""
    task: str | None
    queue: str | None
    priority: PriorityName | None
    args: dict[str, Any]
    args_problem: str | None
    """Why `args` cannot be shown: they are encrypted with a key that the server does not have."""
    result: Any
    progress: float | None
    message: str | None
    logs: tuple[dict[str, Any], ...]
    """The log of the current attempt, about a second old. Ended attempts have their own logs."""
    attempts: tuple[AttemptView, ...]


class RunPage(Stale, frozen=True):
    items: tuple[RunSummary, ...]
    next_cursor: str | None
    """Pass it as `cursor` to get the next page; null at the end. A page before the end may be short, or even empty."""
    searched_to: datetime | None = None
    """Where the next page begins: runs that were due after this moment have been looked at. Null at the end, and where
    runs are listed job by job, for an owner or a scope."""
    in_streams: tuple[InStreamView, ...] = ()
    """What is in the streams of the tenant's queues: those runs are not in the list."""
    archived: bool = False
    """Whether runs on this page were read from the archive."""


class _RunConditions(Request, frozen=True):
    status: RunStateName | None = None
    start_time: Annotated[Moment, Meta(description="Due at or after this time.")] | None = None
    end_time: Annotated[Moment, Meta(description="Due before this time.")] | None = None


class RunConditions(_RunConditions, frozen=True):
    """Which runs: all given conditions must hold. Without a condition: all of them."""

    task: Name | None = None
    queue: Name | None = None
    owner: Annotated[Text, Meta(description="Runs of jobs of this owner. Archived runs are left out.")] | None = None


class RunsOfJobQuery(_RunConditions, frozen=True):
    page_size: PageSize = 50
    cursor: Cursor | None = None


class RunQuery(RunConditions, frozen=True):
    page_size: PageSize = 50
    cursor: Cursor | None = None


class JobStatusAnswer(Struct, frozen=True, kw_only=True):
    """The state of a job."""

    job_id: str
    status: JobStatus
    last_run: RunSummary | None
    next_run: datetime | None
    retry_count: int
    attempts: int
    failure_reason: str | None
    certain: bool = True
    """False for a job whose run may be in a stream (`IN_STREAM`)."""


class ReasonView(Struct, frozen=True, kw_only=True):
    """One reason why a run or a job waits."""

    code: ReasonCode
    text: str
    """The reason in words. Times are relative to `at`."""
    fix: str | None
    """What to do about it; null: nothing, it passes by itself."""
    until: datetime | None
    """When it passes, if known."""
    runs: tuple[str, ...]
    """Runs that it waits for, at most five."""
    jobs: tuple[str, ...]


class WhyView(Struct, frozen=True, kw_only=True):
    """Why a run or a job waits."""

    job_id: str
    run_id: str | None
    """The run that waits; null for a job that has none."""
    at: datetime
    reasons: tuple[ReasonView, ...]
    """The first one holds it now; empty if it does not wait."""

    @property
    def in_words(self) -> str | None:
        """What holds it now, with what to do; None if it does not wait."""
        return in_words(self.reasons[0].text, self.reasons[0].fix) if self.reasons else None


class DeadLetterView(Struct, frozen=True, kw_only=True):
    """A run that used up its attempts."""

    run_id: str
    job_id: str
    name: str | None
    owner: str | None
    task: str
    queue: str
    priority: PriorityName
    attempt: int
    lost: int
    failure: FailureName | None
    error: str | None
    due_at: datetime
    died_at: datetime
    fingerprint: str | None
    """Equal for errors of one kind."""


class DeadLetterGroup(Struct, frozen=True, kw_only=True):
    """Dead letters with the same kind of error."""

    fingerprint: str
    count: int
    failure: FailureName | None
    error: str | None
    """The error of the newest one."""
    tasks: tuple[str, ...]
    first_died_at: datetime
    last_died_at: datetime
    newest_run: str


class DeadLetterGroups(Stale, frozen=True):
    groups: tuple[DeadLetterGroup, ...]
    counted: int
    """How many dead letters were read, the newest ones."""
    more: bool
    """Whether there are older ones that were not read."""


class DeadLetterGroupQuery(Request, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=200, description="Maximum number of groups, the largest first.")] = 50


class DeadLetterPage(Stale, frozen=True):
    items: tuple[DeadLetterView, ...]
    next_cursor: str | None
    """Pass it as `cursor` to get the next page; null at the end. A page before the end may be short, or even empty."""


class _DeadLetterConditions(Request, frozen=True):
    job_id: JobId | None = None
    task: Name | None = None
    queue: Name | None = None
    failure: FailureName | None = None
    error: Annotated[Text, Meta(description="Text that the error contains.")] | None = None
    fingerprint: Fingerprint | None = None
    start_time: Annotated[Moment, Meta(description="Died at or after this time.")] | None = None
    end_time: Annotated[Moment, Meta(description="Died before this time.")] | None = None


class DeadLetterQuery(_DeadLetterConditions, frozen=True):
    page_size: PageSize = 50
    cursor: Cursor | None = None


class DeadLetterFilter(_DeadLetterConditions, frozen=True):
    """Which dead letters: all given conditions must hold. Without a condition: all of them."""

    run_id: RunId | None = None


class ReplayRequest(DeadLetterFilter, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    rate: Annotated[float, Meta(gt=0, le=10_000, description="Runs per second.")] = 100.0
    delay: Annotated[
        float,
        Meta(
            ge=0, le=LONGEST_DELAY, description="Seconds before the first run, so that several requests keep one rate."
        ),
    ] = 0.0


class ReplayedRun(Struct, frozen=True):
    run_id: str
    replays: str


class ReplayAnswer(Struct, frozen=True):
    runs: tuple[ReplayedRun, ...]
    more: bool
    """Whether more dead letters match: repeat the request."""


class DiscardRequest(DeadLetterFilter, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


class Discarded(Struct, frozen=True):
    discarded: int
