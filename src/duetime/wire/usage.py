"""Answers about what tenants have used."""

from datetime import date, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from duetime.spec.fields import Request
from duetime.wire.fields import Cursor

Format = Annotated[Literal["json", "csv"], Meta(description="`csv`: all rows as a file.")]
StartDay = Annotated[date, Meta(description="The first day, in UTC. Default: the first day of this month.")]
EndDay = Annotated[date, Meta(description="The last day. Default: today.")]


class UsageQuery(Request, frozen=True):
    start_day: StartDay | None = None
    end_day: EndDay | None = None
    by: Annotated[Literal["day", "queue"], Meta(description="A row per day, or per day and queue (31 days).")] = "day"
    format: Format = "json"


class AllUsageQuery(Request, frozen=True):
    start_day: StartDay | None = None
    end_day: EndDay | None = None
    format: Format = "json"
    page_size: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of items.")] = 200
    cursor: Cursor | None = None


class UsageView(Struct, frozen=True, kw_only=True):
    """What was used on one day, by the time at which attempts finished."""

    tenant: str
    day: date
    queue: str | None
    """Null: all queues."""
    runs: int
    """Runs that ended, except for skipped ones."""
    failed: int
    """Those among them that failed."""
    attempts: int
    """Attempts that started."""
    seconds: float
    """How long all attempts ran together."""
    bytes: int
    """Arguments, results, logs and errors, as they are stored."""
    final: bool
    """Whether the day is over and was counted since. The figures of other days may grow."""


class UsageList(Struct, frozen=True):
    items: tuple[UsageView, ...]
    counted_at: datetime | None
    """When history was last counted; null: not yet."""


class UsagePage(Struct, frozen=True):
    items: tuple[UsageView, ...]
    counted_at: datetime | None
    next_cursor: str | None
