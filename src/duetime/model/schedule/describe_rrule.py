"""A recurrence rule in words: "Every 2 weeks, on Monday and Thursday, at 09:00, from 2026-01-05 09:00"."""

from datetime import datetime

from duetime.model.schedule.describe_cron import MONTH_NAMES, WEEKDAY_NAMES, clock, listed, numbers, ordinal
from duetime.model.schedule.rrule_parts import DAILY, FREQUENCIES, Parts

_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_MOST_TIMES = 6


def describe_rrule(parts: Parts) -> list[str]:
    """How often, on which days, at which times, and within which bounds."""
    unit = _UNITS[parts.frequency]
    phrases = [f"Every {unit}" if parts.interval == 1 else f"Every {parts.interval} {unit}s"]
    phrases += _days(parts)
    if parts.positions:
        phrases.append(f"of these the {listed([_counted(number) for number in parts.positions])} in the {unit}")
    phrases += _months(parts)
    phrases += _times(parts)
    if parts.begin is not None:
        phrases.append(f"from {_shown(parts.begin)}")
    if parts.until is not None:
        phrases.append(f"until {_shown(parts.until)}{'' if parts.until.tzinfo is None else 'Z'}")
    if parts.most is not None:
        phrases.append("once" if parts.most == 1 else f"{parts.most} times")
    return phrases


def _days(parts: Parts) -> list[str]:
    found = []
    if parts.month_days:
        found.append(f"on the {listed([_day_of_month(day) for day in parts.month_days])} of the month")
    if parts.year_days:
        found.append(f"on the {listed([_counted_day(day) for day in parts.year_days])} of the year")
    if parts.weekdays:
        yearly = FREQUENCIES[parts.frequency] == "YEARLY" and not parts.months
        found.append(f"on {_weekdays(parts, 'year' if yearly else 'month')}")
    if parts.weeks:
        found.append(f"in week {listed([str(week) if week > 0 else f'{-week} from the end' for week in parts.weeks])}")
    return [" if that is ".join([found[0], *(each.removeprefix("on ") for each in found[1:])])] if found else []


def _weekdays(parts: Parts, within: str) -> str:
    plain = [WEEKDAY_NAMES[(day + 1) % 7] for day, number in parts.weekdays if not number]
    nth = [
        f"the {_counted(number)} {WEEKDAY_NAMES[(day + 1) % 7]} of the {within}"
        for day, number in parts.weekdays
        if number
    ]
    return listed([*plain, *nth])


def _months(parts: Parts) -> list[str]:
    return [f"in {listed([MONTH_NAMES[month - 1] for month in parts.months])}"] if parts.months else []


def _times(parts: Parts) -> list[str]:
    """The times of the day of a daily or less frequent rule; the restrictions of a more frequent one."""
    if parts.frequency <= DAILY:
        count = len(parts.hours) * len(parts.minutes) * len(parts.seconds)
        if count <= _MOST_TIMES:
            clocks = [clock(*each) for each in _product(parts)]
            return [f"at {listed(clocks)}"]
    phrases = []
    on_the_hour = FREQUENCIES[parts.frequency] == "HOURLY" and parts.minutes == (0,) and parts.seconds == (0,)
    if parts.hours:
        phrases.append(f"in {_noun('hour', parts.hours)} {numbers(parts.hours)}")
    if parts.minutes:
        phrases.append(
            "on the hour" if on_the_hour else f"in {_noun('minute', parts.minutes)} {numbers(parts.minutes)}"
        )
    if parts.seconds and parts.seconds != (0,):
        phrases.append(f"at {_noun('second', parts.seconds)} {numbers(parts.seconds)}")
    return phrases


def _noun(unit: str, values: tuple[int, ...]) -> str:
    return unit if len(values) == 1 else f"{unit}s"


def _product(parts: Parts) -> list[tuple[int, int, int]]:
    return [(hour, minute, second) for hour in parts.hours for minute in parts.minutes for second in parts.seconds]


def _day_of_month(day: int) -> str:
    return ordinal(day) if day > 0 else f"{_counted(day)} day"


def _counted_day(day: int) -> str:
    return f"{_counted(day)} day"


def _counted(number: int) -> str:
    if number > 0:
        return ordinal(number)
    return "last" if number == -1 else f"{ordinal(-number)} last"


def _shown(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(" ", "seconds" if moment.second else "minutes")
