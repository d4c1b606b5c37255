"""Phrases for recurring schedules. Those with a clock time or a day become cron lines; those that only count become
intervals, which are counted from creation or from the first named time."""

from collections.abc import Callable, Sequence
from datetime import time, timedelta

from duetime.model.schedule.cron import make_cron
from duetime.model.schedule.cron_line import read_line
from duetime.model.schedule.every import Every
from duetime.model.schedule.moment import SECOND
from duetime.model.schedule.period import Period
from duetime.model.schedule.stored import Recurring
from duetime.model.schedule.words.clock import read_window, time_fields, times_at
from duetime.model.schedule.words.days import (
    Days,
    ordinal_of,
    read_date_of_year,
    read_month_days,
    read_weekday,
    read_weekdays,
)
from duetime.model.schedule.words.single import read_count, times
from duetime.model.schedule.words.tokens import NotUnderstood, Words
from duetime.model.schedule.words.vocabulary import RHYTHMS, UNIT_NAMES, WEEKDAY_NAMES
from duetime.model.schedule.zone import reach, wall_of, zone_named

_MINUTE = timedelta(minutes=1)
_DAY = 24 * 60
"""In minutes."""


def unit(words: Words) -> Recurring:
    """Every minute, hour, day, week, month or year; hourly, daily and so on."""
    name = words.look_up(RHYTHMS)
    if name is None:
        _need_every(words)
        name = words.need_one_of(UNIT_NAMES)
    if name == "second":
        return _cron(["* * *"], read_weekdays_on(words), words)
    if name == "minute":
        return _narrowed(1, words)
    if name == "hour":
        return _narrowed(60, words, at_a_minute=True)
    return _cron_at(_days_of(name, words), words)


def counted(words: Words) -> Recurring:
    """Every so many units; every other tuesday."""
    _need_every(words)
    if words.take("other"):
        if words.peek() in WEEKDAY_NAMES:
            return _counted_from(Period(days=14), Days(of_week=read_weekday(words)), words)
        count = 2
    else:
        count = _ordinal_count(words) or read_count(words)
    if count < 1:
        raise words.place.refusal("every 0 is not an interval", "1 or more")
    period = times(count, words)
    if period.in_calendar:
        return _through_the_calendar(period, words)
    if words.peek() in ("on", "between", "from"):
        return _in_part(period, words)
    return Every(period.exact, zone=words.place.zone)


def weekdays(words: Words) -> Recurring:
    """Every monday and thursday; weekdays; mondays."""
    every = bool(words.take("every", "each"))
    if not every:
        words.take("on")
    return _cron_at(read_weekdays(words, every=every), words)


def month_days(words: Words) -> Recurring:
    """On the 1st and 15th; last friday of the month."""
    every = bool(words.take("every", "each"))
    words.take("on")
    return _cron_at(read_month_days(words, every=every), words)


def dates(words: Words) -> Recurring:
    """Every 24 december."""
    _need_every(words)
    return _cron_at(read_date_of_year(words), words)


def _days_of(name: str, words: Words) -> Days:
    """The days of a week, month or year that follow "on"; by default the first of each (Sunday, as in cron)."""
    on = bool(words.take("on"))
    if name == "day":
        if on:
            raise NotUnderstood
        return Days()
    if name == "week":
        return read_weekdays(words, every=True) if on else Days(of_week="SUN")
    if name == "year":
        return read_date_of_year(words) if on else Days("1", "1")
    days = read_month_days(words) if on else Days("1")
    return days._replace(month="1,4,7,10") if name == "quarter" else days


def _past_the_hour(words: Words) -> int | None:
    """The minute of the hour: "at :15", "at 15 past", "at 15 minutes past"; None if none is named."""
    if not words.take("at"):
        return None
    text = words.need()
    if text.startswith(":"):
        minute = int(text[1:])
    else:
        if not text.isdigit() or len(text) > 2:
            raise NotUnderstood
        minute = int(text)
        words.take("minute", "minutes")
        words.need("past")
    if minute > 59:
        raise words.place.refusal(f"an hour has no minute {minute}", "0 to 59")
    return minute


