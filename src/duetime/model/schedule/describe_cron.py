"""A cron line in words: "At 09:00, Monday to Friday". It describes what the line does, which is not always what was
meant.

Every named time is one at which the line fires: "from 09:30 to 17:30" names the first and the last of a day.
"""

from collections.abc import Sequence

from duetime.model.schedule.cron_field import LAST, Field, Item
from duetime.model.schedule.cron_line import CronLine

MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", LAST: "last"}
_MOST_TIMES = 6


def describe_lines(lines: Sequence[CronLine]) -> str:
    """Several lines: their times, and the days once if all have the same."""
    if len({_day_fields(line) for line in lines}) > 1:
        return _joined([describe_line(line) for line in lines])
    clocks = sorted({clock for line in lines for clock in _clocks(line)})
    if sum(len(_clocks(line)) for line in lines) <= _MOST_TIMES:
        times = f"At {listed([clock(*each) for each in clocks])}"
    else:
        times = _joined([_times(line) for line in lines])
    return ", ".join([times, *_when(lines[0])])


def _joined(phrases: Sequence[str]) -> str:
    return "; ".join([phrases[0], *(f"{each[0].lower()}{each[1:]}" for each in phrases[1:])])


def describe_line(line: CronLine) -> str:
    """The times, then the days, then the months and years."""
    return ", ".join([_times(line), *_when(line)])


def _when(line: CronLine) -> list[str]:
    parts = _days(line)
    if not line.month.every:
        parts.append(f"in {_names(line.month.values, MONTH_NAMES, first=1)}")
    if line.year is not None and not line.year.every:
        parts.append(f"in {numbers(line.year.values)}")
    return parts


def _day_fields(line: CronLine) -> tuple[str, ...]:
    year = "*" if line.year is None else line.year.text
    return (line.day_of_month.text, line.month.text, line.day_of_week.text, year)


