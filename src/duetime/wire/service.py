"""Requests and answers about schedules, queues, workers, tasks, payloads, logins and health."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from duetime.model.schedule import DayMatch
from duetime.spec.bodies import ExcludeBody
from duetime.spec.fields import Length, Moment, RateText, Request, ScheduleText, Zone
from duetime.wire.jobs import ScheduleView


class PreviewRequest(Request, frozen=True):
    """A schedule in the same form as for a job; or `schedule`, any schedule as one text."""

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
    start: Annotated[Moment, Meta(description="The moment to start from. Default: now.")] | None = None
    count: Annotated[int, Meta(ge=1, le=1000)] = 5


class Fire(Struct, frozen=True):
    local: datetime
    utc: datetime
    change: Literal["moved", "first", "second"] | None
    """The effect of a clock change on it."""
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
    """Whether a number is only a lower bound: counting stops at a cap."""


class QueueView(Struct, frozen=True):
    name: str
    paused: bool
    paused_at: datetime | None
    depth: DepthView
    running_limit: int | None
    rate: str | None
    running: int | None
    """Running runs; counted only if `running_limit` is set."""
    held_back: int
    """Runs that wait because of their keys: for a slot, or for their rate."""


class QueueList(Struct, frozen=True):
    items: tuple[QueueView, ...]


class QueueRequest(Request, frozen=True):
    """The settings of a queue; omitted ones stay unchanged. null removes a limit."""

    paused: bool | UnsetType = UNSET
    running: Annotated[int, Meta(ge=1, le=1_000_000, description="Maximum running runs.")] | UnsetType | None = UNSET
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
    """When it last sent a heartbeat."""
    version: str
    """The software version that the worker reports."""
    alive: bool
    """Whether its lease is valid."""


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
