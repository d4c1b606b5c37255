"""Schedules, queues, workers, tasks, payloads, logins and health as requests and answers have them."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from duetime.model.schedule import DayMatch
from duetime.spec.bodies import ExcludeBody
from duetime.spec.fields import Length, Moment, RateText, Request, ScheduleText, Zone
from duetime.wire.jobs import ScheduleView


class PreviewRequest(Request, frozen=True):
    """A schedule, given as a job would give it; or `schedule`, any of them as one text."""

    schedule: Annotated[str, Meta(max_length=500)] | None = None
    run_at: Moment | None = None
    run_in: Length | None = None
    cron: Annotated[str, Meta(max_length=500)] | None = None
    every: Length | None = None
    when: Annotated[str, Meta(max_length=500)] | None = None
    rrule: ScheduleText | None = None
    tz: Zone | None = None
    day_match: DayMatch | None = None
    start_at: Moment | None = None
    end_at: Moment | None = None
    exclude: ExcludeBody | None = None
    start: Annotated[Moment, Meta(description="The moment to look from; now when it is left out.")] | None = None
    count: Annotated[int, Meta(ge=1, le=1000)] = 5


class Fire(Struct, frozen=True):
    local: datetime
    utc: datetime
    change: Literal["moved", "first", "second"] | None
    """What a change of the clocks makes of it."""
    note: str | None


class Preview(Struct, frozen=True):
    schedule: ScheduleView
    fires: tuple[Fire, ...]
    reason: str | None = None
    """Why there are none."""


class DepthView(Struct, frozen=True):
    high: int
    medium: int
    low: int
    capped: bool
    """At least one of the numbers is only what was counted: there may be more."""


class QueueView(Struct, frozen=True):
    name: str
    paused: bool
    paused_at: datetime | None
    depth: DepthView
    running_limit: int | None
    rate: str | None
    running: int | None
    """How many run; counted only where `running_limit` is set."""
    held_back: int
    """How many wait because of their keys: for a slot, or for their rate."""


class QueueList(Struct, frozen=True):
    items: tuple[QueueView, ...]


class QueueRequest(Request, frozen=True):
    """How a queue shall be; what is not given stays. null takes a limit away."""

    paused: bool | UnsetType = UNSET
    running: Annotated[int, Meta(ge=1, le=1_000_000, description="At most so many run at once.")] | UnsetType | None = (
        UNSET
    )
    rate: RateText | UnsetType | None = UNSET


class WorkerView(Struct, frozen=True):
    worker_id: str
    name: str
    tasks: tuple[str, ...]
    queues: tuple[str, ...]
    slots: int
    started_at: datetime
    lease_until: datetime
    heard_at: datetime
    """When it was heard of last."""
    version: str
    """What it is made of, as it says itself."""
    alive: bool
    """Whether its lease is not over."""


class WorkerList(Struct, frozen=True):
    items: tuple[WorkerView, ...]


class TaskView(Struct, frozen=True):
    name: str
    workers: int
    queues: tuple[str, ...]
    """The queues that those workers serve; none: all of them."""


class TaskList(Struct, frozen=True):
    items: tuple[TaskView, ...]


class PayloadStored(Struct, frozen=True):
    payload_ref: str
    size: int


class LoginRequest(Request, frozen=True):
    key: Annotated[str, Meta(min_length=1, max_length=200)]


class LoginQuery(Request, frozen=True):
    token: Annotated[str, Meta(max_length=200)]


class Health(Struct, frozen=True):
    status: Literal["ok"]
