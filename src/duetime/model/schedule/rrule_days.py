"""The days of a recurrence rule.

dateutil computes which days of a year a rule names. It stops searching only at the end of its calendar, in 9999: a rule
that names no day would keep it busy for minutes. So it is asked about the last 28 years of that calendar, which end
soon, and which contain every kind of year. Kinds of years differ in their first weekday and in leap days. Nothing else
matters to a rule but its INTERVAL, which is arithmetic. So any year is found without walking there from DTSTART.
"""

from bisect import bisect_left, bisect_right
from calendar import isleap
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import Literal

from dateutil import rrule

from duetime.model.schedule.cron_days import ALL_WEEKDAYS, HORIZON
from duetime.model.schedule.rrule_parts import DAILY, FREQUENCIES, Parts

YearKind = tuple[int, bool, bool]
Offsets = tuple[int, ...]
"""Days of a year, counted from 0."""

_FIRST_YEAR, _LAST_YEAR = 9971, 9998
_YEARS_KEPT = 64
_EVERY_DAY = tuple(range(1, 32))
_FREQUENCIES: tuple[Literal[0, 1, 2], ...] = (0, 1, 2)
"""The same numbers as dateutil's."""
_MONTHLY, _WEEKLY = FREQUENCIES.index("MONTHLY"), FREQUENCIES.index("WEEKLY")


class RRuleDays:
    """The days that a rule names, whatever its times are."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.every_day = parts.frequency >= DAILY and not (parts.months or parts.month_days or parts.weekdays)
        self.every_day = self.every_day and not parts.year_days and (parts.frequency > DAILY or parts.interval == 1)
        self._interval = parts.interval if parts.frequency <= DAILY else 1
        self._by_kind: dict[YearKind, Offsets] = {}
        self._found: dict[int, Offsets] = {}

    @property
    def weekdays(self) -> frozenset[int]:
        return frozenset(day for day, _ in self._parts.weekdays) or ALL_WEEKDAYS

    def __contains__(self, day: date, /) -> bool:
        offsets, offset = self.of_year(day.year), day.toordinal() - _new_year(day.year)
        at = bisect_left(offsets, offset)
        return at < len(offsets) and offsets[at] == offset

    def first_from(self, day: date) -> date | None:
        for year in range(day.year, min(day.year + HORIZON, 9990) + 1):
            offsets, start = self.of_year(year), _new_year(year)
            at = bisect_left(offsets, day.toordinal() - start)
            if at < len(offsets):
                return date.fromordinal(start + offsets[at])
        return None

    def last_until(self, day: date) -> date | None:
        earliest = 1900 if self._parts.begin is None else self._parts.begin.year
        for year in range(day.year, max(day.year - HORIZON, earliest) - 1, -1):
            offsets, start = self.of_year(year), _new_year(year)
            at = bisect_right(offsets, day.toordinal() - start)
            if at:
                return date.fromordinal(start + offsets[at - 1])
        return None

    def of_year(self, year: int) -> Offsets:
        found = self._found.get(year)
        if found is None:
            if len(self._found) >= _YEARS_KEPT:
                self._found.clear()
            found = self._found[year] = self._counted(year)
        return found

    def _counted(self, year: int) -> Offsets:
        """The days of a year on which the interval falls."""
        begin, interval = self._parts.begin, self._interval
        if interval == 1 or begin is None:
            return self._named(year)
        frequency, start = self._parts.frequency, _new_year(year)
        if frequency == DAILY:
            first = begin.toordinal()
            return tuple(offset for offset in self._named(year) if (start + offset - first) % interval == 0)
        if frequency == _WEEKLY:
            ahead = 1 + self._parts.week_start
            week = (begin.toordinal() - ahead) // 7
            named = self._named(year)
            return tuple(offset for offset in named if ((start + offset - ahead) // 7 - week) % interval == 0)
        if frequency == _MONTHLY:
            months = year * 12 - begin.year * 12 - begin.month
            wanted = {month for month in range(1, 13) if (months + month) % interval == 0}
            named = self._named(year)
            return tuple(offset for offset in named if date.fromordinal(start + offset).month in wanted)
        return self._named(year) if (year - begin.year) % interval == 0 else ()

    def _named(self, year: int) -> Offsets:
        kind = _kind(year)
        found = self._by_kind.get(kind)
        if found is None:
            first = _years()[kind]
            ahead = self._look(first, first)
            if not ahead:  # it has searched all following years: search all years once, and never again
                ahead = self._look(_FIRST_YEAR, _LAST_YEAR)
                self._by_kind = {_kind(each): () for each in range(_FIRST_YEAR, _LAST_YEAR + 1)}
            self._by_kind |= {_kind(each): tuple(days) for each, days in ahead.items()}
            found = self._by_kind[kind]
        return found

    def _look(self, first: int, last: int) -> dict[int, list[int]]:
        """The days that the rule names in these last years of the calendar, by year."""
        parts = self._parts
        start, month_days = date(first, 1, 1), parts.month_days
        # The days of all matching months are those of all matching days, for a thirtieth of the work.
        frequency = _MONTHLY if parts.frequency >= DAILY else parts.frequency
        if parts.frequency >= DAILY and not (month_days or parts.weekdays):
            month_days = _EVERY_DAY
        if frequency == _WEEKLY:
            start -= timedelta(days=(start.weekday() - parts.week_start) % 7)
        named = rrule.rrule(
            _FREQUENCIES[frequency],
            dtstart=datetime.combine(start, time()),
            until=datetime(last, 12, 31),  # noqa: DTZ001 - wall times
            wkst=parts.week_start,
            bysetpos=parts.positions or None,
            bymonth=parts.months or None,
            bymonthday=month_days or None,
            byyearday=parts.year_days or None,
            byweekno=parts.weeks or None,
            byweekday=[rrule.weekday(day, number or None) for day, number in parts.weekdays] or None,
            byhour=0,
            byminute=0,
            bysecond=0,
        )
        found: dict[int, list[int]] = {}
        for wall in named:
            if wall.year >= first:
                found.setdefault(wall.year, []).append(wall.toordinal() - _new_year(wall.year))
        return found


def _new_year(year: int) -> int:
    return date(year, 1, 1).toordinal()


def _kind(year: int) -> YearKind:
    return date(year, 1, 1).weekday(), isleap(year), isleap(year - 1)


@cache
def _years() -> dict[YearKind, int]:
    """A year of each kind: the last one, after which least is left to search."""
    return {_kind(year): year for year in range(_FIRST_YEAR, _LAST_YEAR + 1)}
