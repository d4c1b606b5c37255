"""The parts of schedules: intervals, delays and bounds, each validated."""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from duetime.errors import InvalidInput
from duetime.model.schedule.every import Every
from duetime.model.schedule.exclusion import Exclusion, check_exclusion
from duetime.model.schedule.iso_interval import is_repeating, parse_repeating
from duetime.model.schedule.moment import check_moment
from duetime.model.schedule.once import Once
from duetime.model.schedule.period import Period, parse_exact, parse_period, walk_calendar
from duetime.model.schedule.rrule import RRule
from duetime.model.schedule.stored import Recurring
from duetime.model.schedule.zone import change_at, reach, wall_of, zone_named

SHORTEST_INTERVAL = timedelta(seconds=1)
_USUAL = 40
"""Characters of a delay and of a zone that are remembered: a text may be as long as a request."""


def make_every(every: timedelta | str | float, zone: str) -> Every:
    """An interval, or a repeating interval such as `R5/2026-01-01T00:00:00Z/PT1H`."""
    start, count, interval = parse_repeating(every) if is_repeating(every) else (None, None, every)
    period = parse_period(interval, "every")
    if not period.in_calendar and period.exact < SHORTEST_INTERVAL:
        raise InvalidInput(f"{interval} is too short", field="every", remedy="at least 1s")
    return Every(period.exact, start, period.months, period.days, zone, count=count)


def delayed(run_in: timedelta | str | float, zone: str, now: datetime | None) -> Once:
    """After a delay. An exact delay is counted on the database's clock, a calendar delay from `now`."""
    period = _delay(run_in, zone)
    if not period.in_calendar:
        return Once(delay=period.exact)
    if now is None:
        raise InvalidInput(
            f"{run_in!r} counts in calendar units, which requires the current day",
            field="run_in",
            remedy="use run_at, or a duration in hours",
        )
    try:
        wall = walk_calendar(wall_of(now, zone_named(zone)), period.months, period.days).replace(fold=0)
        if not period.exact:
            return once_at(wall, zone, "run_in")
        return Once(at=check_moment(reach(wall, zone_named(zone)) + period.exact, "run_in"))
    except OverflowError:
        raise InvalidInput(f"{run_in!r} is out of range", field="run_in") from None


def once_at(wall: datetime, zone: str, field: str) -> Once:
    """Once, when the clock of a zone first shows this time or a later one."""
    place = zone_named(zone)
    at = check_moment(reach(wall, place), field)
    return Once(at=at) if change_at(wall, place) is None else Once(at=at, asked=wall, place=zone)


def bounded(
    schedule: Recurring,
    *,
    start_at: datetime | str | None = None,
    end_at: datetime | str | None = None,
    exclude: Exclusion | dict[str, Any] | None = None,
) -> Recurring:
    """The same schedule with bounds and excluded days. An interval without an anchor starts at `start_at`."""
    changes: dict[str, Any] = {}
    start = None if start_at is None else check_moment(start_at, "start_at")
    if start is not None:
        unanchored = isinstance(schedule, Every) and schedule.anchor is None
        if unanchored:
            changes["anchor"] = start
        if not unanchored or schedule.said is not None:
            changes["start_at"] = start  # with words, their own start is kept apart from the requested one
    if end_at is not None:
        changes["end_at"] = end = check_moment(end_at, "end_at")
        if start is not None and end < start:
            raise InvalidInput("is before start_at", field="end_at")
    if exclude is not None:
        changes["exclude"] = exclusion = check_exclusion(exclude)
        if isinstance(schedule, Every) and schedule.interval and exclusion.instead == "next_day":
            raise InvalidInput(
                "`next_day` requires an interval in calendar days",
                field="exclude.instead",
                remedy="use skip, or an interval in days, such as P1D",
            )
        if isinstance(schedule, RRule) and exclusion.instead == "next_day" and not schedule.can_move_days:
            raise InvalidInput(
                "`next_day` requires a rule with the same times every day",
                field="exclude.instead",
                remedy="use skip, or an INTERVAL that divides a day evenly",
            )
    return msgspec.structs.replace(schedule, **changes) if changes else schedule


def counts_in_calendar(run_in: timedelta | str | float, zone: str) -> bool:
    """Whether a delay depends on the current day."""
    return _delay(run_in, zone).in_calendar


def _delay(run_in: timedelta | str | float, zone: str) -> Period:
    """Most jobs have the same few delays, and each is asked for twice."""
    is_short = len(run_in) <= _USUAL if type(run_in) is str else isinstance(run_in, int | float | timedelta)
    return _known_delay(run_in, zone) if is_short and len(zone) <= _USUAL else _read_delay(run_in, zone)


@lru_cache(maxsize=1024, typed=True)
def _known_delay(run_in: timedelta | str | float, zone: str) -> Period:
    return _read_delay(run_in, zone)


def _read_delay(run_in: timedelta | str | float, zone: str) -> Period:
    period = None
    if zone == "UTC":
        try:
            period = Period(exact=parse_exact(run_in, "run_in"))  # a day of UTC always has 24 hours
        except InvalidInput:
            if not isinstance(run_in, str) or not run_in.startswith("P"):
                raise
    return period or parse_period(run_in, "run_in")
