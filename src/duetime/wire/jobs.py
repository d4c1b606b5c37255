"""Requests and answers about jobs."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from duetime.model.lists import JobStatus
from duetime.model.target import AnyTarget, Target
from duetime.spec.bodies import ExcludeBody
from duetime.spec.derived import OF_EDITS, OPTIONS, answer_struct, patch_struct, request_struct
from duetime.spec.fields import Args, Moment, Name, PriorityName, Request, Text
from duetime.spec.shown import SHOWN
from duetime.wire.fields import Cursor, InStreamView, PageSize, Stale


class JobWhat(Request, frozen=True):
    """What a job does."""

    task: Annotated[Name, Meta(description="The name of a task that workers provide.")] | None = None
    target: Annotated[Target, Meta(description="What duetime executes itself: a call or a command.")] | None = None
    callback_url: (
        Annotated[str, Meta(max_length=4096, description="Short for an HTTP target: a POST of `args` to this URL.")]
        | None
    ) = None
    args: Args | None = None
    once: Annotated[bool, Meta(description="Refuse a schedule that recurs.")] = False


class PatchWhat(Request, frozen=True):
    """What a job does, where that changes."""

    args: Args | UnsetType = UNSET
    target: Target | UnsetType = UNSET


class Receipt(Struct, frozen=True):
    """A stored job: it survives the death of every process."""

    job_id: str
    status: JobStatus
    next_run: datetime | None
    run_id: str | None
    """Set if the job is due soon."""
    created: bool
    """False when `key` led to an existing job."""
    via: Literal["store", "stream"] = "store"
    """Whether its run is a message in the stream of its queue, or a row in the store."""
    warnings: tuple[str, ...] = ()


class ItemProblem(Struct, frozen=True, omit_defaults=True):
    """What is wrong with one item of a batch."""

    index: int
    code: str
    detail: str
    field: str | None = None
    remedy: str | None = None


class BatchItem(Struct, frozen=True, omit_defaults=True):
    """The result of one item: a receipt, or a problem."""

    index: int
    job: Receipt | None = None
    problem: ItemProblem | None = None


class BatchQuery(Request, frozen=True):
    partial: Annotated[bool, Meta(description="Store the valid items, instead of all or nothing.")] = False


class BatchAnswer(Struct, frozen=True):
    stored: int
    refused: int
    items: tuple[BatchItem, ...]


class ScheduleView(Struct, frozen=True):
    kind: Literal["once", "cron", "every", "after", "rrule"]
    exact: str
    """The canonical text, which can be submitted again."""
    sentence: str
    tz: str
    words: str | None = None
    """The words that it was given in, if any."""
    counted_from: datetime | None = None
    """The moment from which an interval is counted. It is itself a fire only if `exact` names it."""
    start_at: datetime | None = None
    end_at: datetime | None = None
    exclude: ExcludeBody | None = None


class _Job(Struct, frozen=True, kw_only=True):
    job_id: str
    name: str | None
    owner: str | None
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
    """Why it was set aside, if it could not be processed."""


class JobSummary(_Job, frozen=True, kw_only=True):
    """A job in a list: everything but its payload."""

    task: str
    queue: str
    priority: PriorityName
    fires: int | None = None
    """With `fires_from`: how many of its runs are due in that time."""


class _Shown(_Job, frozen=True, kw_only=True):
    certain: bool
    """False for a job whose run may be in a stream (`IN_STREAM`): only its ids and its time are known."""
    task: str | None
    queue: str | None
    priority: PriorityName | None
    args: dict[str, Any]
    args_problem: str | None
    """Why `args` and `target` cannot be shown: they are encrypted with a key that the server does not have."""
    target: AnyTarget | None
    """What duetime executes itself; `args` is empty then."""
    made: int
    missed: int


if TYPE_CHECKING:

    class JobRequest(JobWhat, frozen=True):
        def __getattr__(self, name: str) -> Any: ...

    class JobPatch(PatchWhat, frozen=True):
        def __getattr__(self, name: str) -> Any: ...

    class JobView(_Shown, frozen=True):
        def __getattr__(self, name: str) -> Any: ...
else:
    JobRequest = request_struct(
        *("JobRequest", OPTIONS.values(), JobWhat),
        doc="A job to create: a task and its arguments, or a target, and a schedule. Without a schedule it runs now.",
    )
    JobPatch = patch_struct(
        *("JobPatch", OF_EDITS.values(), PatchWhat),
        doc="Changes to a job. With a new time, the schedule keeps its zone, its bounds and its excluded days.",
    )
    _IN_A_LIST = JobSummary.__struct_fields__
    JobView = answer_struct(
        "JobView", [each for name, each in SHOWN.items() if name not in _IN_A_LIST], _Shown, doc="A job."
    )


class JobPage(Stale, frozen=True):
    items: tuple[JobSummary, ...]
    next_cursor: str | None
    """Pass it as `cursor` to get the next page; null at the end. A page before the end may be short, or even empty."""
    searched_to: datetime | None = None
    """Where the next page begins: jobs that were created after this moment have been looked at. Null at the end, and in
    a list by name."""
    in_streams: tuple[InStreamView, ...] = ()
    """What is in the streams of the tenant's queues: the jobs of those runs are not in the list."""


class JobConditions(Request, frozen=True):
    """Which jobs: all given conditions must hold. Without a condition: all of them."""

    search: (
        Annotated[
            Text,
            Meta(
                description="Part of the name, task, a tag, the owner or key, or the beginning of the id, in any case."
            ),
        ]
        | None
    ) = None
    status: JobStatus | None = None
    owner: Text | None = None
    name: Text | None = None
    task: Name | None = None
    queue: Name | None = None
    tag: Name | None = None
    key: Text | None = None
    recurring: bool | None = None
    start_time: Annotated[Moment, Meta(description="Due at or after this time.")] | None = None
    end_time: Annotated[Moment, Meta(description="Due before this time.")] | None = None


class JobQuery(JobConditions, frozen=True):
    page_size: PageSize = 50
    cursor: Cursor | None = None
    order: Annotated[
        Literal["newest", "name", "-name"],
        Meta(
            description="`name`: only jobs with a name, by name; `-name`: the other way round. Not with `search`,"
            " `owner`, `name`, `tag`, `key` and `fires_from`."
        ),
    ] = "newest"
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
    rate: Annotated[float, Meta(gt=0, le=1000, description="Runs per second.")] = 10.0


class Backfilled(Struct, frozen=True):
    job_id: str
    runs: int
