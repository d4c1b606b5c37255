"""The days that are left when some are excluded, in a zone; and a set of days with those laid over it."""

from datetime import date, timedelta
from zoneinfo import ZoneInfo

from duetime.model.schedule.exclusion import WEEKDAY_NAMES, Exclusion
from duetime.model.schedule.line import HORIZON, Days
from duetime.model.schedule.moment import DAY, UnusableSchedule
from duetime.model.schedule.zone import day_exists

_YEARS = timedelta(days=366 * HORIZON)


class AllowedDays:
    """The days that are not excluded, in a zone."""

    def __init__(self, exclusion: Exclusion, zone: ZoneInfo) -> None:
        self._dates = frozenset((*exclusion.dates, *exclusion.held))
        self._weekdays = frozenset(WEEKDAY_NAMES.index(name) for name in exclusion.weekdays if name in WEEKDAY_NAMES)
        if len(self._weekdays) == 7:
            raise UnusableSchedule("what it excludes leaves no day of the week")
        self._zone = zone
        self.moves = exclusion.instead == "next_day"
        """Whether what falls on another day is moved to the next of these days."""

    def __contains__(self, day: date, /) -> bool:
        return day not in self._dates and day.weekday() not in self._weekdays and day_exists(day, self._zone)

    def first_from(self, day: date) -> date:
        while day not in self:
            day += DAY
        return day

    def run_start(self, day: date) -> date:
        """The first of the days that lead up to this one and are all left out; this one if there is none."""
        while day - DAY not in self:
            day -= DAY
        return day

    def owes(self, day: date) -> bool:
        """Whether what falls on this day is owed: nothing is, for a day that the zone skipped."""
        return day_exists(day, self._zone)


class FilteredDays:
    """A set of days, without those that are excluded."""

    def __init__(self, days: Days, allowed: AllowedDays) -> None:
        self._days = days
        self._allowed = allowed

    def __contains__(self, day: date, /) -> bool:
        if day not in self._allowed:
            return False
        return self.first_from(day) == day if self._allowed.moves else day in self._days

    def first_from(self, day: date) -> date | None:
        allowed, end = self._allowed, day + _YEARS
        found = self._days.first_from(allowed.run_start(day) if allowed.moves else day)
        while found is not None and found <= end:
            moved = allowed.first_from(found)
            if moved == found or (allowed.moves and allowed.owes(found)):
                return moved
            found = self._days.first_from(found + DAY if allowed.moves else moved)
        return None

    def last_until(self, day: date) -> date | None:
        allowed, end = self._allowed, day - _YEARS
        found = self._days.last_until(day)
        while found is not None and found >= end:
            moved = allowed.first_from(found)
            arrives = allowed.moves and moved <= day
            if moved == found or (arrives and allowed.owes(found)):
                return moved
            found = self._days.last_until((found if arrives else allowed.run_start(found)) - DAY)
        return None
