"""Jobs as requests and answers have them."""

from datetime import date, datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from duetime.model.listing import JobStatus
from duetime.model.policy import MisfireMode, Overlap
from duetime.model.schedule.exclusion import MOST_CALENDARS, MOST_DATES
from duetime.model.target import AnyTarget, Target
from duetime.wire.fields import (
    Args,
    JobId,
    Length,
    Moment,
    Name,
    PageQuery,
    PriorityName,
    RateText,
    Request,
    Text,
    Zone,
)

Names = Annotated[tuple[Name, ...], Meta(max_length=50)]
Delivery = Literal["at_least_once", "at_most_once"]
Retries = Annotated[int, Meta(ge=0, le=1000)]
RuleText = Annotated[
    str,
    Meta(
        max_length=500,
        description="A recurrence rule of RFC 5545, such as `DTSTART:20260105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2`.",
    ),
]
DayMatch = Annotated[
    Literal["either", "both"],
    Meta(description="Whether a day must match the day of month or the day of week of a cron line, or both."),
]


class RetryBody(Request, frozen=True):
    """When a run is tried again. Times are seconds."""

    retries: Retries = 3
    """Attempts after the first one."""
    base: Annotated[float, Meta(ge=0)] = 5.0
    factor: Annotated[float, Meta(ge=0)] = 2.0
    cap: Annotated[float, Meta(ge=0)] = 3600.0
    retry_on: Names = ()
    give_up_on: Names = ()
    lost_retries: Retries = 3


class MisfireBody(Request, frozen=True):
    """What becomes of occurrences that nobody fired in time. Times are seconds."""

    mode: MisfireMode = "latest"
    after: Annotated[float, Meta(ge=0)] = 60.0
    most: Annotated[int, Meta(ge=1, le=1000)] = 100
    age: Annotated[float, Meta(gt=0)] = 86_400.0


class ExcludeBody(Request, frozen=True):
    """Days to leave out: dates, days of the week (MON to SUN), and the tenant's calendars by name."""

    dates: Annotated[tuple[date, ...], Meta(max_length=MOST_DATES)] = ()
    weekdays: Annotated[tuple[str, ...], Meta(max_length=7)] = ()
    calendars: Annotated[tuple[Name, ...], Meta(max_length=MOST_CALENDARS)] = ()
    instead: Literal["skip", "next_day"] = "skip"


class DependsOnBody(Request, frozen=True):
    """The jobs that a job waits for: jobs that run once."""

    jobs: Annotated[tuple[JobId, ...], Meta(min_length=1, max_length=10_000)]
    need: Literal["all", "any"] = "all"
    on: Literal["success", "finished"] = "success"
    otherwise: Annotated[Literal["cancel", "run"], Meta(description="When it cannot get what it needs.")] = "cancel"


class AfterBody(Request, frozen=True):
    """Runs whenever a run of another job has ended."""

    job: JobId
    on: Literal["success", "failure", "any"] = "success"


class JobRequest(Request, frozen=True):
    """A job to create: a task and its arguments, or a target, and when. Without a time it runs now."""

    task: Annotated[Name, Meta(description="What to do: the name of a task that workers have.")] | None = None
    target: Annotated[Target, Meta(description="What duetime does itself: a call or a command.")] | None = None
    callback_url: (
        Annotated[str, Meta(max_length=4096, description="Short for an HTTP target: a POST of `args` to this URL.")]
        | None
    ) = None
    args: Args | None = None
    payload_ref: (
        Annotated[Text, Meta(description="A stored payload (`pay_…`), or any text that means something to the task.")]
        | None
    ) = None
    name: Text | None = None
    owner: Annotated[Text, Meta(description="The user of the tenant that it belongs to.")] | None = None
    run_at: Moment | None = None
    run_in: Length | None = None
    cron: Annotated[str, Meta(max_length=500)] | None = None
    every: Length | None = None
    when: (
        Annotated[
            str,
            Meta(max_length=500, description="Words, such as `every weekday at 9am`; or any other schedule as text."),
        ]
        | None
    ) = None
    rrule: RuleText | None = None
    after: AfterBody | None = None
    depends_on: Annotated[tuple[JobId, ...], Meta(max_length=10_000)] | DependsOnBody | None = None
    tz: Zone | None = None
    day_match: DayMatch | None = None
    start_at: Moment | None = None
    end_at: Moment | None = None
    exclude: ExcludeBody | None = None
    queue: Annotated[Name, Meta(description="What its task says, or `default`, unless given.")] | None = None
    priority: Annotated[PriorityName, Meta(description="What its task says, or `MEDIUM`, unless given.")] | None = None
    retries: Retries | None = None
    retry: RetryBody | None = None
    timeout: Length | None = None
    delivery: Annotated[Delivery, Meta(description="What its task says, or `at_least_once`, unless given.")] | None = (
        None
    )
    misfire: MisfireMode | MisfireBody | None = None
    overlap: Overlap | None = None
    jitter: Length | None = None
    max_runs: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    key: (
        Annotated[
            Text, Meta(description="Names one live job: the same again changes nothing, another one replaces it.")
        ]
        | None
    ) = None
    tags: Names = ()
    idempotency_key: Text | None = None
    concurrency_key: (
        Annotated[Text, Meta(description="At most `concurrency` runs with this key run at once, of all jobs.")] | None
    ) = None
    concurrency: Annotated[int, Meta(ge=1, le=1_000_000, description="1 unless given.")] | None = None
    rate_key: Annotated[Text, Meta(description="At most `rate` runs with this key start, of all jobs.")] | None = None
    rate: RateText | None = None
    warn_after: (
        Annotated[Length, Meta(description="A run that takes longer is told of (`run.slow`), and goes on.")] | None
    ) = None