def listed(words: Sequence[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def ordinal(number: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number // 10 != 1 else 0, "th")
    return f"{number}{suffix}"


def _clocks(line: CronLine) -> list[tuple[int, int, int]]:
    """The times of a day; the first few, if there are many."""
    hours, minutes, seconds = line.hour.values, line.minute.values, line.second.values
    if len(hours) * len(minutes) * len(seconds) > _MOST_TIMES:
        return [(hours[0], minutes[0], seconds[0])] * (_MOST_TIMES + 1)
    return [(hour, minute, second) for hour in hours for minute in minutes for second in seconds]


def _times(line: CronLine) -> str:
    clocks = _clocks(line)
    if len(clocks) <= _MOST_TIMES:
        return f"At {listed([clock(*each) for each in clocks])}"
    seconds = line.second.values
    if seconds == (0,):
        return _minutes(line)
    step = _even_step(line.second, 60)
    by_second = f"Every {_counted(step, 'second')}" if step else f"At {_plural('second', seconds)}"
    if not line.minute.every:
        phrases = _minutes(line)
        return f"{by_second} of these minutes: {phrases[0].lower()}{phrases[1:]}"
    of_each = by_second if step else f"{by_second} of every minute"
    return of_each if line.hour.every else f"{of_each}, {_hours(line)}"


def _minutes(line: CronLine) -> str:
    """The minutes and hours."""
    minutes, hours = line.minute.values, line.hour.values
    step, hour_step = _even_step(line.minute, 60), _even_step(line.hour, 24)
    if step and len(minutes) > 1:
        rhythm = f"Every {_counted(step, 'minute')}"
        return rhythm if line.hour.every else f"{rhythm}, {_hours(line)}"
    past = "on the hour" if minutes == (0,) else f"at {_plural_past(minutes)} past"
    if hour_step and len(hours) > 1:
        return f"Every {_counted(hour_step, 'hour')}, {past}"
    if len(minutes) == 1 and _ends(hours, 24) is not None:
        return f"Every hour {_hours(line)}"
    if len(minutes) > 1:
        return f"{past[0].upper()}{past[1:]} the hour, {_hours(line)}"
    return f"{past[0].upper()}{past[1:]}, {_hours(line)}"


def _hours(line: CronLine) -> str:
    """From the first to the last time of a day; or the hours, if they have gaps between them."""
    hours = line.hour.values
    ends = (hours[0], hours[0]) if len(hours) == 1 else _ends(hours, 24)
    if ends is None:
        return f"in {_plural('hour', hours)}"
    first = clock(ends[0], line.minute.values[0], line.second.values[0])
    return f"from {first} to {clock(ends[1], line.minute.values[-1], line.second.values[-1])}"


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
    nth = [f"{_NTH[item.nth]} {WEEKDAY_NAMES[item.low]}" for item in field.marked]
    plain = sorted((value + 6) % 7 for value in field.values)
    named = [_names(plain, WEEKDAY_NAMES[1:] + WEEKDAY_NAMES[:1])] if plain else []
    if not nth:
        return named[0]
    return f"on {listed([*named, f'the {listed(nth)} of the month'])}"


def _month_days(field: Field) -> str:
    if field.open and len(field.items) == 1 and field.items[0].step == 2:
        return "on every odd day of the month"
    days = [*map(ordinal, field.values), *map(_marked_day, field.marked)]
    return f"on the {listed(_collapsed(field) or days)} of the month"


def _marked_day(item: Item) -> str:
    if item.mark == "W":
        return f"weekday nearest to the {ordinal(item.low)}"
    if item.mark == "L" and item.low:
        return f"day {_counted(item.low, 'day') if item.low > 1 else '1 day'} before the last"
    return "last day" if item.mark == "L" else "last weekday"


def _collapsed(field: Field) -> list[str] | None:
    """Ranges as ranges: "1st to 7th"."""
    if any(item.mark or item.step > 1 for item in field.items):
        return None
    spans = [(item.low, (item.high - 1) % 31 + 1) for item in field.items]
    return [ordinal(low) if low == high else f"{ordinal(low)} to {ordinal(high)}" for low, high in spans]


def _on(text: str) -> str:
    return text if text.startswith("on ") else f"on {text}"


def _names(values: Sequence[int], names: Sequence[str], first: int = 0) -> str:
    ends = _ends(values, len(names)) if len(values) > 2 else None
    if ends is not None:
        return f"{names[ends[0] - first]} to {names[ends[1] - first]}"
    return listed([names[value - first] for value in values])


def _plural(word: str, values: Sequence[int]) -> str:
    return f"{word}{'s' if len(values) > 1 else ''} {numbers(values)}"


def _plural_past(minutes: Sequence[int]) -> str:
    return f"{numbers(minutes)} minute{'' if list(minutes) == [1] else 's'}"


def numbers(values: Sequence[int]) -> str:
    if len(values) > 2 and values[-1] - values[0] == len(values) - 1:
        return f"{values[0]} to {values[-1]}"
    return listed([str(value) for value in values])


def _ends(values: Sequence[int], span: int) -> tuple[int, int] | None:
    """The first and the last of consecutive values, also across the wrap-around: 22, 23, 0 and 1."""
    if len(values) < 2:
        return None
    if values[-1] - values[0] == len(values) - 1:
        return values[0], values[-1]
    gaps = [at for at in range(1, len(values)) if values[at] - values[at - 1] > 1]
    through = len(gaps) == 1 and values[0] + span - values[-1] == 1
    return (values[gaps[0]], values[gaps[0] - 1]) if through else None


def _even_step(field: Field, whole: int) -> int:
    """The step of a field that is even around the whole clock; 0 if it has none."""
    step = field.items[0].step
    return step if field.open and len(field.items) == 1 and whole % step == 0 else 0


def _counted(count: int, unit: str) -> str:
    return unit if count == 1 else f"{count} {unit}s"


def clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")
