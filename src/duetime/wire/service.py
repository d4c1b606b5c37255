"""Requests and answers about schedules, queues, workers, tasks, payloads, logins and health."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from duetime.model.schedule import DayMatch
from duetime.spec.bodies import ExcludeBody
from duetime.spec.fields import Length, Moment, RateText, Request, ScheduleText, Zone
from duetime.wire.fields import InStreamView
from duetime.wire.jobs import ScheduleView
from duetime.wire.runs import RunStateName


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


class StreamView(Struct, frozen=True):
    """The stream of a queue."""

    broker: str
    """`redis`, `kafka`, `sqs` or `amqp`."""
    address: str | None
    """Where the broker is, without its password. Only a root key sees it."""
    only: bool
    """Whether runs that cannot be carried are refused, instead of stored."""
    fallback: bool
    """Whether runs are stored while the broker is unavailable, instead of refused."""
    max_depth: int | None
    """Runs are refused while more messages are in the stream."""
    replicas: int | None
    generation: int
    """Raised when the address changes."""


class QueueView(Struct, frozen=True):
    name: str
    paused: bool
    paused_at: datetime | None
    depth: DepthView
    running_limit: int | None
    rate: str | None
    running: int
    """Running runs. With a `running_limit` exact, otherwise at most five seconds old."""
    held_back: int
    """Runs that wait because of their keys: for a slot, or for their rate."""
    kind: Literal["store", "stream"] = "store"
    """Where its plain runs wait that are due now."""
    stream: StreamView | None = None
    earlier_streams: int = 0
    """Earlier streams of the queue that may still hold runs; they are consumed until they are empty."""
    in_streams: tuple[InStreamView, ...] = ()
    """What is in its streams, as far as brokers answer; `depth` counts only what is in the store."""
    notes: tuple[str, ...] = ()
    """What to know about the stream, such as how durable a run in it is."""
    oldest_at: datetime | None = None
    """Since when the first due run waits in the store; null if none waits."""
    arrival_rate: float = 0.0
    """Runs that became due per second, over the last minute."""
    completion_rate: float = 0.0
    """Runs that ended per second, over the last minute."""


class QueueList(Struct, frozen=True):
    items: tuple[QueueView, ...]


class StreamRequest(Request, frozen=True):
    """How the runs of a queue go through a stream; omitted fields stay unchanged."""

    address: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=2000,
                description="`redis://…`, `kafka://…`, `sqs://…` or `amqp://…`.",
            ),
        ]
        | UnsetType
    ) = UNSET
    only: Annotated[bool, Meta(description="Refuse runs that cannot be carried.")] | UnsetType = UNSET
    fallback: Annotated[bool, Meta(description="Store runs while the broker is unavailable.")] | UnsetType = UNSET
    max_depth: (
        Annotated[int, Meta(ge=1, le=10**12, description="Refuse runs while more messages are in the stream.")]
        | UnsetType
        | None
    ) = UNSET
    replicas: (
        Annotated[int, Meta(ge=1, le=100, description="Redis: how many replicas must have a run.")] | UnsetType | None
    ) = UNSET


class QueueRequest(Request, frozen=True):
    """The settings of a queue; omitted ones stay unchanged. null removes a limit. A stream needs a root key; null:
    the runs go through the store again."""

    paused: bool | UnsetType = UNSET
    running: Annotated[int, Meta(ge=1, le=1_000_000, description="Maximum running runs.")] | UnsetType | None = UNSET
    rate: RateText | UnsetType | None = UNSET
    stream: StreamRequest | UnsetType | None = UNSET


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
    running: int | None = None
    """How many of its slots are in use; at most some seconds old. Only root keys see it for a worker that serves all
    tenants, because runs of other tenants count too."""


class HeldRunView(Struct, frozen=True):
    """A run that a worker held when it ended."""

    run_id: str
    task: str
    status: RunStateName
    """What became of it by now."""


class PastWorkerView(Struct, frozen=True):
    """A worker that ended within a day."""

    worker_id: str
    name: str
    state: Literal["LOST", "ENDED"]
    """`LOST`: its lease expired. `ENDED`: it stopped by itself."""
    reason: str
    ended_at: datetime
    started_at: datetime
    heard_at: datetime
    tasks: tuple[str, ...]
    """At most 20 of them."""
    task_count: int
    queues: tuple[str, ...]
    slots: int
    version: str
    held: int
    """How many runs of the tenant it held when it ended."""
    runs: tuple[HeldRunView, ...]
    """Some of these, with what became of them."""


class WorkerList(Struct, frozen=True):
    items: tuple[WorkerView, ...]
    past: tuple[PastWorkerView, ...] = ()
    """The workers that left or were lost within a day, newest first, at most 100."""


class TaskView(Struct, frozen=True):
    name: str
    workers: int
    queues: tuple[str, ...]
    """The queues that those workers serve; none: all of them."""


class TaskDetails(TaskView, frozen=True):
    arguments: dict[str, Any] | None
    """The JSON schema of its arguments; null: not known."""


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
