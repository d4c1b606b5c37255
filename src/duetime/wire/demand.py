"""What a queue needs, for autoscalers."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from duetime.spec.fields import Length, RateText, Request

MOST_MINUTES = 60

DurationSource = Literal["given", "recent", "earlier", "assumed"]


class DemandQuery(Request, frozen=True):
    minutes: Annotated[
        int,
        Meta(ge=0, le=MOST_MINUTES, description="How far to look ahead: at least as long as a worker takes to start."),
    ] = 5
    slots: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=100_000,
                description="Runs that one worker runs at once. Default: the average of the queue's live workers, or"
                " the server's setting `slots`.",
            ),
        ]
        | None
    ) = None
    lag: Annotated[Length, Meta(description="How late a run may start: a second to an hour. Default: 10s.")] = 10.0
    duration: Annotated[Length, Meta(description="How long a run takes on average. Default: as measured.")] | None = (
        None
    )
    rate: (
        Annotated[
            RateText,
            Meta(description="How many runs one worker can start, if that is less than its slots allow: `2000/s`."),
        ]
        | None
    ) = None


class DemandView(Struct, frozen=True, kw_only=True):
    """How many workers a queue needs, and why."""

    queue: str
    at: datetime
    workers: int
    """Workers wanted: the higher of the next two. Zero if nothing waits, runs or comes."""
    workers_now: int
    """For what waits and runs, and for a minute of submissions at the measured rate."""
    workers_ahead: int
    """For everything that becomes due within `minutes`."""
    peak_at: datetime | None
    """From when on the most are needed; null: from now on."""
    waiting: int
    """Due runs that wait in the store."""
    running: int
    in_streams: int
    """Messages in the queue's streams, including those that workers hold."""
    oldest_age: float
    """Seconds for which the oldest due run has waited."""
    arrival_rate: float
    """Runs that became due per second, in the last minute."""
    coming: int
    """Runs that become due within `minutes`, as far as schedules tell."""
    live_workers: int
    """Live workers that serve the queue."""
    live_slots: int
    paused: bool
    """Whether the queue is paused or its tenant is suspended: then only what runs needs workers."""
    minutes: int
    slots: int
    lag: float
    duration: float
    """Seconds."""
    duration_from: DurationSource
    """`recent` runs of the queue, `earlier` runs of it or of the jobs that come next; `assumed` without any."""
    rate: str | None
    exact: bool
    """False: a bound was reached, or something could not be read; `notes` say what."""
    notes: tuple[str, ...]
