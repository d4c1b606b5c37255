"""Phrases that mean again and again. Those with a clock time or a day become cron lines; those that only count become
intervals, which are counted from creation or from the first time that is named."""

from collections.abc import Callable
from datetime import timedelta

from duetime.model.schedule.cron import make_cron
from duetime.model.schedule.every import Every
from duetime.model.schedule.line import read_line
from duetime.model.schedule.moment import SECOND
from duetime.model.schedule.period import Period
from duetime.model.schedule.stored import Recurring
from duetime.model.schedule.words.clock import time_fields, times_at
from duetime.model.schedule.words.days import (
    Days,
    read_date_of_year,
    read_month_days,
    read_weekday,
    read_weekdays,
)
from duetime.model.schedule.words.single import read_count, times
from duetime.model.schedule.words.tokens import NotUnderstood, Words
from duetime.model.schedule.words.vocabulary import RHYTHMS, UNIT_NAMES
from duetime.model.schedule.zone import reach, wall_of, zone_named

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)


def unit(words: Words) -> Recurring:
    """Every minute, hour, day, week, month or year; hourly, daily and so on."""
    name = words.look_up(RHYTHMS)
    if name is None:
        _need_every(words)
        name = words.need_one_of(UNIT_NAMES)
    if name == "second":
        return _cron("* * *", Days(), words)
    if name == "minute":
        return _cron("* *", Days(), words)
    if name == "hour":
        return _cron(f"{_past_the_hour(words)} *", Days(), words)
    return _cron_at(_days_of(name, words), words)


def counted(words: Words) -> Recurring:
    """Every so many units."""
    _need_every(words)
    count = 2 if words.take("other") else read_count(words)
    if count < 1:
        raise words.place.refusal("every 0 is no interval", "1 or more")
    period = times(count, words)
    if not period.in_calendar:
        return _on_days(period, words) if words.peek() == "on" else Every(period.exact, zone=words.place.zone)
    return _through_the_calendar(period, words)


def weekdays(words: Words) -> Recurring:
    """Every monday and thursday; weekdays; mondays."""
    every = bool(words.take("every", "each"))
    if not every:
        words.take("on")
    return _cron_at(read_weekdays(words, every=every), words)


def month_days(words: Words) -> Recurring:
    """On the 1st and 15th; last friday of the month."""
    words.take("every", "each", "on")
    return _cron_at(read_month_days(words), words)


def dates(words: Words) -> Recurring:
    """Every 24 december."""
    _need_every(words)
    return _cron_at(read_date_of_year(words), words)


def _days_of(name: str, words: Words) -> Days:
    """The days of a week, month or year that follow "on"; the first of each if nothing is said (Sunday, as in cron)."""
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


def _past_the_hour(words: Words) -> int:
    """Which minute of the hour: "at :15", "at 15 past", "at 15 minutes past"."""
    if not words.take("at"):
        return 0
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


def _on_days(period: Period, words: Words) -> Recurring:
    """An interval on some days only, which a cron line can say if it goes evenly into an hour or a day."""
    words.need("on")
    days = read_weekdays(words, every=True)
    for step, whole, fields in ((_MINUTE, 60, "*/{} *"), (_HOUR, 24, "0 */{}")):
        count, left = divmod(period.exact, step)
        if not left and count < whole and whole % count == 0:
            return _cron(fields.format(count), days, words)
    raise words.place.refusal("that interval does not go evenly into an hour or a day", "such as every 15 minutes")


def _through_the_calendar(period: Period, words: Words) -> Every:
    """Counted from creation; or, when a day or a time is named, from the first such time to come."""
    days = Days()
    if period.days % 7 == 0 and period.days and words.take("on"):
        days = Days(of_week=read_weekday(words))
    elif period.months and words.take("on"):
        days = read_date_of_year(words) if period.months % 12 == 0 else read_month_days(words)
        if not days.of_month.isdigit():
            raise words.place.refusal("an interval of months is counted from one day of the month", "such as the 15th")
    if days == Days() and words.peek() != "at":
        return Every(period.exact, None, period.months, period.days, words.place.zone)
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
    return _cron(time_fields(times_at(words), words), days, words)


def _cron(fields: str, days: Days, words: Words) -> Recurring:
    return make_cron(f"{fields} {days.fields}", words.place.zone)


def _need_every(words: Words) -> None:
    words.need("every", "each")


REPEATED: tuple[Callable[[Words], Recurring], ...] = (unit, counted, weekdays, month_days, dates)
