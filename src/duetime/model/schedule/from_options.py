"""From a caller's options to a schedule; errors name the invalid option."""

from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from duetime.errors import InvalidInput, not_a_choice
from duetime.model.schedule.cron import Cron, make_cron, on_both_days
from duetime.model.schedule.cron_hash import is_hashed
from duetime.model.schedule.dialect import read_cron
from duetime.model.schedule.exclusion import Exclusion
from duetime.model.schedule.moment import check_moment
from duetime.model.schedule.once import NOW, Once
from duetime.model.schedule.parse import parse_schedule
from duetime.model.schedule.parts import bounded, counts_in_calendar, delayed, make_every
from duetime.model.schedule.rrule import make_rrule
from duetime.model.schedule.stored import Schedule
from duetime.model.schedule.zone import check_zone

Length = timedelta | str | float
DayMatch = Literal["either", "both"]
KINDS = ("run_at", "run_in", "cron", "every", "when", "rrule")
"""The options that say when; a schedule has exactly one of them."""
BOUNDS = ("tz", "start_at", "end_at", "exclude", "day_match")
"""The options that accompany one of them."""


def make_schedule(
    *,
    run_at: datetime | str | None = None,
    run_in: Length | None = None,
    cron: str | None = None,
    every: Length | None = None,
    when: str | None = None,
    rrule: str | None = None,
    tz: str | None = None,
    day_match: DayMatch | None = None,
    start_at: datetime | str | None = None,
    end_at: datetime | str | None = None,
    exclude: Exclusion | dict[str, Any] | None = None,
    now: datetime | None = None,
    usual_zone: str = "UTC",
) -> Schedule:
    """Build a schedule from a caller's options, or refuse the invalid one.

    `now` is for schedules that depend on the current day: see `needs_now`. `usual_zone` is the zone of a schedule that
    names none.
    """
    kinds = zip(KINDS, (run_at, run_in, cron, every, when, rrule), strict=True)
    given = [name for name, value in kinds if value is not None]
    if len(given) > 1:
        raise InvalidInput(f"{' and '.join(given)} cannot be combined", field=given[1], remedy="give one of them")
    if tz is not None and (not given or given == ["run_at"]):
        raise InvalidInput("a time zone requires cron, rrule, every, when or run_in", field="tz", remedy="omit it")
    zone = usual_zone if tz is None else check_zone(tz)
    schedule: Schedule = NOW
    if cron is not None:
        schedule = read_cron(cron, tz, usual_zone)
    elif rrule is not None:
        schedule = make_rrule(rrule, tz, None if start_at is None else check_moment(start_at, "start_at"), usual_zone)
    elif every is not None:
        schedule = make_every(every, zone)
    elif when is not None:
        schedule = _said(when, tz, now, usual_zone)
    elif run_at is not None:
        schedule = Once(at=check_moment(run_at, "run_at"))
    elif run_in is not None:
        schedule = delayed(run_in, zone, now)
    if day_match is not None:
        schedule = match_days(schedule, day_match)
    bounds: dict[str, Any] = {"start_at": start_at, "end_at": end_at, "exclude": exclude}
    if not isinstance(schedule, Once):
        return bounded(schedule, **bounds)
    for name, value in bounds.items():
        if value is not None:
            raise InvalidInput(
                "requires a recurring schedule: cron, rrule, every or when", field=name, remedy="omit it"
            )
    return schedule


def needs_now(*, run_in: Length | None = None, when: str | None = None, tz: str = "UTC") -> bool:
    """Whether these options mean something else on another day: words, and delays in calendar days or months."""
    if when is not None:
        return True
    return run_in is not None and counts_in_calendar(run_in, check_zone(tz))


def match_days(schedule: Schedule, match: object) -> Schedule:
    """A cron line whose day of month and day of week must both match, or either of them, which is the default."""
    if match not in get_args(DayMatch):
        raise not_a_choice(match, get_args(DayMatch), "day_match")
    if not isinstance(schedule, Cron) or (schedule.said is not None and not is_hashed(schedule.line)):
        raise InvalidInput("requires a cron line", field="day_match", remedy="omit it")
    return schedule if match == "either" else make_cron(on_both_days(schedule.line), schedule.zone)


def _said(text: str, zone: str | None, now: datetime | None, usual_zone: str) -> Schedule:
    if now is None:
        raise InvalidInput(
            "words require the current day", field="when", remedy="set now=, or use cron, every or run_at"
        )
    try:
        return parse_schedule(text, zone=zone, now=now, usual_zone=usual_zone)
    except InvalidInput as error:
        raise InvalidInput(error.message, field="when", remedy=error.remedy) from None