class JobPatch(Request, frozen=True):
    """What shall be different about a job. A schedule is given whole: its kind and its bounds."""

    args: Args | UnsetType = UNSET
    payload_ref: Text | UnsetType | None = UNSET
    target: Target | UnsetType = UNSET
    name: Text | UnsetType | None = UNSET
    owner: Text | UnsetType | None = UNSET
    run_at: Moment | UnsetType = UNSET
    run_in: Length | UnsetType = UNSET
    cron: Annotated[str, Meta(max_length=500)] | UnsetType = UNSET
    every: Length | UnsetType = UNSET
    when: Annotated[str, Meta(max_length=500)] | UnsetType = UNSET
    rrule: RuleText | UnsetType = UNSET
    tz: Zone | UnsetType = UNSET
    day_match: DayMatch | UnsetType = UNSET
    start_at: Moment | UnsetType | None = UNSET
    end_at: Moment | UnsetType | None = UNSET
    exclude: ExcludeBody | UnsetType | None = UNSET
    queue: Name | UnsetType = UNSET
    priority: PriorityName | UnsetType = UNSET
    retries: Retries | UnsetType = UNSET
    retry: RetryBody | UnsetType = UNSET
    timeout: Length | UnsetType | None = UNSET
    delivery: Delivery | UnsetType = UNSET
    misfire: MisfireMode | MisfireBody | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    jitter: Length | UnsetType = UNSET
    max_runs: Annotated[int, Meta(ge=1, le=2**31)] | UnsetType | None = UNSET
    concurrency_key: Text | UnsetType | None = UNSET
    concurrency: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET
    rate_key: Text | UnsetType | None = UNSET
    rate: RateText | UnsetType | None = UNSET
    warn_after: Length | UnsetType | None = UNSET
    tags: Names | UnsetType = UNSET


class Receipt(Struct, frozen=True):
    """A job that is stored: it survives the death of every process."""

    job_id: str
    status: JobStatus
    next_run: datetime | None
    run_id: str | None
    """Known at once when it is due soon."""
    created: bool
    """False when `key` led to a job that was there before."""
    warnings: tuple[str, ...] = ()


class ItemProblem(Struct, frozen=True, omit_defaults=True):
    """What is wrong with one item of a batch."""

    index: int
    code: str
    detail: str
    field: str | None = None
    remedy: str | None = None


class BatchItem(Struct, frozen=True, omit_defaults=True):
    """What became of one item: a receipt, or a problem."""

    index: int
    job: Receipt | None = None
    problem: ItemProblem | None = None


class BatchQuery(Request, frozen=True):
    partial: Annotated[bool, Meta(description="Store what can be stored, instead of all or nothing.")] = False


class BatchAnswer(Struct, frozen=True):
    stored: int
    refused: int
    items: tuple[BatchItem, ...]


class ScheduleView(Struct, frozen=True):
    kind: Literal["once", "cron", "every", "after", "rrule"]
    exact: str
    """As it may be written again."""
    sentence: str
    tz: str
    words: str | None = None
    """What it was told in, if that was words."""
    counted_from: datetime | None = None
    """The moment from which an interval is counted; it fires itself only where `exact` names it."""
    start_at: datetime | None = None
    end_at: datetime | None = None
    exclude: ExcludeBody | None = None


class JobSummary(Struct, frozen=True, kw_only=True):
    """A job in a list: everything but its payload."""

    job_id: str
    name: str | None
    owner: str | None
    task: str
    queue: str
    priority: PriorityName
    status: JobStatus
    recurring: bool
    schedule: ScheduleView
    next_run: datetime | None
    key: str | None
    tags: tuple[str, ...]
    payload_ref: str | None
    version: int
    created_at: datetime
    problem: str | None
    """Why it was set aside, when it could not be processed."""


class JobView(JobSummary, frozen=True, kw_only=True):
    """A job."""

    args: dict[str, Any]
    args_problem: str | None
    """Why `args` and `target` cannot be shown: they are encrypted with a key that the server does not have."""
    target: AnyTarget | None
    """What duetime does itself; `args` is empty then."""
    timeout: float | None
    """Seconds."""
    retry: RetryBody
    delivery: Delivery
    misfire: MisfireBody
    overlap: Overlap
    jitter: float
    """Seconds."""
    max_runs: int | None
    concurrency_key: str | None
    concurrency: int
    rate_key: str | None
    rate: str | None
    warn_after: float | None
    """Seconds."""
    made: int
    missed: int


class JobPage(Struct, frozen=True):
    items: tuple[JobSummary, ...]
    next_cursor: str | None
    """Give it back as `cursor` for the next page; null at the end. A page may be short, even empty, before the end."""


class JobQuery(PageQuery, frozen=True):
    status: JobStatus | None = None
    owner: Text | None = None
    name: Text | None = None
    task: Name | None = None
    queue: Name | None = None
    tag: Name | None = None
    key: Text | None = None
    recurring: bool | None = None
    start_time: Annotated[Moment, Meta(description="Due at or after.")] | None = None
    end_time: Annotated[Moment, Meta(description="Due before.")] | None = None
    fires_from: (
        Annotated[Moment, Meta(description="With a run at or after this moment, and before `fires_until`.")] | None
    ) = None
    fires_until: Annotated[Moment, Meta(description="Up to 35 days from now.")] | None = None


class StatusAnswer(Struct, frozen=True):
    job_id: str
    status: JobStatus


class Deleted(Struct, frozen=True):
    deleted: Literal[True] = True


class BackfillRequest(Request, frozen=True):
    start: Moment
    end: Moment
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    rate: Annotated[float, Meta(gt=0, le=1000, description="Runs a second.")] = 10.0


class Backfilled(Struct, frozen=True):
    job_id: str
    runs: int
