"""A cron line in words: "At 09:00, Monday to Friday". Says what the line does, which is not always what was meant."""

from collections.abc import Sequence

from duetime.model.schedule.field import LAST, LAST_WEEKDAY, Field, Item
from duetime.model.schedule.line import CronLine

MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", LAST: "last"}
_MOST_TIMES = 6


def tell_line(line: CronLine) -> str:
    """The times, then the days, then the months."""
    parts = [_times(line), *_days(line)]
    if not line.month.every:
        parts.append(f"in {_names(line.month.values, MONTH_NAMES, first=1)}")
    return ", ".join(parts)


def listed(words: Sequence[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def ordinal(number: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number // 10 != 1 else 0, "th")
    return f"{number}{suffix}"


def _times(line: CronLine) -> str:
    hours, minutes, seconds = line.hour.values, line.minute.values, line.second.values
    if len(hours) * len(minutes) * len(seconds) <= _MOST_TIMES:
        shown = [_clock(hour, minute, second) for hour in hours for minute in minutes for second in seconds]
        return f"At {listed(shown)}"
    told = _minutes(line)
    if seconds == (0,):
        return told
    step = _even_step(line.second, 60)
    by_second = f"Every {_counted(step, 'second')}" if step else f"At {_plural('second', seconds)}"
    if line.minute.every and line.hour.every:
        return by_second if step else f"{by_second} of every minute"
    return f"{by_second}, {told[0].lower()}{told[1:]}"


def _minutes(line: CronLine) -> str:
    """The minutes and hours."""
    minutes, hours = line.minute.values, line.hour.values
    step, hour_step = _even_step(line.minute, 60), _even_step(line.hour, 24)
    if step and len(minutes) > 1:
        rhythm = f"Every {_counted(step, 'minute')}"
        if line.hour.every:
            return rhythm
        if len(hours) == 1 or _is_run(hours):
            return f"{rhythm}, from {hours[0]:02}:00 to {hours[-1]:02}:59"
        return f"{rhythm}, in {_plural('hour', hours)}"
    past = "on the hour" if minutes == (0,) else f"at {_numbers(minutes)} minutes past"
    if hour_step and len(hours) > 1:
        return f"Every {_counted(hour_step, 'hour')}, {past}"
    if _is_run(hours):
        return f"Every hour from {hours[0]:02}:00 to {hours[-1]:02}:00, {past}"
    return f"{past[0].upper()}{past[1:]}, in {_plural('hour', hours)}"


def _days(line: CronLine) -> list[str]:
    of_month, of_week = line.day_of_month, line.day_of_week
    if of_month.every and of_week.every:
        return []
    if of_month.every:
        return [_weekdays(of_week)]
    if of_week.every:
        return [_month_days(of_month)]
    if line.either_day:
        return [f"{_month_days(of_month)} or {_on(_weekdays(of_week))}"]
    return [f"{_month_days(of_month)} if that is {_weekdays(of_week).removeprefix('on ')}"]


def _weekdays(field: Field) -> str:
    nth = [f"{_NTH[item.nth]} {WEEKDAY_NAMES[item.low]}" for item in field.items if item.nth]
    plain = sorted((value + 6) % 7 for value in field.values)
    named = [_names(plain, WEEKDAY_NAMES[1:] + WEEKDAY_NAMES[:1])] if plain else []
    if not nth:
        return named[0]
    return f"on {listed([*named, f'the {listed(nth)} of the month'])}"


def _month_days(field: Field) -> str:
    special = {LAST: "last day", LAST_WEEKDAY: "last weekday"}
    if field.open and len(field.items) == 1 and field.items[0].step == 2:
        return "on every odd day of the month"
    days = [*map(ordinal, field.values), *(special[item.low] for item in field.items if item.low in special)]
    return f"on the {listed(_collapsed(field.items) or days)} of the month"


def _collapsed(items: tuple[Item, ...]) -> list[str] | None:
    """Ranges as ranges: "1st to 7th"."""
    if any(item.low < 0 or item.step > 1 for item in items):
        return None
    return [
        ordinal(item.low) if item.low == item.high else f"{ordinal(item.low)} to {ordinal(item.high)}" for item in items
    ]


def _on(text: str) -> str:
    return text if text.startswith("on ") else f"on {text}"


def _names(values: Sequence[int], names: Sequence[str], first: int = 0) -> str:
    if len(values) > 2 and _is_run(values):
        return f"{names[values[0] - first]} to {names[values[-1] - first]}"
    return listed([names[value - first] for value in values])


def _plural(word: str, values: Sequence[int]) -> str:
    return f"{word}{'s' if len(values) > 1 else ''} {_numbers(values)}"


def _numbers(values: Sequence[int]) -> str:
    if len(values) > 2 and _is_run(values):
        return f"{values[0]} to {values[-1]}"
    return listed([str(value) for value in values])


def _is_run(values: Sequence[int]) -> bool:
    return len(values) > 1 and values[-1] - values[0] == len(values) - 1


def _even_step(field: Field, whole: int) -> int:
    """The step of a field that is the same all around the clock; 0 if it has none."""
    step = field.items[0].step
    return step if field.open and len(field.items) == 1 and whole % step == 0 else 0


def _counted(count: int, unit: str) -> str:
    return unit if count == 1 else f"{count} {unit}s"


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")
