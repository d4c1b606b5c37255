"""Options whose value is a JSON object."""

from datetime import date
from typing import Annotated, Literal

from msgspec import Meta

from duetime.model.policy import MisfireMode
from duetime.model.schedule.exclusion import MOST_CALENDARS, MOST_DATES
from duetime.spec.fields import JobId, Name, Names, Request

Retries = Annotated[int, Meta(ge=0, le=1000)]


class RetryBody(Request, frozen=True):
    """When a run is retried. Times are seconds."""

    retries: Retries = 3
    """Attempts after the first one."""
    base: Annotated[float, Meta(ge=0)] = 5.0
    factor: Annotated[float, Meta(ge=0)] = 2.0
    cap: Annotated[float, Meta(ge=0)] = 3600.0
    retry_on: Names = ()
    give_up_on: Names = ()
    lost_retries: Retries = 3


class MisfireBody(Request, frozen=True):
    """What happens to occurrences that no node fired in time. Times are seconds."""

    mode: MisfireMode = "latest"
    after: Annotated[float, Meta(ge=0)] = 60.0
    most: Annotated[int, Meta(ge=1, le=1000)] = 100
    age: Annotated[float, Meta(gt=0)] = 86_400.0


class ExcludeBody(Request, frozen=True):
    """Days to exclude: dates, days of the week (MON to SUN), and the tenant's calendars by name."""

    dates: Annotated[tuple[date, ...], Meta(max_length=MOST_DATES)] = ()
    weekdays: Annotated[tuple[str, ...], Meta(max_length=7)] = ()
    calendars: Annotated[tuple[Name, ...], Meta(max_length=MOST_CALENDARS)] = ()
    instead: Literal["skip", "next_day"] = "skip"


class DependsOnBody(Request, frozen=True):
    """The jobs that a job waits for. They must run once."""

    jobs: Annotated[tuple[JobId, ...], Meta(min_length=1, max_length=10_000)]
    need: Literal["all", "any"] = "all"
    on: Literal["success", "finished"] = "success"
    otherwise: Annotated[
        Literal["cancel", "run"], Meta(description="What happens when the condition can no longer be met.")
    ] = "cancel"


class AfterBody(Request, frozen=True):
    """Run whenever a run of another job has ended."""

    job: JobId
    on: Literal["success", "failure", "any"] = "success"
