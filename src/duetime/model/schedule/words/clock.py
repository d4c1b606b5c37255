"""Times of the day: 9, 9am, 9:30, 17:30, noon, midnight; and lists of them."""

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


def times_at(words: Words) -> Times:
    """What follows "at"; midnight if nothing is said."""
    return read_times(words) if words.take("at") else MIDNIGHT


def time_fields(times: Times, words: Words) -> str:
    """The fields of a cron line for these times, which one line can name only if they share hours or minutes."""
    hours = sorted({item.hour for item in times})
    minutes = sorted({item.minute for item in times})
    seconds = sorted({item.second for item in times})
    if len(hours) * len(minutes) * len(seconds) != len(times):
        fitting = [item.replace(minute=times[0].minute, second=times[0].second) for item in times]
        raise words.place.refusal(
            f"{_shown(times)} do not fit into one schedule",
            f"make a job for each of them; the nearest: at {_shown(sorted(set(fitting)))}",
        )
    fields = [_listed(minutes), _listed(hours)]
    return " ".join(fields if seconds == [0] else [_listed(seconds), *fields])


def _shown(times: Times) -> str:
    return " and ".join(item.isoformat("auto" if item.second else "minutes") for item in times)


def _listed(values: list[int]) -> str:
    return ",".join(map(str, values))
