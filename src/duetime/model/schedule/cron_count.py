"""Counts the times of a cron line between two wall times, without computing each of them.

A line that fires every second has 604,800 fires a week: counting them one by one takes seconds. Without a clock change,
the number of times per day is the product of its hours, minutes and seconds.
"""

from bisect import bisect_left, bisect_right
from datetime import date, datetime

from duetime.model.schedule.cron_line import CronLine
from duetime.model.schedule.moment import DAY


def times_between(line: CronLine, after: datetime, until: datetime) -> int:
    """The number of times in `(after, until]`. The effort grows with the days between them."""
    return _times(line, until, after.date()) - _until(line, after)


def _times(line: CronLine, until: datetime, first: date) -> int:
    """From the beginning of the day `first` on."""
    whole = len(line.hour.values) * len(line.minute.values) * len(line.second.values)
    found, day, last = 0, first, until.date()
    while day < last:
        if day in line.days:
            found += whole
        day += DAY
    return found + _until(line, until)


def _until(line: CronLine, wall: datetime) -> int:
    """From the beginning of its day on."""
    if wall.date() not in line.days:
        return 0
    hours, minutes, seconds = line.hour.values, line.minute.values, line.second.values
    found = bisect_left(hours, wall.hour) * len(minutes) * len(seconds)
    if wall.hour in hours:
        found += bisect_left(minutes, wall.minute) * len(seconds)
        if wall.minute in minutes:
            found += bisect_right(seconds, wall.second)
    return found
