"""What a schedule means and when it fires, before any job has it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from duetime.clock import SystemClock
from duetime.errors import InvalidInput
from duetime.model.calendar import Calendar, dates_of
from duetime.model.schedule import (
    ComingFire,
    Exclusion,
    Once,
    Schedule,
    bounded,
    check_moment,
    check_zone,
    exact_form,
    explain,
    parse_schedule,
)
from duetime.model.schedule import preview as coming
from duetime.model.schedule.previewing import MOST

FEW = 5


class Preview(msgspec.Struct, frozen=True):
    """A schedule in words, in its exact form, and its next fires."""

    kind: str
    """at, in, cron, every or now."""
    exact: str
    zone: str
    sentence: str
    fires: list[ComingFire]


def preview(
    schedule: str,
    *,
    tz: str = "UTC",
    start: datetime | str | None = None,
    count: int = FEW,
    start_at: datetime | str | None = None,
    end_at: datetime | str | None = None,
    exclude: Exclusion | dict[str, Any] | None = None,
    calendars: Sequence[Calendar] | None = None,
) -> Preview:
    """The next fires of a schedule: a cron line, a duration, a repeating interval, a moment or words.

    `start` is the moment to look from, now by default. Needs no database; `App.preview` knows a tenant's calendars.
    """
    zone, moment = check_zone(tz), SystemClock().now() if start is None else check_moment(start, "start")
    made = parse_schedule(schedule, zone=zone, now=moment)
    bounds: dict[str, Any] = {"start_at": start_at, "end_at": end_at, "exclude": exclude}
    if not isinstance(made, Once):
        made = bounded(made, **bounds)
    elif given := next((name for name, value in bounds.items() if value is not None), None):
        raise InvalidInput("goes with what repeats", field=given, remedy="leave it out")
    if not isinstance(made, Once) and made.calendars:
        if calendars is None:
            raise InvalidInput(
                "calendars live in a database", field="exclude.calendars", remedy="ask app.preview, which has one"
            )
        made = made.holding(dates_of(made.calendars, calendars))
    return preview_of(made, zone, moment, count)


def preview_of(schedule: Schedule, zone: str, start: datetime, count: int) -> Preview:
    """The same for a schedule that has been made."""
    if type(count) is not int or not 1 <= count <= MOST:
        raise InvalidInput(f"{count!r} is out of range", field="count", remedy=f"1 to {MOST}")
    kind, _, form = exact_form(schedule).partition(" ")
    return Preview(kind, form or kind, zone, explain(schedule, zone), coming(schedule, zone, start, count))
