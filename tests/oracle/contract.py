"""The contract of docs/schedules.md, the slow way: look at every minute (or second) of a stretch of real time.

Wall times are counted in units (minutes, or seconds for lines with six fields) since year 1, so that the clock on the
wall is a list of integers, one for each unit of real time.
"""

from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_YEAR_1 = datetime(1, 1, 1, tzinfo=UTC)
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


class Expression:
    """What a cron line matches, asked one value at a time."""

    def __init__(self, line: str) -> None:
        fields = line.upper().replace("?", "*").split()
        self.unit = 60 if len(fields) == 5 else 1
        if len(fields) == 5:
            fields = ["0", *fields]
        self.fields = fields
        self.has_rhythm = fields[1].startswith("*") or fields[2].startswith("*")
        hours = [hour for hour in range(24) if _listed(fields[2], hour, 0, 23)]
        minutes = [minute for minute in range(60) if _listed(fields[1], minute, 0, 59)]
        seconds = [second for second in range(60) if _listed(fields[0], second, 0, 59)]
        self._times = [
            (hour * 3600 + minute * 60 + second) // self.unit
            for hour in hours
            for minute in minutes
            for second in seconds
        ]
        self._per_day = 86_400 // self.unit

    def matches(self, wall: int) -> bool:
        return bool(self.between(wall, wall + 1))

    def between(self, begin: int, end: int) -> list[int]:
        """The matching wall times from `begin` up to, but not including, `end`."""
        found: list[int] = []
        for day in range(begin // self._per_day, end // self._per_day + 1):
            midnight = day * self._per_day
            low, high = bisect_left(self._times, begin - midnight), bisect_left(self._times, end - midnight)
            if low < high and self.matches_day(date.fromordinal(day)):
                found += [midnight + time for time in self._times[low:high]]
        return found

    def matches_day(self, day: date) -> bool:
        _, _, _, of_month, month, of_week, *year = self.fields
        if not _listed(month, day.month, 1, 12, MONTHS) or (year and not _listed(year[0], day.year, 1970, 2199)):
            return False
        both, of_week = of_week.startswith("+"), of_week.removeprefix("+")
        by_month = any(_is_day_of_month(part, day) for part in of_month.split(","))
        by_week = any(_is_day_of_week(part, day) for part in of_week.split(","))
        if both or of_month.startswith("*") or of_week.startswith("*"):
            return by_month and by_week
        return by_month or by_week


class WithoutDays(Expression):
    """A line on the days that are left: what falls on another day is skipped, or moved to the next one."""

    def __init__(self, line: str, days: list[date], allowed: Callable[[date], bool], *, moves: bool) -> None:
        super().__init__(line)
        self._left: set[date] = set()
        for day in days:
            if not super().matches_day(day):
                continue
            target = day
            while moves and not allowed(target):
                target += timedelta(days=1)
            if allowed(target):
                self._left.add(target)

    def matches_day(self, day: date) -> bool:
        return day in self._left


def _listed(text: str, value: int, low: int, high: int, names: list[str] | None = None) -> bool:
    return any(_fits(part, value, low, high, names) for part in text.split(","))


def _fits(part: str, value: int, low: int, high: int, names: list[str] | None = None) -> bool:
    span, _, step = part.partition("/")
    if span == "*":
        first, last = low, high
    else:
        begin, dash, end = span.partition("-")
        first = names.index(begin[:3]) + low if names and begin[:3] in names else int(begin)
        last = high if step and not dash else first
        if dash:
            last = names.index(end[:3]) + low if names and end[:3] in names else int(end)
        if last < first:  # it passes the end, and goes on from the beginning
            last += high - low + 1
            value += high - low + 1 if value < first else 0
    return first <= value <= last and (value - first) % int(step or "1") == 0


def _is_day_of_month(part: str, day: date) -> bool:
    length = monthrange(day.year, day.month)[1]
    if part == "L" or part.startswith("L-"):
        return day.day == length - int(part[2:] or "0")
    if part == "LW":
        last = date(day.year, day.month, length)
        while last.weekday() > 4:
            last -= timedelta(days=1)
        return day == last
    if part.endswith("W"):
        if int(part[:-1]) > length or day.weekday() > 4:
            return False
        named = date(day.year, day.month, int(part[:-1]))
        weekdays = [date(day.year, day.month, each) for each in range(1, length + 1)]
        return day == min((each for each in weekdays if each.weekday() < 5), key=lambda each: abs(each - named))
    return _fits(part, day.day, 1, 31)


def _is_day_of_week(part: str, day: date) -> bool:
    number = day.isoweekday() % 7
    if part.endswith("L"):
        return _fits(part[:-1], number, 0, 6, WEEKDAYS) and (day + timedelta(days=7)).month != day.month
    if "#" in part:
        name, _, nth = part.partition("#")
        return _fits(name, number, 0, 6, WEEKDAYS) and (day.day - 1) // 7 + 1 == int(nth)
    return _fits(part, number, 0, 6, WEEKDAYS) or (number == 0 and _fits(part, 7, 0, 6, WEEKDAYS))


class Run(NamedTuple):
    """Units of real time in a row through which the clock ran on undisturbed."""

    start: int
    wall: int
    length: int


class Stretch:
    """A stretch of real time, and what the clock on the wall showed at each unit of it."""

    def __init__(self, zone: str, begin: datetime, end: datetime, unit: int) -> None:
        self.begin = begin
        self.end = end
        self._unit = unit
        self._per_day = 86_400 // unit
        self._runs: list[Run] = []
        place = ZoneInfo(zone)
        minute = timedelta(minutes=1)
        moment, ahead = begin, None
        # Clocks are changed at whole minutes in the years looked at, so looking once a minute sees it all.
        while moment < end:
            shown = moment.astimezone(place).utcoffset()
            if shown != ahead:
                self._start_run(moment, shown)
                ahead = shown
            moment += minute
        self._start_run(end, None)
        self.days = {
            wall // self._per_day for run in self._runs for wall in range(run.wall, run.wall + run.length, 60 // unit)
        }
        """Days of which at least one moment exists."""

    def _start_run(self, moment: datetime, ahead: timedelta | None) -> None:
        index = int((moment - self.begin).total_seconds()) // self._unit
        if self._runs:
            last = self._runs.pop()
            self._runs.append(last._replace(length=index - last.start))
        if ahead is not None:
            seconds = int((moment - _YEAR_1 + ahead).total_seconds()) + 86_400
            assert seconds % 60 == 0, f"{moment} is not a whole minute on this clock"
            self._runs.append(Run(index, seconds // self._unit, 0))

    def fires_of(self, lines: str) -> list[datetime]:
        """Every moment at which one of these lines fires."""
        return sorted({fire for line in lines.split(";") for fire in self.fires(Expression(line))})

    def fires(self, expression: Expression) -> list[datetime]:
        """Every moment of this stretch at which the line fires."""
        assert expression.unit == self._unit
        found = self._rhythm(expression) if expression.has_rhythm else self._fixed(expression)
        return [self.begin + timedelta(seconds=index * self._unit) for index in sorted(found)]

    def _fixed(self, expression: Expression) -> set[int]:
        """Each wall time fires when the clock first shows it or a later one."""
        found = set()
        reached = self._runs[0].wall - 1
        for run in self._runs:
            if self._existing(expression, reached + 1, run.wall):
                found.add(run.start)
            end = run.wall + run.length
            found |= {run.start + wall - run.wall for wall in expression.between(max(run.wall, reached + 1), end)}
            reached = max(reached, end - 1)
        return found

    def _rhythm(self, expression: Expression) -> set[int]:
        """Whenever the clock shows a matching time; and right after a gap, unless each missing time has a stand-in
        that is as far behind the gap as the missing time was behind its begin."""
        found = set()
        before = self._runs[0].wall
        for run in self._runs:
            end = run.wall + run.length
            found |= {run.start + wall - run.wall for wall in expression.between(run.wall, end)}
            missing = self._existing(expression, before, run.wall)
            if any(not expression.matches(wall + run.wall - before) for wall in missing):
                found.add(run.start)
            before = end
        return found

    def reach(self, wall: int) -> datetime | None:
        """When the clock first shows this wall time or a later one; None for a day that does not exist. The wall time
        must lie inside the stretch."""
        assert self._runs[0].wall < wall < self._runs[-1].wall + self._runs[-1].length
        if wall // self._per_day not in self.days:
            return None
        run = next(run for run in self._runs if run.wall + run.length > wall)
        return self.begin + timedelta(seconds=(run.start + max(0, wall - run.wall)) * self._unit)

    def walls(self) -> tuple[int, int]:
        """The first wall time, and the one after the last."""
        return self._runs[0].wall, self._runs[-1].wall + self._runs[-1].length

    def _existing(self, expression: Expression, begin: int, end: int) -> list[int]:
        """Matching wall times that lie on a day that exists."""
        return [wall for wall in expression.between(begin, end) if wall // self._per_day in self.days]


def after(fires: list[datetime], moment: datetime) -> list[datetime]:
    return fires[bisect_right(fires, moment) :]


def until(fires: list[datetime], moment: datetime) -> datetime | None:
    index = bisect_right(fires, moment)
    return fires[index - 1] if index else None


def step_through_calendar(wall: datetime, months: int, days: int) -> datetime:
    """Months first, to the last day of a month that is too short; then days."""
    year, month = wall.year, wall.month
    for _ in range(months):
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)
    day = wall.day
    while True:
        try:
            found = wall.replace(year=year, month=month, day=day)
        except ValueError:
            day -= 1
        else:
            return found + timedelta(days=days)
