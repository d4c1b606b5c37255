"""Times of the day: 9, 9am, 9:30, 17:30, noon, midnight; lists of them, and times between two of them."""

from collections.abc import Sequence
from datetime import time

from duetime.model.schedule.words.tokens import NotUnderstood, Words

Times = list[time]
MIDNIGHT = [time(0)]


def read_time(words: Words) -> time:
    """One time of the day. A bare number is an hour of 24."""
    if words.take("noon"):
        return time(12)
    if words.take("midnight"):
        return time(0)
    text = words.take()
    parts = text.split(":")
    if not all(part.isdigit() for part in parts) or len(parts[0]) > 2:
        raise NotUnderstood
    hour, minute, second = (*map(int, parts), 0, 0)[:3]
    half = words.take("am", "pm")
    if not half:
        words.take("o'clock")
    elif not 1 <= hour <= 12:
        raise words.place.refusal(f"{text} {half} is not a time of the day", "1am to 12pm, or a time of 24 hours")
    else:
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise words.place.refusal(f"{text} is not a time of the day", "0:00 to 23:59")
    return time(hour, minute, second)


def read_times(words: Words) -> Times:
    """One time or more: "9:00, 12:00 and 17:00"."""
    times = [read_time(words)]
    while words.separator():
        times.append(read_time(words))
    return sorted(set(times))


def read_window(words: Words) -> tuple[time, time]:
    """What follows "between" or "from": the first and the last time."""
    joined = ("and",) if words.need("between", "from") == "between" else ("to", "until", "till", "through")
    first = read_time(words)
    words.need(*joined)
    last = read_time(words)
    if first.second or last.second:
        raise NotUnderstood
    if first == last:
        raise words.place.refusal("begins and ends at the same time", "such as between 9:00 and 17:00")
    return first, last


def times_at(words: Words) -> Times:
    """What follows "at"; midnight if nothing does."""
    return read_times(words) if words.take("at") else MIDNIGHT


def time_fields(times: Sequence[time], step: int = 0) -> list[str]:
    """The time fields of the cron lines that name these times: as few as possible, since a line names each of its
    minutes in each of its hours. Times with a `step` in minutes keep its rhythm in the hours that they fill."""
    lines = []
    for second in sorted({item.second for item in times}):
        by_hour: dict[int, list[int]] = {}
        for item in sorted(times):
            if item.second == second:
                by_hour.setdefault(item.hour, []).append(item.minute)
        for minutes in dict.fromkeys(map(tuple, by_hour.values())):
            hours = [hour for hour, found in by_hour.items() if tuple(found) == minutes]
            fields = [_minutes(minutes, step), _listed(hours)]
            lines.append(" ".join([str(second), *fields] if second else fields))
    return lines if len({len(line.split()) for line in lines}) == 1 else [_with_seconds(line) for line in lines]


def _with_seconds(line: str) -> str:
    return line if len(line.split()) == 3 else f"0 {line}"


def _minutes(values: tuple[int, ...], step: int) -> str:
    if step and len(values) > 1 and values == tuple(range(0, 60, step)):
        return "*" if step == 1 else f"*/{step}"
    return _listed(values)


def _listed(values: Sequence[int]) -> str:
    """Values with commas; three or more consecutive ones as a range."""
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
