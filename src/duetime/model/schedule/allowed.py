"""The days that remain when some are excluded, in a zone; and a set of days without the excluded ones."""

from bisect import bisect_right
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from duetime.model.schedule.cron_days import ALL_WEEKDAYS, HORIZON, Days
from duetime.model.schedule.exclusion import WEEKDAY_NAMES, Exclusion
from duetime.model.schedule.moment import DAY, UnusableSchedule
from duetime.model.schedule.zone import day_exists

_YEARS = timedelta(days=366 * HORIZON)
_FIRST, _LAST = date(1800, 1, 1), date(9200, 1, 1)
"""No walk comes near the days beyond these."""


class AllowedDays:
    """The days that are not excluded, in a zone.

    Adjacent excluded dates form one block, with the excluded weekdays between and beside them: a walk passes a block in
    one step, however many days it has.
    """

    def __init__(self, exclusion: Exclusion, zone: ZoneInfo) -> None:
        self.weekdays = frozenset(WEEKDAY_NAMES.index(name) for name in exclusion.weekdays if name in WEEKDAY_NAMES)
        """The excluded ones."""
        if len(self.weekdays) == 7:
            raise UnusableSchedule("what it excludes leaves no day of the week")
        self._dates = frozenset(day for day in (*exclusion.dates, *exclusion.held) if _FIRST <= day < _LAST)
        self._starts: list[date] = []
        self._ends: list[date] = []
        """The first day after each block."""
        self._find_blocks()
        self._zone = zone
        self.moves = exclusion.instead == "next_day"
        """Whether an occurrence on an excluded day is moved to the next allowed day."""

    def __contains__(self, day: date, /) -> bool:
        return day not in self._dates and day.weekday() not in self.weekdays and day_exists(day, self._zone)

    def excludes(self, day: date) -> bool:
        """Whether this day is excluded, whether it exists or not: cheaper than asking whether it is contained."""
        return day in self._dates or day.weekday() in self.weekdays

    def first_from(self, day: date) -> date:
        while day not in self:
            place = bisect_right(self._starts, day) - 1
            day = self._ends[place] if place >= 0 and day < self._ends[place] else day + DAY
        return day

    def run_start(self, day: date) -> date:
        """The first of the consecutive excluded days before this one; this one if there is none."""
        while (before := day - DAY) not in self:
            place = bisect_right(self._starts, before) - 1
            day = self._starts[place] if place >= 0 and before < self._ends[place] else before
        return day

    def owes(self, day: date) -> bool:
        """Whether an occurrence on this day is owed: not for a day that the zone skipped."""
        return day_exists(day, self._zone)

    def _find_blocks(self) -> None:
        for day in sorted(self._dates):
            if self._ends and day < self._ends[-1]:
                continue
            start, end = day, day + DAY
            while (start - DAY).weekday() in self.weekdays:
                start -= DAY
            while self.excludes(end):
                end += DAY
            self._starts.append(start)
            self._ends.append(end)


class FilteredDays:
    """A set of days, without the excluded ones."""

    def __init__(self, days: Days, allowed: AllowedDays) -> None:
        self._days = days
        self._allowed = allowed
        # Decided without visiting every such day of a century.
        self._is_empty = not allowed.moves and days.weekdays <= allowed.weekdays

    @property
    def weekdays(self) -> frozenset[int]:
        allowed = ALL_WEEKDAYS - self._allowed.weekdays
        return allowed if self._allowed.moves else allowed & self._days.weekdays

    def __contains__(self, day: date, /) -> bool:
        if day not in self._allowed:
            return False
        return self.first_from(day) == day if self._allowed.moves else day in self._days

    def first_from(self, day: date) -> date | None:
        if self._is_empty:
            return None
        allowed, end = self._allowed, day + _YEARS
        found = self._days.first_from(allowed.run_start(day) if allowed.moves else day)
        while found is not None and found <= end:
            moved = allowed.first_from(found)
            if moved == found or (allowed.moves and allowed.owes(found)):
                return moved
            found = self._days.first_from(found + DAY if allowed.moves else moved)
        return None

    def last_until(self, day: date) -> date | None:
        if self._is_empty:
            return None
        allowed, end = self._allowed, day - _YEARS
        found = self._days.last_until(day)
        while found is not None and found >= end:
            moved = allowed.first_from(found)
            arrives = allowed.moves and moved <= day
            if moved == found or (arrives and allowed.owes(found)):
                return moved
            found = self._days.last_until((found if arrives else allowed.run_start(found)) - DAY)
        return None
