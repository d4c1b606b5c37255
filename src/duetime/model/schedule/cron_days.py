"""The days that a cron line names: by day of month, month, day of week and year."""

from bisect import bisect_left, bisect_right
from calendar import monthrange
from datetime import date
from typing import Protocol

from duetime.model.schedule.cron_field import LAST, Field, Item

_MONTHS_KEPT = 1200
ALL_WEEKDAYS = frozenset(range(7))
_MONDAY_TO_FRIDAY = frozenset(range(5))
HORIZON = 100
"""How many years are searched for a matching day. 29 February on a given weekday may take 40."""


class Days(Protocol):
    """A set of days."""

    @property
    def weekdays(self) -> frozenset[int]:
        """They fall only on these weekdays; Monday is 0."""

    def __contains__(self, day: date, /) -> bool: ...

    def first_from(self, day: date) -> date | None:
        """The first of them on or after this day."""

    def last_until(self, day: date) -> date | None:
        """The last of them on or before this day."""


class CronDays:
    """The days that the day fields of a cron line name."""

    def __init__(self, day_of_month: Field, month: Field, day_of_week: Field, year: Field | None) -> None:
        self._of_month = frozenset(day_of_month.values)
        self._moving = day_of_month.marked
        self._of_week = frozenset((number + 6) % 7 for number in day_of_week.values)
        self._nth = day_of_week.marked
        self._either = not (day_of_month.open or day_of_week.open or day_of_week.both)
        self._months = frozenset(month.values)
        self._years = None if year is None or year.every else year.values
        self._any = day_of_month.every and day_of_week.every and self._years is None
        self._found: dict[int, tuple[int, ...]] = {}

    @property
    def weekdays(self) -> frozenset[int]:
        of_week = self._of_week | {(item.low + 6) % 7 for item in self._nth}
        on_any = self._of_month or any(item.mark == "L" for item in self._moving)
        of_month = ALL_WEEKDAYS if on_any else _MONDAY_TO_FRIDAY
        return of_month | of_week if self._either else of_month & of_week

    def __contains__(self, day: date, /) -> bool:
        return day.month in self._months and (self._any or day.day in self._days_of(day.year, day.month))

    def first_from(self, day: date) -> date | None:
        year, month, least = day.year, day.month, day.day
        if self._years is not None and year not in self._years:
            at = bisect_left(self._years, year)
            if at == len(self._years):
                return None
            year, month, least = self._years[at], 1, 1
        end = year + HORIZON if self._years is None else self._years[-1]
        while year <= end:
            if month in self._months:
                days = self._days_of(year, month)
                at = bisect_left(days, least)
                if at < len(days):
                    return date(year, month, days[at])
            year, month, least = year + month // 12, month % 12 + 1, 1
        return None

    def last_until(self, day: date) -> date | None:
        year, month, most = day.year, day.month, day.day
        if self._years is not None and year not in self._years:
            at = bisect_right(self._years, year)
            if not at:
                return None
            year, month, most = self._years[at - 1], 12, 31
        end = max(year - HORIZON, 1900) if self._years is None else self._years[0]
        while year >= end:
            if month in self._months:
                days = self._days_of(year, month)
                at = bisect_right(days, most)
                if at:
                    return date(year, month, days[at - 1])
            year, month, most = (year, month - 1, 31) if month > 1 else (year - 1, 12, 31)
        return None

    def _days_of(self, year: int, month: int) -> tuple[int, ...]:
        """The matching days in a month. Cached, because every job with these days needs it again."""
        found = self._found.get(year * 12 + month)
        if found is None:
            if len(self._found) >= _MONTHS_KEPT:
                self._found.clear()
            found = self._found[year * 12 + month] = self._look(year, month)
        return found

    def _look(self, year: int, month: int) -> tuple[int, ...]:
        if self._years is not None and year not in self._years:
            return ()
        first, length = monthrange(year, month)
        whole = range(1, length + 1)
        of_month = self._of_month | {_moved(item, first, length) for item in self._moving}
        of_week = {day for day in whole if (first + day - 1) % 7 in self._of_week}
        of_week |= {_nth_day(item, first, length) for item in self._nth}
        wanted = of_month | of_week if self._either else of_month & of_week
        return tuple(day for day in whole if day in wanted)


def _moved(item: Item, first: int, length: int) -> int:
    """The day of this month that a marked day of month means; 0 if there is none. `first` is the 1st's weekday."""
    if item.mark == "L":
        return max(length - item.low, 0)
    day = length if item.mark == "LW" else item.low
    if day > length:
        return 0
    weekday = (first + day - 1) % 7
    if weekday == 5:
        return day - 1 if day > 1 else day + 2
    if weekday == 6:
        return day + 1 if day < length else day - 2
    return day


def _nth_day(item: Item, first: int, length: int) -> int:
    earliest = ((item.low + 6) % 7 - first) % 7 + 1
    if item.nth == LAST:
        return earliest + (length - earliest) // 7 * 7
    day = earliest + (item.nth - 1) * 7
    return day if day <= length else 0
