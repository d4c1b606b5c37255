"""Phrases for one run: "now", "in 2 hours", "tomorrow at 8", "next monday at 9am", "on 2030-12-24 at 18:00"."""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta

from duetime.model.schedule.moment import DAY
from duetime.model.schedule.once import NOW, Once
from duetime.model.schedule.parts import delayed, once_at
from duetime.model.schedule.period import MOST_DAYS, MOST_MONTHS, Period
from duetime.model.schedule.words.clock import read_time
from duetime.model.schedule.words.days import read_weekday
from duetime.model.schedule.words.tokens import NotUnderstood, Words
from duetime.model.schedule.words.vocabulary import NUMBERS, UNIT_NAMES, UNITS
from duetime.model.schedule.zone import wall_of, zone_named

_LONGEST = timedelta(days=MOST_DAYS)
_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")


def at_once(words: Words) -> Once:
    words.take("right")
    words.need("now", "immediately")
    return NOW


def after_a_while(words: Words) -> Once:
    """In a duration: exact, or through the calendar when it counts in days or more."""
    words.need("in")
    period = read_length(words)
    while words.separator():
        further = read_length(words)
        period = Period(period.months + further.months, period.days + further.days, period.exact + further.exact)
    return delayed(str(period), words.place.zone, words.place.now)


def at_a_time(words: Words) -> Once:
    """At a time of the day: the next one."""
    words.need("at")
    at = read_time(words)
    today = _today(words)
    found = _once(today, at, words)
    return found if found.at is not None and found.at > words.place.now else _once(today + DAY, at, words)


def on_a_day(words: Words) -> Once:
    """On a named day, at a time."""
    day = _read_day(words)
    words.need("at")
    found = _once(day, read_time(words), words)
    if found.at is not None and found.at <= words.place.now:
        raise words.place.refusal("that time has passed", "name a future time")
    return found


def read_length(words: Words) -> Period:
    """So many units of time; "a", "half an hour" and numbers in words are known."""
    if words.take("half"):
        words.need("a", "an")
        if UNIT_NAMES.get(words.need()) != "hour":
            raise NotUnderstood
        return Period(exact=timedelta(minutes=30))
    count = 1 if words.take("a", "an") else read_count(words)
    return times(count, words)


def read_count(words: Words) -> int:
    named = words.look_up(NUMBERS)
    if named is not None:
        return named
    text = words.take()
    if not text.isdigit():
        raise NotUnderstood
    if len(text) > 9:
        raise words.place.refusal(f"{text[:20]} is too many")
    return int(text)


def times(count: int, words: Words) -> Period:
    unit = UNITS[words.need_one_of(UNIT_NAMES)]
    period = Period(unit.months * count, unit.days * count, unit.exact * count)
    if period.months > MOST_MONTHS or period.days > MOST_DAYS or period.exact > _LONGEST:
        raise words.place.refusal(f"{count} is too many", "100 years at most")
    return period


def _read_day(words: Words) -> date:
    today = _today(words)
    if words.take("today"):
        return today
    if words.take("tomorrow"):
        return today + DAY
    if words.take("next"):
        ahead = (_WEEKDAYS.index(read_weekday(words)) - today.weekday() - 1) % 7 + 1
        return today + ahead * DAY
    words.take("on")
    if "-" in words.peek():
        try:
            return date.fromisoformat(words.take())
        except ValueError:
            raise words.place.refusal("that day does not exist") from None
    words.take("the")
    for word in ("day", "after", "tomorrow"):
        words.need(word)
    return today + 2 * DAY


def _today(words: Words) -> date:
    return wall_of(words.place.now, zone_named(words.place.zone)).date()


def _once(day: date, at: time, words: Words) -> Once:
    try:
        return once_at(datetime.combine(day, at), words.place.zone, words.place.field)
    except OverflowError:
        raise words.place.refusal("that day does not exist") from None


SINGLE: tuple[Callable[[Words], Once], ...] = (at_once, after_a_while, at_a_time, on_a_day)
