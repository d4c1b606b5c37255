"""The meaning and the next fires of a schedule, before a job uses it."""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

import msgspec

from duetime.clock import SystemClock
from duetime.errors import InvalidInput
from duetime.model.calendar import Calendar, dates_of
from duetime.model.schedule import (
    ComingFire,
    DayMatch,
    Exclusion,
    Once,
    Schedule,
    bounded,
    check_moment,
    check_zone,
    exact_form,
    explain,
    match_days,
    parse_schedule,
    why_nothing,
)
from duetime.model.schedule import preview as coming
from duetime.model.schedule.preview import MOST

FEW = 5


class Preview(msgspec.Struct, frozen=True):
    """A schedule in words, in its exact form, and its next fires."""

    kind: str
    """at, in, cron, rrule, every or now."""
    exact: str
    zone: str
    sentence: str
    fires: list[ComingFire]
    reason: str | None = None
    """Why there are no fires."""


def preview(
    schedule: str,
    *,
    tz: str | tzinfo | None = None,
    day_match: DayMatch | None = None,
    start: datetime | str | None = None,
    count: int = FEW,
    start_at: datetime | str | None = None,
    end_at: datetime | str | None = None,
    exclude: Exclusion | dict[str, Any] | None = None,
    calendars: Sequence[Calendar] | None = None,
    usual_zone: str = "UTC",
) -> Preview:
    """The next fires of a schedule: a cron line, a recurrence rule, an interval, a moment or words.

    `tz` is `usual_zone` unless it is given, or the text names a zone. `start` is the moment to look from, now by
    default. Needs no database; `App.preview` also knows the tenant's calendars and its default time zone.
    """
    moment = SystemClock().now() if start is None else check_moment(start, "start")
    zone = None if tz is None else check_zone(tz)
    made = parse_schedule(schedule, zone=zone, now=moment, usual_zone=usual_zone)
    if day_match is not None:
        made = match_days(made, day_match)
    bounds: dict[str, Any] = {"start_at": start_at, "end_at": end_at, "exclude": exclude}
    if not isinstance(made, Once):
        made = bounded(made, **bounds)
    elif given := next((name for name, value in bounds.items() if value is not None), None):
        raise InvalidInput("is only valid for recurring schedules", field=given, remedy="omit it")
    if not isinstance(made, Once) and made.calendars:
        if calendars is None:
            raise InvalidInput(
                "cannot be previewed without a database",
                field="exclude.calendars",
                remedy="use app.preview",
            )
        made = made.holding(dates_of(made.calendars, calendars))
    return preview_of(made, str(getattr(made, "zone", usual_zone)) if zone is None else zone, moment, count)


def preview_of(schedule: Schedule, zone: str, start: datetime, count: int) -> Preview:
    """The same for a parsed schedule."""
    if type(count) is not int or not 1 <= count <= MOST:
        raise InvalidInput(f"{count!r} is out of range", field="count", remedy=f"1 to {MOST}")
    kind, _, form = exact_form(schedule).partition(" ")
    fires = coming(schedule, zone, start, count)
    reason = None if fires else why_nothing(schedule, start)
    return Preview(kind, form or kind, zone, explain(schedule, zone), fires, reason)