def _ordinal_count(words: Words) -> int:
    """The count of "every second day" and "every 5th minute"; 0 if no unit follows, or the first is meant."""
    number = ordinal_of(words.peek()) or 0
    if number < 2 or words.peek(1) not in UNIT_NAMES:
        return 0
    words.take()
    return number


def read_weekdays_on(words: Words) -> Days:
    """Days of the week that follow "on"; by default every day."""
    return read_weekdays(words, every=True) if words.take("on") else Days()


def _in_part(period: Period, words: Words) -> Recurring:
    """An interval on some days only, or between two times of the day."""
    minutes, left = divmod(period.exact, _MINUTE)
    if left or not minutes:
        raise words.place.refusal("an interval in seconds has no days or times", "such as every 15 minutes")
    return _narrowed(minutes, words)


def _narrowed(step: int, words: Words, *, at_a_minute: bool = False) -> Recurring:
    """Every so many minutes, on some days or between two times of the day; every hour also at a minute past it."""
    past = _past_the_hour(words) if at_a_minute else None
    days = read_weekdays_on(words)
    if past is None and at_a_minute and days != Days():
        past = _past_the_hour(words)
    window = read_window(words) if words.peek() in ("between", "from") else None
    if days == Days():
        days = read_weekdays_on(words)
    if window is not None:
        if days != Days() and window[1] < window[0]:
            raise words.place.refusal("those times pass midnight, into another day", "a job for each part of the night")
        return _cron(time_fields(_between(*window, step, past), step), days, words)
    if past is not None:
        return _cron([f"{past} *"], days, words)
    for unit_minutes, whole, each, some in ((1, 60, "* *", "*/{} *"), (60, 24, "0 *", "0 */{}")):
        count, left = divmod(step, unit_minutes)
        if not left and count < whole and whole % count == 0:
            return _cron([some.format(count) if count > 1 else each], days, words)
    raise words.place.refusal("that interval does not go evenly into an hour or a day", "such as every 15 minutes")


def _between(first: time, last: time, step: int, past: int | None) -> list[time]:
    """The times from the first to the last, inclusive: by a step from the first, or past each hour."""
    begin, end = first.hour * 60 + first.minute, last.hour * 60 + last.minute
    end += 0 if end > begin else _DAY
    if past is not None:
        begin += (past - begin) % 60
    return [time(at % _DAY // 60, at % 60) for at in range(begin, end + 1, step)]


def _through_the_calendar(period: Period, words: Words) -> Every:
    """Counted from creation; or, when a day or a time is named, from the first such time in the future."""
    days = Days()
    if period.days % 7 == 0 and period.days and words.take("on"):
        days = Days(of_week=read_weekday(words))
    elif period.months and words.take("on"):
        days = read_date_of_year(words) if period.months % 12 == 0 else read_month_days(words)
        if not days.of_month.isdigit():
            raise words.place.refusal("an interval of months is counted from one day of the month", "such as the 15th")
    if days == Days() and words.peek() != "at":
        return Every(period.exact, None, period.months, period.days, words.place.zone)
    return _counted_from(period, days, words)


def _counted_from(period: Period, days: Days, words: Words) -> Every:
    """Counted from the first such day and time in the future."""
    at = times_at(words)
    if len(at) > 1:
        raise words.place.refusal("an interval of days has one time", "make a job for each time")
    zone = zone_named(words.place.zone)
    line = read_line(f"{at[0].second} {at[0].minute} {at[0].hour} {days.fields}")
    first = line.first_from(wall_of(words.place.now, zone).replace(microsecond=0, fold=0) + SECOND)
    if first is None:
        raise NotUnderstood
    return Every(period.exact, reach(first, zone), period.months, period.days, words.place.zone)


def _cron_at(days: Days, words: Words) -> Recurring:
    return _cron(time_fields(times_at(words)), days, words)


def _cron(fields: Sequence[str], days: Days, words: Words) -> Recurring:
    return make_cron("; ".join(f"{each} {days.fields}" for each in fields), words.place.zone)


def _need_every(words: Words) -> None:
    words.need("every", "each")


REPEATED: tuple[Callable[[Words], Recurring], ...] = (unit, counted, weekdays, month_days, dates)
