"""Every option of a job, declared once.

The class that holds an option says where it may be given: as a tenant's default, on a task, with a submission, with a
schedule, in an edit. `| None` means that an edit may remove it. Type checkers read these classes through `Unpack`. The
API's requests and patches, the defaults of tenants and tasks, command-line flags, the OpenAPI document, the dashboard's
form and the reference derive from them (`spec/derived.py`). An option without `Option` exists in Python only.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from duetime.model.name import check_key
from duetime.model.policy import Misfire, MisfireMode, Overlap
from duetime.model.retry import RetryPolicy
from duetime.model.schedule import DayMatch, Exclusion, zone_name
from duetime.spec import flags, kinds
from duetime.spec.bodies import AfterBody, DependsOnBody, ExcludeBody, MisfireBody, RetryBody
from duetime.spec.dependencies import Needs
from duetime.spec.fields import (
    DeliveryName,
    JobId,
    Length,
    Moment,
    Name,
    Names,
    PriorityName,
    RateText,
    ScheduleText,
    Text,
    Zone,
)
from duetime.spec.identity import JobLike
from duetime.spec.kinds import Kind, Option

DAY = 86_400

NameText = Annotated[str, Kind(Name, kinds.read_name, is_checked=True)]
KeyText = Annotated[str, Kind(Text, check_key)]
Tags = Annotated[Sequence[str], Kind(Names, kinds.read_tags, answer=tuple[str, ...], flag=list[str], is_checked=True)]
Count = Annotated[int, Kind(int, kinds.read_count, flag=int, is_checked=True)]
Rate = Annotated[str, Kind(RateText, kinds.read_rate, answer=str)]
Duration = Annotated[str | float | timedelta, Kind(Length, kinds.read_seconds, kinds.write_length, answer=float)]
RawDuration = Annotated[str | float | timedelta, Kind(Length, write=kinds.write_length)]
RawMoment = Annotated[datetime | str, Kind(Moment, write=kinds.write_moment)]
RawSchedule = Annotated[str, Kind(ScheduleText)]
RawZone = Annotated[str | tzinfo, Kind(Zone, kinds.read_zone, write=zone_name)]
Priority = Annotated[Literal["HIGH", "MEDIUM", "LOW"], Kind(PriorityName, kinds.read_tier, show=lambda tier: tier.name)]
Delivery = Annotated[
    Literal["at_least_once", "at_most_once"], Kind(DeliveryName, kinds.read_at_most_once, show=kinds.show_delivery)
]
Retry = Annotated[
    RetryPolicy,
    Kind(RetryBody, kinds.read_retry, kinds.write_retry, show=kinds.show_retry, typed=flags.typed_json),
]
MisfirePolicy = Annotated[
    Misfire | MisfireMode,
    Kind(
        MisfireMode | MisfireBody,
        kinds.read_misfire,
        kinds.write_misfire,
        answer=MisfireBody,
        show=kinds.show_misfire,
        typed=flags.typed_json_or_text,
    ),
]
OverlapPolicy = Annotated[Overlap, Kind(Overlap, kinds.read_overlap, is_checked=True)]
Days = Annotated[
    Exclusion | Mapping[str, Any],
    Kind(ExcludeBody, kinds.read_exclude, kinds.write_exclude, flag=list[str], typed=flags.typed_days),
]
Parents = Annotated[
    Sequence[JobLike] | Needs,
    Kind(
        Annotated[tuple[JobId, ...], Meta(max_length=10_000)] | DependsOnBody,
        kinds.read_parents,
        kinds.write_parents,
        flag=list[str],
    ),
]
Chain = Annotated[
    JobLike | Mapping[str, Any],
    Kind(AfterBody, kinds.read_chain, kinds.write_chain, typed=flags.typed_chain),
]


class TaskOptions(TypedDict, total=False):
    """Options of a task, which its jobs inherit; also of one job, and in an edit."""

    queue: Annotated[NameText, Option("The queue that runs wait in. `default` unless the task says otherwise.")]
    priority: Annotated[Priority, Option("`HIGH`, `MEDIUM` or `LOW`. `MEDIUM` unless the task says otherwise.")]
    retries: Annotated[Count, Option("Attempts after the first one.", example=3, at_least=0, at_most=1000)]
    retry: Annotated[Retry, Option("When a failed attempt is retried, and after which errors.")]
    timeout: Annotated[
        Duration | None,
        Option("How long one attempt may take.", example="30s", at_least=0.001, at_most=7 * DAY),
    ]
    expires_in: Annotated[
        Duration | None,
        Option(
            "A run that has not started this long after its due time ends as SKIPPED.",
            example="1h",
            at_least=1,
            at_most=30 * DAY,
        ),
    ]
    delivery: Annotated[
        Delivery, Option("`at_most_once`: an attempt that lost its worker is not repeated. Default: `at_least_once`.")
    ]
    concurrency_key: Annotated[
        KeyText | None, Option("At most `concurrency` runs with this key run at once, across all jobs of the tenant.")
    ]
    concurrency: Annotated[
        Count,
        Option("Maximum concurrent runs with `concurrency_key`. Default: 1.", at_least=1, at_most=1_000_000),
    ]
    rate_key: Annotated[
        KeyText | None, Option("At most `rate` runs with this key start, across all jobs of the tenant.")
    ]
    rate: Annotated[
        Rate | None, Option("Maximum starts of runs with `rate_key` in a period: `100/m`, `10/30s`.", example="100/m")
    ]
    warn_after: Annotated[
        Duration | None,
        Option(
            "A run that takes longer is reported as slow (`run.slow`). It is not stopped.",
            example="5m",
            at_least=1,
            at_most=7 * DAY,
        ),
    ]
    retention: Annotated[
        Duration | None,
        Option(
            "How long the database keeps ended runs, instead of the setting `retention`. Rounded up to days.",
            example="90d",
            at_least=DAY,
            at_most=36_525 * DAY,
        ),
    ]
    archive_retention: Annotated[
        Duration | None,
        Option(
            "How long the archive keeps ended runs, instead of the setting `archive_retention`. 0: not at all.",
            example="730d",
            at_least=0,
            at_most=36_525 * DAY,
        ),
    ]


class JobOptions(TaskOptions, total=False):
    """Options of one job."""

    name: Annotated[KeyText | None, Option("A name for people.")]
    tags: Annotated[Tags, Option("Up to 50 words to filter by.", example=["billing"], flag="--tag")]
    owner: Annotated[KeyText | None, Option("The user of the tenant who owns the job.")]
    payload_ref: Annotated[
        KeyText | None,
        Option("A stored payload (`pay_…`), or any text that the task interprets.", flag="--payload"),
    ]


class Zoned(TypedDict, total=False):
    tz: Annotated[RawZone, Option("The time zone of the schedule, such as `Europe/Berlin`. Default: `UTC`.")]


class Words(Zoned, total=False):
    """A schedule in words, and its time zone."""

    when: Annotated[RawSchedule, Option("Words, such as `every weekday at 9am`; or any other schedule as text.")]


class Once(TypedDict, total=False):
    """When a one-off job runs."""

    run_at: Annotated[RawMoment, Option("When the job runs.", example="2027-01-31T09:00:00Z", flag="--at")]
    run_in: Annotated[RawDuration, Option("The delay after which the job runs.", example="10m", flag="--in")]


class Policies(TypedDict, total=False):
    """What happens to the occurrences of a recurring job."""

    misfire: Annotated[
        MisfirePolicy, Option("What happens to occurrences that no node fired in time: `latest`, `skip` or `all`.")
    ]
    overlap: Annotated[
        OverlapPolicy,
        Option("What an occurrence does while a run of the job has not ended: `allow`, `skip`, `queue` or `replace`."),
    ]
    jitter: Annotated[Duration, Option("Each fire is delayed by a random time up to this.", example="30s", at_most=DAY)]


class Recurring(Policies, total=False):
    """When a recurring job runs, and its policies."""

    cron: Annotated[RawSchedule, Option("A cron line.", example="0 9 * * MON-FRI")]
    every: Annotated[RawDuration, Option("An interval.", example="15m")]
    rrule: Annotated[
        RawSchedule,
        Option("A recurrence rule of RFC 5545.", example="DTSTART:20260105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2"),
    ]
    day_match: Annotated[
        DayMatch,
        Kind(DayMatch),
        Option("Whether a day must match `either` the day of month or the day of week of a cron line, or `both`."),
    ]
    start_at: Annotated[RawMoment | None, Option("The job does not run before this time.", flag="--from")]
    end_at: Annotated[RawMoment | None, Option("The job does not run after this time.", flag="--until")]
    exclude: Annotated[
        Days | None,
        Option("Days to exclude: dates, days of the week (MON to SUN) and the tenant's calendars.", flag="--not-on"),
    ]
    max_runs: Annotated[Count | None, Option("The job ends after this many runs.", at_least=1, at_most=2**31)]


class Identity(TypedDict, total=False):
    """What makes a submission identical to another."""

    key: Annotated[
        KeyText,
        Option(
            "Identifies one live job: an equal submission changes nothing, a different one replaces the job.",
            flag="--job-key",
        ),
    ]
    idempotency_key: Annotated[KeyText, Option("A repeated request with the same key gets the first answer.")]


class Waits(TypedDict, total=False):
    depends_on: Annotated[Parents, Option("The jobs that this job waits for. They must run once.", example=["job_…"])]


class Chained(TypedDict, total=False):
    after: Annotated[
        Chain, Option("The job runs whenever a run of this other job has ended: with `success`, `failure` or `any`.")
    ]


class Within(TypedDict, total=False):
    """Options that exist in Python only."""

    connection: object
    """Your own open connection, or SQLAlchemy session: the job commits or rolls back with its transaction."""


class TenantOptions(TaskOptions, Zoned, Policies, total=False):
    """Defaults for the jobs of a tenant."""


class OneOffOptions(JobOptions, Words, Once, Identity, Waits, total=False):
    """Options of a job that runs once."""


class SubmitOptions(OneOffOptions, Within, total=False):
    """The same in Python."""


class ScheduleOptions(JobOptions, Words, Recurring, Identity, Chained, total=False):
    """Options of a recurring job."""


class RequestOptions(OneOffOptions, ScheduleOptions, total=False):
    """Options of any job, in a request to a server."""


class EditOptions(JobOptions, Words, Once, Recurring, total=False):
    """What an edit may change. None removes an option."""
