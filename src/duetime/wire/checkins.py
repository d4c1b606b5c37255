"""Requests and answers about check-ins."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from duetime.spec.fields import Request

Seconds = Annotated[float, Meta(ge=0, le=31_622_400)]
CheckInStatus = Literal["new", "up", "running", "late", "overran", "failed", "paused"]


class CheckInRequest(Request, frozen=True):
    """When a job that runs elsewhere must report: after each `every` seconds, or at each occurrence of `cron`."""

    every: Annotated[float, Meta(ge=10, le=31_622_400, description="Seconds from one ping to the next.")] | None = None
    cron: Annotated[str, Meta(min_length=1, max_length=500, description="Such as `0 4 * * *`.")] | None = None
    tz: Annotated[str, Meta(min_length=1, max_length=100, description="The time zone of `cron`.")] = "UTC"
    grace: Annotated[Seconds, Meta(description="Seconds that a ping may be late.")] = 300.0
    max_runtime: (
        Annotated[
            float, Meta(ge=1, le=31_622_400, description="Seconds from a start to its end; by default the grace.")
        ]
        | None
    ) = None
    description: Annotated[str, Meta(max_length=1000)] | None = None
    paused: Annotated[bool, Meta(description="Expect nothing for now.")] = False


class CheckInView(Struct, frozen=True):
    name: str
    status: CheckInStatus
    """`new`: it was not pinged yet, and expects nothing before it is."""
    every: float | None
    cron: str | None
    tz: str
    grace: float
    max_runtime: float | None
    description: str | None
    paused: bool
    open: bool
    """Whether it is wrong, and was reported."""
    text: str | None
    """What it reported when it last opened or closed."""
    expected_at: datetime | None
    """When the next ping is expected."""
    last_ping: Literal["start", "success", "fail"] | None
    last_ping_at: datetime | None
    last_success_at: datetime | None
    exit_code: int | None
    note: str | None
    """The text that came with the last ping."""
    pings: int
    changed_at: datetime | None
    created_at: datetime
    ping_url: str | None = None
    """Where to send pings. Shown only when the check-in is created or its token is rotated; without `public_url` in
    the settings it is only a path."""


class CheckInList(Struct, frozen=True):
    items: tuple[CheckInView, ...]


class PingAnswer(Struct, frozen=True):
    ok: bool = True
